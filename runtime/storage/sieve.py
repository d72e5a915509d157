"""What of a log makes sense when some of it is lost: records that fit what came before pass, the others do not.

    reader (salvage) ──► Sieve.take(record) ──► the record, a part of it, or None
                              └─ folds what passes, as a recovery would: `scheduler` is what a recovery will know

A log without damage passes whole. Where records are missing, those behind may speak of what nobody knows any more:

- of a run whose submission is lost: that run is lost;
- of the end of a node that waits for a parent whose own end is lost: the parent will be executed again, and what its
  child made of the lost result does not stand. Both go again. A node that had ended stays as it ended;
- of nodes that were added to a run while it ran, by numbers that may belong to others now: the numbers behind those
  that were known before the loss are not believed, and those nodes are executed again.

So a run that passes is one that an engine can go on with, and executes again at most what it has lost the end of, and
what followed from that. Nothing is invented: lost cancels, priorities and replays are forgotten.

Concurrency: none. Known limit: a run is believed to be lost where its later records name it; one of which all records
are lost leaves no trace.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import orjson

from actors.kept import MARK as WRITTEN_AGAIN
from actors.once import folders
from actors.protocol.errors import EnvironmentFault, MainspringError
from actors.protocol.places import unpacked
from actors.protocol.records import Record, RecordType
from actors.released import released
from actors.replay import Replay
from actors.run import Run
from actors.state_column import PENDING, TERMINAL_FIRST, TERMINAL_LAST
from runtime.storage.recovery import scheduler_of_all

_MISFITS: Final = (MainspringError, AssertionError, LookupError, ValueError, TypeError, AttributeError)
"""What folding a record raises that does not fit."""


class Sieve:
    """See the module.

    Args:
        load_blob: Opens a blob by name: graphs may stand in one.
        has_files: Whether there are large values in a folder of this name.

    Attributes:
        scheduler: Knows what the passed records say.
        misfits: (LSN, words) of records that could not be read at all.
        passed: Records that passed, whole or in part.
        stopped: Records that did not.
        nodes_again: Ends of nodes that did not pass.
        lost: Numbers of runs that records name and nobody knows.
        leaving: Runs that were let go of and have large values: they may be on their way to the archive.
    """

    def __init__(self, load_blob: Callable[[str], Any], has_files: Callable[[str], bool] | None = None) -> None:
        self.scheduler = scheduler_of_all()
        self.replay = Replay(self.scheduler, self._load)
        self.misfits: list[tuple[int, str]] = []
        self.passed = self.stopped = self.nodes_again = 0
        self.lost: dict[int, None] = {}
        self.leaving: list[Run] = []
        self.containers: dict[str, int] = {}
        """Blobs that hold a whole graph, and the record that names each."""
        self._load_blob = load_blob
        self._has_files = has_files or (lambda _: False)
        self.replay.let_go = self._leave
        self._lost_before = 0
        self._known: dict[int, int] = {}
        self._released: set[int] = set()
        self._lsn = 0

    def take(self, record: Record, lost: int) -> Record | None:
        """Take a record; `lost` grows when records before it are missing (`LogReader.lost`)."""
        self._lsn = record.lsn
        if lost != self._lost_before:
            self._lost_before = lost
            self._doubt()
        check = _CHECKS.get(record.type)
        try:
            payload = record.payload if check is None else check(self, record.payload)
            if payload is not None:
                kept = record if payload is record.payload else record._replace(payload=payload)
                self.replay.fold(kept)
                self.passed += 1
                return kept
        except _MISFITS as misfit:
            if isinstance(misfit, EnvironmentFault):
                raise
            text = misfit.message if isinstance(misfit, MainspringError) else repr(misfit)
            self.misfits.append((record.lsn, text))
            self._doubt()
        self.stopped += 1
        return None

    def lost_runs(self) -> list[int]:
        """Numbers of runs of which there are records, but no beginning, and that were not let go."""
        book = self.scheduler.book
        self.lost.update(dict.fromkeys(self.replay.incoming.lost))
        return [no for no in self.lost if no not in book.live and no not in book.finished and no not in self._released]

    def _load(self, name: str) -> Any:
        self.containers[name] = self._lsn
        return self._load_blob(name)

    def _leave(self, run: Run, ended_ns: int | None) -> None:
        if any(self._has_files(name) for name in folders(run)):
            self.leaving.append(run)

    def _doubt(self) -> None:
        """From here on, what was added to open runs may have other numbers."""
        for no, run in self.scheduler.book.live.items():
            self._known[no] = min(run.size, self._known.get(no, run.size))

    def _run(self, no: int) -> Run | None:
        run = self.scheduler.book.live.get(no)
        if run is None and no not in self.scheduler.book.finished:
            self.lost[no] = None
        return run

    def _is_known(self, run: Run, node: int) -> bool:
        return 0 <= node < self._known.get(run.no, run.size)

    def _may_end(self, run: Run, node: int) -> bool:
        """Whether an attempt of this node may have ended: it was ready, as far as anybody knows."""
        state = run.state[node] if self._is_known(run, node) else PENDING
        return state != PENDING and not TERMINAL_FIRST <= state <= TERMINAL_LAST

    # --- one check a type; each gives the payload, a part of it, or None ----------------------------------------------

    def _completed(self, payload: bytes) -> bytes | None:
        pid, groups = orjson.loads(payload)
        kept: list[Any] = []
        for group in groups:
            run = self._run(group[1])
            if run is None:
                kept.append(group)
                continue
            nodes = unpacked(group[2], len(group[3]))
            fits = [self._may_end(run, node) for node in nodes]
            if all(fits) and len(set(nodes)) == len(nodes):
                kept.append(group)
            else:
                kept += _parts(group, nodes, fits)
                self.nodes_again += fits.count(False)
        if len(kept) == len(groups) and all(a is b for a, b in zip(kept, groups, strict=True)):
            return payload
        return orjson.dumps([pid, kept]) if kept else None

    def _attempt(self, payload: bytes) -> bytes | None:
        no, node, outcome, *_, times = orjson.loads(payload)
        run = self._run(no)
        if run is None:
            return payload
        began = bool(times[2]) or outcome == "retry"
        open_ = self._is_known(run, node) and not TERMINAL_FIRST <= run.state[node] <= TERMINAL_LAST
        if self._may_end(run, node) or (open_ and not began):  # who waits for parents may expire
            return payload
        self.nodes_again += 1
        return None

    def _cancel(self, payload: bytes) -> bytes | None:
        no, node, leased, *told = orjson.loads(payload)
        run = self._run(no)
        if run is None or (node is None and not leased):
            return payload
        if node is not None and not self._is_known(run, node):
            return None
        held = [n for n in leased if self._may_end(run, n)]
        return payload if held == leased else orjson.dumps([no, node, held, *told])

    def _spawned(self, payload: bytes) -> bytes | None:
        _, no, node, _ = orjson.loads(payload)
        return self._of_running(payload, no, node)

    def _lent(self, payload: bytes) -> bytes | None:
        no, node, *_ = orjson.loads(payload)
        run = self._run(no)
        if run is not None and node not in run.rare.spawned:  # what it called is lost
            return None
        return self._of_running(payload, no, node)

    def _of_running(self, payload: bytes, no: int, node: int) -> bytes | None:
        run = self._run(no)
        return payload if run is None or self._may_end(run, node) else None

    def _priority(self, payload: bytes) -> bytes | None:
        no, node, *_ = orjson.loads(payload)
        run = self._run(no)
        return payload if run is None or node is None or self._is_known(run, node) else None

    def _dead(self, payload: bytes) -> bytes | None:
        if payload[:1] == WRITTEN_AGAIN:
            return payload
        what, no, nodes, *rest = orjson.loads(payload)
        book = self.scheduler.book
        run = book.live.get(no) or book.finished.get(no)
        if run is None or nodes is None:
            return payload
        held = [n for n in nodes if self._is_known(run, n)]
        return payload if held == nodes else orjson.dumps([what, no, held, *rest]) if held else None

    def _let_go(self, payload: bytes) -> bytes | None:
        self._released.update(released(payload))
        return payload


def _parts(group: Sequence[Any], nodes: Sequence[int], fits: Sequence[bool]) -> list[list[Any]]:
    """A group of results as one group for each node that fits, with the times that it had."""
    serial, no, _, values, started_ns, ends = group
    found: list[list[Any]] = []
    before = 0
    seen: set[int] = set()
    for node, value, end, fit in zip(nodes, values, ends, fits, strict=True):
        if fit and node not in seen:
            found.append([serial, no, [node], [value], started_ns + before, [end - before]])
            seen.add(node)
        before = end
    return found


_CHECKS: Final[dict[int, Callable[[Any, bytes], bytes | None]]] = {
    int(RecordType.COMPLETED): Sieve._completed,
    int(RecordType.ATTEMPT): Sieve._attempt,
    int(RecordType.CANCEL): Sieve._cancel,
    int(RecordType.SPAWNED): Sieve._spawned,
    int(RecordType.LENT): Sieve._lent,
    int(RecordType.PRIORITY): Sieve._priority,
    int(RecordType.DEAD): Sieve._dead,
    int(RecordType.RELEASED): Sieve._let_go,
}
"""What is not here passes if it can be folded."""
