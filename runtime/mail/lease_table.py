"""Which prefetched tasks a worker may start: one byte per lease, decided by compare-and-set.

The engine sends a worker more tasks than it can run at once. Each has a serial number, 1 and up per incarnation of the
worker, and a slot, `serial % LEASE_SLOTS`. The engine grants (`LEASED`), the worker claims (`LEASED` to `RUNNING`), the
engine may revoke (`LEASED` to `REVOKED`); exactly one of the two wins. States: `LeaseState`; what ended stays `RUNNING`
until the slot is granted again, which is safe because fewer leases are outstanding than there are slots.

Layout of the block; a word is 64 bits::

    words[0 .. LEASE_SLOTS)    when the attempt in that slot started, ns on the monotonic clock; 0 after the grant
    words[CURRENT]             serial of the attempt that runs, 0 for none     written by the worker
    words[TASKS_DONE]          attempts ended                                  written by the worker
    words[RSS_BYTES]           resident memory                                 written by the worker
    words[BUSY_NS]             time spent in handlers                          written by the worker
    words[PASSED]              serials up to here need their slots no more     written by the worker
    words[CANCEL]              serial << 8 | reason                            written by the engine
    words[RESULTS_ASKED]       1: results are to be sent as they come          written by the engine
    bytes from STATES_OFFSET   the states, one byte per slot                   grant: engine; the rest under the lock

Compare-and-set is a record lock (`fcntl.lockf`) on the descriptor around a look and a store; CPython has no atomics.
The kernel releases the lock when its holder dies, and its system calls order the memory accesses around it.

Reading `current()` is consistent although it is two words: each slot has its own start word, stored before the serial
is published, and not used again before the engine, who is the one that reads, grants the slot again. On a weakly
ordered machine the serial may be seen first; the start then reads 0, because the grant cleared it. `begin` is two
stores; the worker's loop may inline them: `words[serial & SLOT_MASK] = now_ns; words[CURRENT] = serial`.

Concurrency: one engine thread, one worker thread (`cancel_asked` from any). Record locks belong to processes: two
tables in one process do not exclude each other, and closing one releases the lock of the other.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Sequence
from typing import Final, NamedTuple

from actors.protocol import limits
from actors.protocol.states import LeaseState
from runtime.mail.blocks import create_block, map_block

SLOT_MASK: Final = limits.LEASE_SLOTS - 1
CURRENT: Final = limits.LEASE_SLOTS
TASKS_DONE: Final = CURRENT + 1
RSS_BYTES: Final = CURRENT + 2
BUSY_NS: Final = CURRENT + 3
PASSED: Final = CURRENT + 4
"""Serials up to here were claimed or passed over, and none of them is put back: their slots may be used again. Not the
highest that was claimed, because urgent work is claimed before what was granted earlier."""
CANCEL: Final = CURRENT + 16
"""Written by the other side, hence on another cache line."""
RESULTS_ASKED: Final = CANCEL + 1
STATES_OFFSET: Final = (CURRENT + 32) * 8
BLOCK_BYTES: Final = STATES_OFFSET + limits.LEASE_SLOTS

_LEASED_BYTE: Final = int(LeaseState.LEASED)  # plain numbers: comparing with an enum costs 100 ns a slot
_REVOKED_BYTE: Final = int(LeaseState.REVOKED)
_LEASED: Final = bytes([LeaseState.LEASED]) * limits.LEASE_SLOTS
_CLAIM: Final = bytes.maketrans(bytes([LeaseState.LEASED]), bytes([LeaseState.RUNNING]))
_RELEASE: Final = bytes.maketrans(bytes([LeaseState.RUNNING]), bytes([LeaseState.LEASED]))
_ZERO_WORDS: Final = memoryview(bytes(8 * limits.LEASE_SLOTS)).cast("Q")
_CANCEL_BITS: Final = 8


class WorkerPulse(NamedTuple):
    """What a worker shows of itself."""

    tasks_done: int
    rss_bytes: int
    busy_ns: int


class LeaseTable:
    """Either side of a worker's lease table. Takes over the descriptor and closes it.

    Attributes:
        words: the words of the block, as a memoryview of format `Q`, for a worker's loop that inlines `begin`.
    """

    def __init__(self, fd: int) -> None:
        """Map the block behind `fd`, made by `create`."""
        self._fd = fd
        self._memory = map_block(fd)
        with memoryview(self._memory) as view:
            self.words = view.cast("Q")
        self._closed = False

    @staticmethod
    def create() -> int:
        """Make an empty table and return its descriptor, to be passed to a worker."""
        return create_block(BLOCK_BYTES, lockable=True, label="mainspring-leases")

    # --- engine ---------------------------------------------------------------------------------------------------

    def grant(self, serial: int, count: int) -> None:
        """Lease `count` consecutive serials. Before the message that names them is sent."""
        for slot, length in _pieces(serial, count):
            self.words[slot : slot + length] = _ZERO_WORDS[:length]
            start = STATES_OFFSET + slot
            self._memory[start : start + length] = _LEASED[:length]

    def revoke(self, serials: Sequence[int]) -> list[int]:
        """Take back those serials that were not claimed; returns them. Never waits.

        Raises:
            BlockingIOError: the worker is claiming at this moment; nothing was changed.
        """
        memory = self._memory
        won: list[int] = []
        self._lock(fcntl.LOCK_EX | fcntl.LOCK_NB)
        try:
            for serial in serials:
                place = STATES_OFFSET + (serial & SLOT_MASK)
                if memory[place] == _LEASED_BYTE:
                    memory[place] = _REVOKED_BYTE
                    won.append(serial)
        finally:
            self._lock(fcntl.LOCK_UN)
        return won

    def current(self) -> tuple[int, int]:
        """Serial and start (ns, monotonic clock) of the attempt that runs, (0, 0) for none. Start 0: look again."""
        serial = self.words[CURRENT]
        return (serial, self.words[serial & SLOT_MASK]) if serial else (0, 0)

    def started_ns(self, serial: int) -> int:
        """When the attempt under this serial started (ns, monotonic clock); 0 when it did not."""
        return int(self.words[serial & SLOT_MASK])

    def states(self, serial: int, count: int) -> bytes:
        """The states of consecutive serials, one byte each."""
        starts = ((STATES_OFFSET + slot, length) for slot, length in _pieces(serial, count))
        return b"".join(self._memory[start : start + length] for start, length in starts)

    def ask_cancel(self, serial: int, reason: int) -> None:
        """Ask the worker to end that attempt; replaces what was asked before. `reason` is between 1 and 255."""
        self.words[CANCEL] = serial << _CANCEL_BITS | reason

    def ask_results(self, wanted: bool) -> None:
        """Show whether results are wanted as they come, or by the batch."""
        self.words[RESULTS_ASKED] = wanted

    def passed(self) -> int:
        """The serial up to which the worker has claimed or passed over everything, for good."""
        return int(self.words[PASSED])

    def pulse(self) -> WorkerPulse:
        """What the worker last showed."""
        return WorkerPulse(*self.words[TASKS_DONE : BUSY_NS + 1].tolist())

    # --- worker ---------------------------------------------------------------------------------------------------

    def claim(self, serial: int, count: int) -> Sequence[int]:
        """Start consecutive serials: those that are now RUNNING. The others were revoked."""
        memory = self._memory
        states = b""
        try:
            self._lock(fcntl.LOCK_EX)
            for slot, length in _pieces(serial, count):
                start = STATES_OFFSET + slot
                piece = memory[start : start + length]
                memory[start : start + length] = piece.translate(_CLAIM)
                states += piece
        finally:
            self._lock(fcntl.LOCK_UN)
        if states == _LEASED[:count]:
            return range(serial, serial + count)
        return [number for number, state in enumerate(states, serial) if state == _LEASED_BYTE]

    def release(self, serial: int, count: int) -> None:
        """Give back consecutive serials that were claimed and not started; they can be claimed or revoked again."""
        memory = self._memory
        try:
            self._lock(fcntl.LOCK_EX)
            for slot, length in _pieces(serial, count):
                start = STATES_OFFSET + slot
                memory[start : start + length] = memory[start : start + length].translate(_RELEASE)
        finally:
            self._lock(fcntl.LOCK_UN)

    def begin(self, serial: int, now_ns: int) -> None:
        """Publish which attempt runs."""
        words = self.words
        words[serial & SLOT_MASK] = now_ns
        words[CURRENT] = serial

    def end(self) -> None:
        """Publish that no attempt runs."""
        self.words[CURRENT] = 0

    def cancel_asked(self) -> tuple[int, int]:
        """Serial and reason of the last `ask_cancel`; (0, 0) for none."""
        asked = self.words[CANCEL]
        return asked >> _CANCEL_BITS, asked & 255

    def show_pulse(self, pulse: WorkerPulse) -> None:
        """Publish what the engine shows of this worker; `tasks_done` last."""
        words = self.words
        words[BUSY_NS] = pulse.busy_ns
        words[RSS_BYTES] = pulse.rss_bytes
        words[TASKS_DONE] = pulse.tasks_done

    # --- both -----------------------------------------------------------------------------------------------------

    def fileno(self) -> int:
        """The descriptor of the block."""
        return self._fd

    def close(self) -> None:
        """Unmap the block and close the descriptor. Again is harmless."""
        if self._closed:
            return
        self._closed = True
        self.words.release()
        self._memory.close()
        os.close(self._fd)

    def _lock(self, how: int) -> None:
        """Lock or unlock the first byte of the block; a refused try is a `BlockingIOError` on every system."""
        try:
            fcntl.lockf(self._fd, how, 1)
        except PermissionError as error:  # what POSIX also allows for a lock that is held
            raise BlockingIOError(error.errno, error.strerror) from error


def _pieces(serial: int, count: int) -> list[tuple[int, int]]:
    """Slots and lengths of consecutive serials: one piece, or two around the end of the table."""
    slot = serial & SLOT_MASK
    there = limits.LEASE_SLOTS - slot
    return [(slot, count)] if count <= there else [(slot, there), (0, count - there)]
