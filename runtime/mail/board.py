"""The board: how far runs are, in shared memory, for whoever looks. One engine writes, any number of processes read.

A block of slots. A slot shows one run (nodes by state), or one task whose handler says how far it is, under a key made
of its id. The writer asks nobody and waits for nobody, and neither does a reader: an engine that is stopped in the
middle of a write leaves the copy before it whole.

Layout; a word is 64 bits::

    words[0 .. 512)                    head: see the constants
    words[512 .. 512 + SLOTS)          keys, 0: the slot is free             written last when a slot is given
    slots of 512 bytes                 word 0: number of the latest write, then two copies of 224 bytes from byte 64

A write goes into the copy that is not shown (number & 1), then the number is stored. A copy ends with a check (XXH3-64)
over all of it, its number and its key: a reader that was overtaken, on whatever machine, sees that and looks again.

States of the block: empty, swept (`BEGAN` is 0: an engine begins and enters what it knows), live.

Invariants: a reader never returns a mixture of two writes, nor a row of another key.
Crash: whatever the writer was at, the rows shown stay as they were, until the next engine sweeps.
Concurrency: one writing thread; readers in any thread and process.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator, Sequence
from struct import Struct
from typing import Final, NamedTuple

from xxhash import xxh3_64_intdigest

from runtime.mail.blocks import create_block, map_block

SLOTS: Final = 4096
"""Runs and tasks that are shown; who finds no room is asked for."""
MAGIC: Final = int.from_bytes(b"MSboard1", "little")
MARK, BEGAN, ENGINES, USED, LOST, WRITTEN_NS = range(6)
"""Words of the head: what the block is; which engine since the block was made shows, 0 for none; how many began; slots
that were ever in use; reports that found no room or lost it; when something was last written, wall clock."""
LABEL: Final = "mainspring-board"

_KEYS: Final = 512
_KEYS_BYTE: Final = _KEYS * 8
_SLOTS_BYTE: Final = _KEYS_BYTE + SLOTS * 8
_SLOT_BYTES: Final = 512
_FIRST_COPY: Final = 64
_COPY_BYTES: Final = 224
_TEXT_BYTES: Final = 95
_BODY: Final = Struct(f"<QQQ7QQQqddB{_TEXT_BYTES}s")
_BODY_BYTES: Final = _COPY_BYTES - 8
_WORD: Final = Struct("<Q")
_TRIES: Final = 1000
"""Looks at one slot; a second one is needed when the writer came round twice within a microsecond."""
BLOCK_BYTES: Final = _SLOTS_BYTE + SLOTS * _SLOT_BYTES
"""Two megabytes, of which only what is used takes memory."""

assert _BODY.size == _BODY_BYTES


def said_text(done: float, total: float, text: str) -> str:
    """What a handler reported, on one line: its text, and how far it is."""
    numbers = f"{done:g} of {total:g}" if total or not text else ""
    return f"{text}, {numbers}" if text and numbers else text or numbers


class BoardRow(NamedTuple):
    """What is shown of a run: `counts` as `actors.run.Run.counts`, all 0 for a task; of records up to `lsn`.

    `node`, `done`, `total` and `text` are the latest report of a handler; node -1: there is none.
    """

    run_no: int
    counts: tuple[int, ...]
    lsn: int
    at_ns: int
    node: int = -1
    done: float = 0.0
    total: float = 0.0
    text: str = ""


def run_key(run_id: str) -> int:
    """Under what the run of a graph is shown."""
    return _key("run", run_id)


def bundle_key(run_id: str) -> int:
    """Under what a bundle of single tasks, or a chunk of a map, is shown: its id is also that of its first task."""
    return _key("bundle", run_id)


def task_key(run_id: str) -> int:
    """Under what the report of a single task is shown."""
    return _key("task", run_id)


def _key(what: str, run_id: str) -> int:
    """Never 0. Told apart by a prefix: of short texts XXH3 mixes the seed in by XOR, so that "s-2" under one is "s-3"
    under another."""
    return xxh3_64_intdigest(f"{what} {run_id}".encode("utf-8", "surrogatepass")) or 1


def create_board(folder_uuid: str) -> int:
    """Make an empty block for a state folder; returns its descriptor.

    Others find it by its label, see `runtime.host.folder_board`.
    """
    return create_block(BLOCK_BYTES, label=f"{LABEL}:{folder_uuid}")


class BoardWriter:
    """The engine's side. Takes over the descriptor and closes it. `slots` are those that it uses."""

    slots = SLOTS

    def __init__(self, fd: int) -> None:
        self._memory = map_block(fd)
        os.close(fd)
        with memoryview(self._memory) as view:
            self._words = view.cast("Q")
        self._free: list[int] = []

    def sweep(self) -> None:
        """Forget what an engine before this one showed. `begin` must follow."""
        words = self._words
        words[BEGAN] = 0
        self._memory[_KEYS_BYTE:_SLOTS_BYTE] = bytes(SLOTS * 8)
        words[USED] = words[LOST] = 0
        words[MARK] = MAGIC
        self._free.clear()

    def begin(self) -> None:
        """All that is known is entered: show it."""
        words = self._words
        words[ENGINES] += 1
        words[BEGAN] = words[ENGINES]

    @property
    def room(self) -> int:
        """Slots that are free."""
        return self.slots - int(self._words[USED]) + len(self._free)

    def place(self, key: int, row: BoardRow) -> int:
        """Show something new; returns its slot. There must be room."""
        words = self._words
        if self._free:
            slot = self._free.pop()
        else:
            slot = int(words[USED])
            words[USED] = slot + 1
        self.write(slot, key, row)
        words[_KEYS + slot] = key
        return slot

    def write(self, slot: int, key: int, row: BoardRow) -> None:
        """Show what became of it."""
        no, counts, lsn, at_ns, node, done, total, text = row
        start = _SLOTS_BYTE + slot * _SLOT_BYTES
        number = int(self._words[start >> 3]) + 1
        said = text.encode("utf-8", "replace")[:_TEXT_BYTES] if text else b""
        body = _BODY.pack(number, key, no, *counts, lsn, at_ns, node, done, total, len(said), said)
        copy = start + _FIRST_COPY + (number & 1) * _COPY_BYTES
        self._memory[copy : copy + _COPY_BYTES] = body + _WORD.pack(xxh3_64_intdigest(body))
        self._words[start >> 3] = number

    def release(self, slot: int) -> None:
        """It is over: the slot is free."""
        self._words[_KEYS + slot] = 0
        self._free.append(slot)

    def lost(self) -> None:
        """A report is not shown: who asks for one has to ask the engine."""
        self._words[LOST] += 1

    def wrote(self, at_ns: int) -> None:
        """When it was that something was written."""
        self._words[WRITTEN_NS] = at_ns

    def close(self) -> None:
        """Unmap the block."""
        self._words.release()
        self._memory.close()


class BoardReader:
    """A reader's side; the descriptor stays the caller's. After `close` nothing is found."""

    def __init__(self, fd: int) -> None:
        """Map the block. Raises ValueError: it is too small to be one."""
        self._memory = mmap.mmap(fd, BLOCK_BYTES, access=mmap.ACCESS_READ)
        with memoryview(self._memory) as view:
            self._words = view.cast("Q")

    def shows(self) -> bool:
        """Whether an engine shows what it knows."""
        try:
            return self._words[MARK] == MAGIC and self._words[BEGAN] != 0
        except ValueError:  # closed
            return False

    def incarnation(self) -> int:
        """Which engine since the block was made shows; 0: none."""
        return int(self._words[BEGAN]) if self.shows() else 0

    def lost(self) -> int:
        """Reports of handlers that are not here."""
        return int(self._words[LOST])

    def written_ns(self) -> int:
        """When something was last written, on the wall clock."""
        return int(self._words[WRITTEN_NS])

    def run(self, run_id: str) -> BoardRow | None:
        """How far the run of a graph is; None when it is not shown."""
        return self._find(run_key(run_id))

    def bundle(self, run_id: str) -> BoardRow | None:
        """How far a bundle of single tasks or a chunk of a map is; None when it is not shown."""
        return self._find(bundle_key(run_id))

    def task(self, run_id: str) -> BoardRow | None:
        """What the handler of a single task reported last; None when that is not shown."""
        return self._find(task_key(run_id))

    def rows(self) -> Iterator[BoardRow]:
        """All that is shown, in no order."""
        if not self.shows():
            return
        words = self._words
        for slot in range(min(SLOTS, int(words[USED]))):
            key = words[_KEYS + slot]
            row = self._read(slot, key) if key else None
            if row is not None:
                yield row

    def close(self) -> None:
        """Unmap the block. Again is harmless."""
        self._words.release()
        self._memory.close()

    def _find(self, key: int) -> BoardRow | None:
        try:
            if not self.shows():
                return None
            pattern, end = _WORD.pack(key), _KEYS_BYTE + 8 * min(SLOTS, int(self._words[USED]))
            at = self._memory.find(pattern, _KEYS_BYTE, end)
            while at >= 0 and at & 7:
                at = self._memory.find(pattern, at + 1, end)
            return None if at < 0 else self._read((at - _KEYS_BYTE) >> 3, key)
        except ValueError:  # closed meanwhile
            return None

    def _read(self, slot: int, key: int) -> BoardRow | None:
        words, start = self._words, _SLOTS_BYTE + slot * _SLOT_BYTES
        for _ in range(_TRIES):
            number = words[start >> 3]
            copy = start + _FIRST_COPY + (number & 1) * _COPY_BYTES
            data = self._memory[copy : copy + _COPY_BYTES]
            body = data[:_BODY_BYTES]
            if _WORD.unpack_from(data, _BODY_BYTES)[0] == xxh3_64_intdigest(body):
                fields = _BODY.unpack(body)
                if fields[0] == number and fields[1] == key:
                    return _row_of(fields)
            if words[_KEYS + slot] != key:
                return None
        return None


def _row_of(fields: Sequence[object]) -> BoardRow:
    run_no, *counts = fields[2:10]
    lsn, at_ns, node, done, total, length, text = fields[10:]
    said = text[:length].decode("utf-8", "ignore")  # type: ignore[index]
    return BoardRow(run_no, tuple(counts), lsn, at_ns, node, done, total, said)  # type: ignore[arg-type]
