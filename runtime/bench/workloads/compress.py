"""Scenario `compress`: what the state of many open runs takes, and how fast it is written, by how it is encoded.

1,000 runs are open at once, each at another place of its life, and each 5 s of virtual time all of them are
checkpointed: two tasks of a run are executed at a time and take a second, so ten nodes of each have ended since. Every
way writes into SQLite, one synced transaction a checkpoint, as `checkpoint.db` does:

- JSON, Protocol Buffers, MessagePack and columns through Zstandard (`runtime.bench.encodings`), whole each time; and as
  deltas, the nodes that changed, with the whole one each tenth time, not all of them at once;
- `checkpoint.db` as its first format was: pieces of columns by zlib, those that changed are written again;
- `checkpoint.db` as it is: `actors.saved_run`, `actors.saved_again`, `runtime.storage.packing`. It is told which nodes
  ended as the fold of a log tells it.

A write is the state of one run at one checkpoint, from what the program has to the synced file. What each way has
written is read back in the end and compared.
"""

from __future__ import annotations

import gc
import os
import sqlite3
import tempfile
import time
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final
from uuid import UUID

from actors.run import Run
from actors.saved import SavedPart, touched_parts
from actors.saved_again import Touched, Unchanged
from actors.saved_run import load_run, save_run, stripped
from actors.state_column import SUCCEEDED
from runtime.bench.encodings import ENCODINGS, RowEncoding
from runtime.bench.figures import BenchError, Sample
from runtime.bench.lives import Life, Lives, check_rows
from runtime.bench.workloads.base import Scenario, Setup
from runtime.storage import packing
from runtime.storage.checkpoint import CheckpointFile

RUNS: Final = 1_000
RUNS_SMOKE: Final = 10
CHECKPOINTS: Final = 12
WHOLE_EACH: Final = 10
NODES_EACH: Final = 10
"""Of a run that end between two checkpoints."""
VIRTUAL_NS: Final = 5_000_000_000
OWN: Final = UUID(int=1)
OURS: Final = "checkpoint.db"
FORMAT_1: Final = "checkpoint.db, format 1"
PUBLISHED: Final = (
    ("JSON", 428_000, 182),
    ("Protocol Buffers", 112_000, None),
    ("deltas", 18_300, 693),
)
"""Bytes and writes per second of the case that this is compared with."""


class CompressScenario(Scenario):
    """Bytes of a run's state and writes per second; the window is all writes of `checkpoint.db`."""

    name = "compress"
    title = "the state of 1,000 open runs each 5 virtual s, by encoding; a task is one node of them"
    tasks_default = 200_000
    tasks_smoke = 400
    durability_default = None

    def params(self, setup: Setup) -> dict[str, Any]:
        runs = _runs(setup)
        return {"runs": runs, "nodes": _nodes(setup), "checkpoints": CHECKPOINTS, "ended_each": NODES_EACH}

    def run(self, setup: Setup) -> Sample:
        gc.collect()
        gc.disable()  # as in the process that takes checkpoints; a collection here would go through all the runs
        try:
            return self._run(setup)
        finally:
            gc.enable()

    def _run(self, setup: Setup) -> Sample:
        lives = Lives(_runs(setup), _nodes(setup))
        with tempfile.TemporaryDirectory(prefix="mainspring-bench-", dir=setup.folder) as folder:
            ways = [*_rows_ways(folder), _Own(folder), _FormatOne(folder)]
            try:
                for turn in range(CHECKPOINTS + 1):
                    for way in ways:
                        way.checkpoint(lives.lives, turn)
                    lives.move_on(NODES_EACH if turn < CHECKPOINTS else 0, VIRTUAL_NS)
                lives_now = lives.lives
                for way in ways:
                    way.check(lives, lives_now[-1])
            finally:
                for way in ways:
                    way.close()
        ours = ways[-2]
        extra = {f"{_key(way.name)}_{what}": value for way in ways for what, value in way.figures(len(lives.lives))}
        skipped = [f"without {kind.name}: {kind.missing()} is not installed" for kind in ENCODINGS if kind.missing()]
        return Sample(
            len(lives.lives) * CHECKPOINTS, ours.elapsed_ns, extra=extra, lines=(*table(ways, setup), *skipped)
        )


class Way(ABC):
    """One row of the table: writes checkpoints into a file of its own, and keeps account. The first is not counted."""

    name: str

    def __init__(self, folder: str) -> None:
        self.bytes = self.elapsed_ns = self.writes = 0
        self._folder = tempfile.mkdtemp(dir=folder)

    def checkpoint(self, lives: Sequence[Life], turn: int) -> None:
        """Write the state of all runs, in one transaction."""
        self.prepare(lives)
        opened_ns = time.perf_counter_ns()
        written = self.write(lives, turn)
        if turn:
            self.elapsed_ns += time.perf_counter_ns() - opened_ns
            self.bytes += written
            self.writes += len(lives)

    def prepare(self, lives: Sequence[Life]) -> None:  # noqa: B027 - most have nothing of that
        """What is not measured."""

    @abstractmethod
    def write(self, lives: Sequence[Life], turn: int) -> int:
        """Returns the bytes of the states, without what SQLite adds."""

    @abstractmethod
    def check(self, lives: Lives, life: Life) -> None:
        """Read this run again. Raises BenchError: it is not what was written."""

    @abstractmethod
    def close(self) -> None:
        """Close the file."""

    @property
    def bytes_each(self) -> float:
        """Of one run's state in one checkpoint, in the mean."""
        return self.bytes / self.writes

    @property
    def rate(self) -> float:
        """States written per second."""
        return self.writes / self.elapsed_ns * 1e9

    def figures(self, runs: int) -> Iterator[tuple[str, float]]:
        """For the report."""
        yield "each_bytes", self.bytes_each
        yield "checkpoint_bytes", self.bytes_each * runs
        yield "per_second", self.rate


class _Rows(Way):
    """An encoding of rows, whole or as deltas."""

    def __init__(self, folder: str, encoding: RowEncoding, *, deltas: bool) -> None:
        super().__init__(folder)
        self.name = f"{encoding.name}, deltas" if deltas else encoding.name
        self._encoding, self._deltas = encoding, deltas
        self._database = sqlite3.connect(os.path.join(self._folder, "state.db"), isolation_level=None)
        self._database.execute("PRAGMA synchronous=EXTRA")
        self._database.execute("CREATE TABLE state(run INTEGER, turn INTEGER, body BLOB, PRIMARY KEY (run, turn))")

    def prepare(self, lives: Sequence[Life]) -> None:
        self._encoding.prepare(lives)

    def write(self, lives: Sequence[Life], turn: int) -> int:
        execute, written = self._database.execute, 0
        execute("BEGIN IMMEDIATE")
        for life in lives:
            no = life.run.no
            if turn and self._deltas and (turn + no) % WHOLE_EACH:
                body = self._encoding.changes(life)
                execute("INSERT INTO state VALUES (?, ?, ?)", (no, turn, body))
            else:
                body = self._encoding.whole(life)
                execute("DELETE FROM state WHERE run = ?", (no,))
                execute("INSERT INTO state VALUES (?, ?, ?)", (no, 0, body))
            written += len(body)
        execute("COMMIT")
        return written

    def check(self, lives: Lives, life: Life) -> None:
        rows = self._database.execute("SELECT body FROM state WHERE run = ? ORDER BY turn", (life.run.no,))
        whole, *changes = (body for (body,) in rows)
        check_rows(self._encoding.rows(whole, changes), life, self.name)

    def close(self) -> None:
        self._database.close()


class _Own(Way):
    """`checkpoint.db`."""

    name = OURS

    def __init__(self, folder: str) -> None:
        super().__init__(folder)
        self._file = CheckpointFile.write(self._folder, OWN)
        self._touched = Touched()
        self._frames: dict[int, int] = {}

    def prepare(self, lives: Sequence[Life]) -> None:
        for life in lives:  # what reads a checkpoint has frames without results but for those that came since
            frames, seen = life.run.frames, self._frames.get(life.run.no, 0)
            frames[:seen] = map(partial(stripped, life.run.no), frames[:seen])
            self._frames[life.run.no] = len(frames)

    def write(self, lives: Sequence[Life], turn: int) -> int:
        return self._file.put(turn + 1, self._parts(lives, turn), [life.run.no for life in lives])

    def _parts(self, lives: Sequence[Life], turn: int) -> Iterator[SavedPart | Unchanged]:
        for life in lives:
            self._touched.note(life.run.no, life.run, life.ended if turn else None)
        return touched_parts(self._touched, (life.run for life in lives))

    def check(self, lives: Lives, life: Life) -> None:
        self._file.close()
        file = CheckpointFile.read(self._folder, OWN)
        assert file is not None
        with file:
            pieces = [part[1:] for part in file.parts() if part.run == life.run.no]
        found: Run = load_run(lives.scheduler, pieces, lambda kinds: None)
        done = [life.run.results[node] for node in range(life.run.size) if life.run.state[node] == SUCCEEDED]
        if (found.state, found.results[: len(done)]) != (life.run.state, done):
            raise BenchError(f"{self.name}: {life.run.key} is not what was written")

    def close(self) -> None:
        self._file.close()


class _FormatOne(_Own):
    """The same as it was: no differences, everything by zlib."""

    name = FORMAT_1

    def __init__(self, folder: str) -> None:
        super().__init__(folder)
        self._file.packer = _ZlibPacker()

    def _parts(self, lives: Sequence[Life], turn: int) -> Iterator[SavedPart | Unchanged]:
        return (SavedPart(life.run.no, *piece) for life in lives for piece in save_run(life.run))


class _ZlibPacker(packing.Packer):
    def pack(self, column: str, content: bytes) -> tuple[int, bytes]:
        if len(content) < packing.PACK_BYTES_MIN:
            return packing.PLAIN, content
        return packing.ZLIB, zlib.compress(content, 1)

    def difference(self, before: bytes, content: bytes) -> bytes:
        raise packing.PackingBroken("the first format has none")


def table(ways: Sequence[Way], setup: Setup) -> list[str]:
    """For people: each way, beside JSON and beside the case that was published."""
    base = ways[0]
    head = (
        f"{_runs(setup):,} open runs of {_nodes(setup):,} nodes, {NODES_EACH} ended between checkpoints, "
        f"{CHECKPOINTS} checkpoints; a write is one run's state"
    )
    lines = [
        head,
        "",
        "| encoding | bytes a write | of JSON | bytes a checkpoint | writes/s | of JSON |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {way.name} | {way.bytes_each:,.0f} | 1/{base.bytes_each / way.bytes_each:,.1f} "
        f"| {way.bytes_each * _runs(setup):,.0f} | {way.rate:,.0f} | {way.rate / base.rate:,.1f}× |"
        for way in ways
    ]
    (_, json_bytes, json_rate), *others = PUBLISHED
    lines.append(f"| published: JSON | {json_bytes:,} | 1/1.0 | | {json_rate} | 1.0× |")
    for name, size, rate in others:
        rates = f"{rate} | {rate / (json_rate or 1):.1f}×" if rate else "| "
        lines.append(f"| published: {name} | {size:,} | 1/{json_bytes / size:.1f} | | {rates} |")
    return lines


def _rows_ways(folder: str) -> list[Way]:
    kinds = [kind for kind in ENCODINGS if not kind.missing()]
    return [_Rows(folder, kind(), deltas=deltas) for kind in kinds for deltas in (False, True)]


def _runs(setup: Setup) -> int:
    return RUNS_SMOKE if setup.smoke else RUNS


def _nodes(setup: Setup) -> int:
    return max(1, setup.tasks // _runs(setup))


def _key(name: str) -> str:
    return "".join(letter if letter.isalnum() else "_" for letter in name.lower()).replace("__", "_").strip("_")
