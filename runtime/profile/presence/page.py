"""The page: what each process of a state folder shows of itself, in shared memory, and what is asked of all of them.

The program that opens a folder makes the page (`create_page`), an anonymous block whose label carries the folder's
uuid; the spawner and what it forks inherit it, anybody else of the same user finds it as the board is found (see
`runtime.host.folder_board`). Whoever looks needs nobody's help: a process that hangs or is stopped shows what it did.

Layout; a word is 64 bits::

    words 0..7            MAGIC, REQUEST_NO: the latest request, USED: slots that were ever in use
    bytes 64..4096        path of the state folder: length, text
    8 requests of 1 KiB   word 0: number, 0: none; word 1: length; word 2: check; then JSON
    slots of 4 KiB        words: see the constants; texts; names of further kinds; the books, in two copies

The books of a slot are written as a run's row on the board is: into the copy that is not shown, with a check (XXH3-64)
over it and its number, then the number is stored. So a reader never sees half of one, even of a process that was
killed in the middle.

Invariants: a slot is of one process, known by pid and start time; a pid that came again does not fit its start time.
    Slots and requests are given under a record lock that is tried for a moment and never waited for.
Crash: the slot of a dead process is swept by whoever finds it.
Concurrency: a slot's books have one writing thread at a time; any number of readers in any process.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from struct import Struct
from typing import Any, Final, NamedTuple

import orjson
from xxhash import xxh3_64_intdigest

from runtime.host.kernel import is_alive
from runtime.mail.blocks import create_block
from runtime.profile.ledger.books import LEDGER, Count
from runtime.profile.ledger.kinds import KINDS_MAX, NAMES
from runtime.profile.model import Process

LABEL: Final = "mainspring-page"
MAGIC: Final = int.from_bytes(b"MSpage01", "little")
SLOTS: Final = 1100
"""Processes: a thousand workers and what is beside them. Who finds no room is not shown."""
REQUESTS: Final = 8
"""That are asked at the same time."""
_PATH_BYTE: Final = 64
_REQUESTS_BYTE: Final = 4096
_REQUEST_BYTES: Final = 1024
_REQUEST_HEAD: Final = 24
OPTIONS_BYTES_MAX: Final = _REQUEST_BYTES - _REQUEST_HEAD
_SLOTS_BYTE: Final = _REQUESTS_BYTE + REQUESTS * _REQUEST_BYTES
_SLOT_BYTES: Final = 4096
BLOCK_BYTES: Final = _SLOTS_BYTE + SLOTS * _SLOT_BYTES
"""Four megabytes, of which only what is used takes memory: a page for each process."""

_MARK, _REQUEST_NO, _USED = range(3)
PID, START, NUMBER, BEGUN, BEAT, SELF_CPU, HEARS, HANG_FD, BOOKS, LAG = range(10)
"""Words of a slot: who it is; since when (monotonic ns) it has it; when it last wrote; CPU time (ns) that the profiler
itself took; what it answers to; descriptor, plus 1, of what the C handler writes; number of the latest books; lag."""
_ACKS: Final = 16
HEARS_PYTHON: Final = 1
HEARS_C: Final = 2
HEARS_RELAY: Final = 4
LETS_ATTACH: Final = 8
"""What a process answers to: a handler in Python, one in C, the spawner, which passes the word on; and debuggers."""
SEEN: Final = 1
DONE: Final = 2
FAILED: Final = 3
_ROLE_BYTE: Final = 192
_TYPE_BYTE: Final = 224
_TEXT_BYTES: Final = 96
_NAMES_BYTE: Final = 512
_NAME_BYTES: Final = 48
_COPIES_BYTE: Final = 1024
_COPY_BYTES: Final = 1536
_BOOKS: Final = Struct(f"<Q{4 * KINDS_MAX}Q")
_WORD: Final = Struct("<Q")
_U64: Final = (1 << 64) - 1
_TRIES: Final = 1000
_LOCK_TRIES: Final = 50
_LOCK_S: Final = 0.001

assert _BOOKS.size + 8 <= _COPY_BYTES
assert (KINDS_MAX - len(NAMES)) * _NAME_BYTES <= _COPIES_BYTE - _NAMES_BYTE


class ProcessRow(NamedTuple):
    """What the page says of a process.

    Attributes:
        process: Who.
        slot: Its place.
        counts: Its books, by kind, as of `beat_ns`.
        begun_ns: When it took its slot (monotonic).
        beat_ns: When it last wrote its books (monotonic); 0: not yet. One that sleeps writes none.
        self_cpu_ns: CPU time that the profiler itself took there.
        hears: `HEARS_PYTHON`, `HEARS_C` and `HEARS_RELAY`, as they are.
        hang_fd: Its descriptor of what the C handler writes; -1: none.
        acks: By request: (number, SEEN, DONE or FAILED).
        lag_ns: How late its event loop is, see `lag`; 0: nobody looks, or there is none.
    """

    process: Process
    slot: int
    counts: dict[str, Count]
    begun_ns: int
    beat_ns: int
    self_cpu_ns: int
    hears: int
    hang_fd: int
    acks: tuple[tuple[int, int], ...]
    lag_ns: int = 0


class RequestRow(NamedTuple):
    """A request as it stands in the page."""

    block: int
    number: int
    body: dict[str, Any]


def create_page(folder_uuid: str, state_dir: str) -> int:
    """Make an empty page for a state folder; returns its descriptor."""
    fd = create_block(BLOCK_BYTES, lockable=True, label=f"{LABEL}:{folder_uuid}")
    path = os.fsencode(os.path.abspath(state_dir))
    os.pwrite(fd, _WORD.pack(len(path)) + path[: _REQUESTS_BYTE - _PATH_BYTE - 8], _PATH_BYTE)
    os.pwrite(fd, _WORD.pack(MAGIC), 0)
    return fd


class Page:
    """A page, mapped. Takes over the descriptor and closes it with `close`.

    Raises ValueError when it is none; then it is closed as well.
    """

    def __init__(self, fd: int) -> None:
        self.fd = fd
        try:
            self._memory = mmap.mmap(fd, BLOCK_BYTES)
        except (ValueError, OSError) as short:
            os.close(fd)
            raise ValueError(f"this is no page of processes: {short}") from short
        with memoryview(self._memory) as view:
            self.words = view.cast("Q")
        if self.words[_MARK] != MAGIC:
            self.close()
            raise ValueError("this is no page of processes")
        length = self.words[_PATH_BYTE >> 3]
        self.state_dir = os.fsdecode(self._memory[_PATH_BYTE + 8 : _PATH_BYTE + 8 + length])

    def close(self) -> None:
        """Unmap and close it. Again is harmless."""
        if self.fd >= 0:
            self.words.release()
            self._memory.close()
            os.close(self.fd)
            self.fd = -1

    # --- processes ------------------------------------------------------------------------------------------------

    def processes(self) -> list[ProcessRow]:
        """Who is there, in the order of their slots. Sweeps the slots of those that are gone."""
        found = []
        for slot in range(min(SLOTS, int(self.words[_USED]))):
            row = self.row(slot)
            if row is None:
                continue
            if is_alive(row.process.pid, row.process.start_time):
                found.append(row)
            else:
                self._sweep(slot, row.process)
        return found

    def row(self, slot: int) -> ProcessRow | None:
        """What stands in a slot, whether the process lives or not; None: nothing."""
        words, at = self.words, self._word(slot)
        pid, start = int(words[at + PID]), int(words[at + START])
        if not pid:
            return None
        byte = at << 3
        process = Process(
            pid, start, self._text(byte + _ROLE_BYTE, 32), int(words[at + NUMBER]), self._text(byte + _TYPE_BYTE)
        )
        acks = tuple((int(word) >> 2, int(word) & 3) for word in words[at + _ACKS : at + _ACKS + REQUESTS])
        begun, beat, cost, hears, hang = (int(words[at + field]) for field in (BEGUN, BEAT, SELF_CPU, HEARS, HANG_FD))
        lag = int(words[at + LAG])
        return ProcessRow(process, slot, self._books(slot), begun, beat, cost, hears, hang - 1, acks, lag)

    def take_slot(self, process: Process, hears: int = 0, hang_fd: int = -1) -> PageSlot | None:
        """A slot for this process; None where there is no room, or somebody who was stopped holds the lock.

        Args:
            process: Who it is.
            hears: What it answers to, from now on: whoever sees the slot may send that.
            hang_fd: Of what its C handler writes; -1: none.
        """
        with self._locked() as locked:
            if not locked:
                return None
            words, used = self.words, int(self.words[_USED])
            free = (slot for slot in range(used) if not words[self._word(slot) + PID])
            slot = next(free, used)
            if slot >= SLOTS:
                slot = next((slot for slot in range(SLOTS) if self._is_left(slot)), SLOTS)
            if slot == SLOTS:
                return None
            words[_USED] = max(used, slot + 1)
            return PageSlot(self, slot, process, hears, hang_fd)

    def _is_left(self, slot: int) -> bool:
        at = self._word(slot)
        return not is_alive(int(self.words[at + PID]), int(self.words[at + START]))

    def _sweep(self, slot: int, process: Process) -> None:
        with self._locked(tries=1) as locked:
            at = self._word(slot)
            if locked and (self.words[at + PID], self.words[at + START]) == process[:2]:
                self.words[at + PID] = 0

    def _books(self, slot: int) -> dict[str, Count]:
        at, start = self._word(slot), _SLOTS_BYTE + slot * _SLOT_BYTES
        for _ in range(_TRIES):
            number = int(self.words[at + BOOKS])
            if not number:
                return {}
            copy = start + _COPIES_BYTE + (number & 1) * _COPY_BYTES
            data = self._memory[copy : copy + _BOOKS.size + 8]
            if _WORD.unpack_from(data, _BOOKS.size)[0] != xxh3_64_intdigest(data[: _BOOKS.size]):
                continue
            fields = _BOOKS.unpack_from(data)
            if fields[0] == number:
                names = NAMES + tuple(
                    self._text(start + _NAMES_BYTE + place * _NAME_BYTES, _NAME_BYTES)
                    for place in range(KINDS_MAX - len(NAMES))
                )
                return {name: Count(*fields[1 + 4 * place : 5 + 4 * place]) for place, name in enumerate(names) if name}
        return {}

    # --- requests -------------------------------------------------------------------------------------------------

    def request(self, block: int) -> RequestRow | None:
        """What one of the blocks asks; None: nothing."""
        byte = _REQUESTS_BYTE + block * _REQUEST_BYTES
        for _ in range(_TRIES):
            data = self._memory[byte : byte + _REQUEST_BYTES]
            number, length, check = (_WORD.unpack_from(data, place)[0] for place in (0, 8, 16))
            if not number:
                return None
            body = data[_REQUEST_HEAD : _REQUEST_HEAD + length]
            if xxh3_64_intdigest(body, number) == check:
                return RequestRow(block, number, orjson.loads(body))
        return None

    def number(self, block: int) -> int:
        """Number of the request in a block; 0: there is none."""
        return int(self.words[(_REQUESTS_BYTE + block * _REQUEST_BYTES) >> 3])

    def put_request(self, body: Mapping[str, Any]) -> RequestRow | None:
        """Enter a request; None where there is no room for it now.

        Raises:
            ValueError: It is longer than `OPTIONS_BYTES_MAX`.
        """
        content = orjson.dumps(body)
        if len(content) > OPTIONS_BYTES_MAX:
            raise ValueError(f"a request of {len(content)} bytes; there is room for {OPTIONS_BYTES_MAX}")
        with self._locked() as locked:
            block = next((block for block in range(REQUESTS) if self._is_over(block)), -1) if locked else -1
            if block < 0:
                return None
            number = int(self.words[_REQUEST_NO]) + 1
            self.words[_REQUEST_NO] = number
            byte = _REQUESTS_BYTE + block * _REQUEST_BYTES
            self.words[byte >> 3] = 0
            check = xxh3_64_intdigest(content, number)
            self._memory[byte + 8 : byte + _REQUEST_HEAD + len(content)] = (
                _WORD.pack(len(content)) + _WORD.pack(check) + content
            )
            self.words[byte >> 3] = number
            return RequestRow(block, number, dict(body))

    def end_request(self, row: RequestRow) -> None:
        """Nobody asks this any more."""
        at = (_REQUESTS_BYTE + row.block * _REQUEST_BYTES) >> 3
        if self.words[at] == row.number:
            self.words[at] = 0

    def _is_over(self, block: int) -> bool:
        """Whether a block is free, or who asked is gone."""
        found = self.request(block)
        return found is None or not is_alive(*found.body.get("by", (0, 0)))

    # --- inside ---------------------------------------------------------------------------------------------------

    @staticmethod
    def _word(slot: int) -> int:
        return (_SLOTS_BYTE + slot * _SLOT_BYTES) >> 3

    def _text(self, byte: int, most: int = _TEXT_BYTES) -> str:
        return self._memory[byte : byte + most].partition(b"\0")[0].decode("utf-8", "ignore")

    def write_text(self, byte: int, text: str, most: int = _TEXT_BYTES) -> None:
        """Write a text that is cut to fit, and ended."""
        self._memory[byte : byte + most] = text.encode("utf-8", "replace")[: most - 1].ljust(most, b"\0")

    def write_books(self, byte: int, books: bytes) -> None:
        """Write a copy of books with its check."""
        self._memory[byte : byte + len(books) + 8] = books + _WORD.pack(xxh3_64_intdigest(books))

    @contextmanager
    def _locked(self, tries: int = _LOCK_TRIES) -> Iterator[bool]:
        """The record lock of the page, if it can be had; a holder that was stopped is not waited for."""
        for left in range(tries, 0, -1):
            try:
                fcntl.lockf(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1)
                break
            except OSError:
                if left > 1:
                    time.sleep(_LOCK_S)
        else:
            yield False
            return
        try:
            yield True
        finally:
            with suppress(OSError):
                fcntl.lockf(self.fd, fcntl.LOCK_UN, 1)


class PageSlot:
    """The slot of this process."""

    def __init__(self, page: Page, slot: int, process: Process, hears: int, hang_fd: int) -> None:
        self.page, self.slot, self.process = page, slot, process
        self._at = Page._word(slot)
        self._byte = self._at << 3
        self._named = 0
        words = page.words
        words[self._at + PID] = 0
        for word in range(START, _ACKS + REQUESTS):
            words[self._at + word] = 0
        words[self._at + START], words[self._at + NUMBER] = process.start_time, process.number
        words[self._at + BEGUN] = time.monotonic_ns()
        words[self._at + HEARS], words[self._at + HANG_FD] = hears, hang_fd + 1
        page.write_text(self._byte + _ROLE_BYTE, process.role, 32)
        page.write_text(self._byte + _TYPE_BYTE, process.node_type)
        for place in range(KINDS_MAX - len(NAMES)):
            page.write_text(self._byte + _NAMES_BYTE + place * _NAME_BYTES, "", _NAME_BYTES)
        words[self._at + PID] = process.pid

    def publish(self, now_ns: int) -> None:
        """Write the books, as they are now."""
        kinds = LEDGER.kinds()
        if len(kinds) - len(NAMES) > self._named:
            for place, kind in enumerate(kinds[len(NAMES) :]):
                self.page.write_text(self._byte + _NAMES_BYTE + place * _NAME_BYTES, kind.name, _NAME_BYTES)
            self._named = len(kinds) - len(NAMES)
        words = self.page.words
        number = int(words[self._at + BOOKS]) + 1
        fields = [value & _U64 for count in LEDGER.counts().values() for value in count]
        fields += [0] * (4 * KINDS_MAX - len(fields))
        self.page.write_books(self._byte + _COPIES_BYTE + (number & 1) * _COPY_BYTES, _BOOKS.pack(number, *fields))
        words[self._at + BOOKS] = number
        words[self._at + BEAT] = now_ns

    def ack(self, block: int, number: int, state: int) -> None:
        """SEEN, DONE or FAILED."""
        self.page.words[self._at + _ACKS + block] = number << 2 | state

    def show_cost(self, cpu_ns: int) -> None:
        """The profiler itself took this much, in all."""
        self.page.words[self._at + SELF_CPU] = cpu_ns

    def hears(self, more: int) -> None:
        """It answers to this, too."""
        self.page.words[self._at + HEARS] |= more

    def show_lag(self, late_ns: int) -> None:
        """So late is its event loop."""
        self.page.words[self._at + LAG] = late_ns

    def release(self) -> None:
        """Nobody shall ask this process any more."""
        with suppress(ValueError, IndexError):  # the page is closed
            words = self.page.words
            if words[self._at + PID] == self.process.pid:
                words[self._at + HEARS] = 0
                words[self._at + PID] = 0
