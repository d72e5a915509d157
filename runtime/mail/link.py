"""Two processes joined: a block with four rings, two lanes each way, and the bells that wake a sleeper.

A side is "a" or "b". Each has a control lane, read first, and a work lane, and owns two bells: the primary one, and an
alternate for a second waiter of the same process (the face has an event loop and blocking callers).

States of a side, in its *sleeping word*: 0 awake, 1 ring my primary bell, 2 ring my alternate bell. Only the side
itself sets it, before it sleeps; it is cleared by the sender that rings, or by the side when it wakes by itself.

Why no wake-up is lost
  The receiver stores its sleeping word, fences, and looks at the tails of its lanes; the sender stores the tail,
  fences, and looks at the sleeping word. With a full fence between store and load on both sides, at least one of them
  sees the other's store: the receiver stays awake, or the sender rings. A sender clears the word *before* it rings:
  should it thereby wipe out a newer "sleeping", the ring that follows wakes that sleep too, and the sleeper arms again.
  The same holds for a full ring, with the *wants-room word* and the reader's head in place of tail.
  The fence is a lock taken and given back. On x86 that is two locked instructions, each a full fence. On weakly ordered
  machines it is only an acquire and a release, which leaves a window of nanoseconds; there a net bounds the harm: a
  sleeper looks again, once, `RECHECK_NS` after it went to sleep, when every store made before has long been visible.
  `wait` does so by itself, on all machines. Who sleeps in an event loop does it where `ring.ORDERED_MACHINE` is False:
  after `arm()` returned True, call `pending()` once `RECHECK_NS` later, and if it is True, go on as if the bell had
  rung. A sender that a signal handler interrupts between clearing the word and ringing rings before it raises.

Use in an event loop: watch `fileno()`. On readiness: `drain_bell()`, then `receive()` until a turn brings nothing, then
`arm()`; if that returns False, receive again. A bell without frames is normal: wanted room, or a wake-up that crossed.

Invariants: a frame is either written whole or refused; control frames overtake work frames and nothing else does.

Concurrency: one thread at a time per side (callers hold a lock of their own if they have more), except that one thread
may be inside `wait` while another sends: sending and receiving share no state. One waiter at a time: the primary or the
alternate.

Known limit: death of the peer is not seen here. Its parent sees it, and a waiter gets to know it by its other sources.
"""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from actors.protocol import limits
from actors.protocol.errors import ProtocolError
from runtime.mail.blocks import map_block
from runtime.mail.ends import LinkEnds, Side, create_link, layout_of
from runtime.mail.ring import RingReader, RingWriter

__all__ = ["RECHECK_NS", "Link", "LinkEnds", "LinkStatistics", "create_link"]

RECHECK_NS: Final = 1_000_000
"""How long after going to sleep a sleeper looks again."""
SPIN_MISSES_MAX: Final = 8
"""After so many spins in a row that found nothing, a waiter spins only every SPIN_RETRY_EVERY-th time."""
SPIN_RETRY_EVERY: Final = 32


@dataclass(frozen=True, slots=True)
class LinkStatistics:
    """Snapshot of one side. Bytes count since the link was made, the rest since this `Link` was."""

    control_bytes_sent: int
    work_bytes_sent: int
    control_bytes_received: int
    work_bytes_received: int
    frames_waiting: int
    """Frames sent which the peer has not taken."""
    refused: int
    """Frames refused for want of room."""
    rings: int
    """Bells rung at the peer, each a system call and a wake-up."""
    sleeps: int
    """How often `wait` went to sleep."""
    rereads: int
    """Frames seen before all of their bytes; always 0 on ordered machines."""


class Link:
    """One side of a link. Owns the descriptors of the ends it is given, and closes them."""

    __slots__ = (
        "_ends", "_memory", "_words", "_control_out", "_work_out", "_control_in", "_work_in",
        "_sleeping", "_peer_sleeping", "_wants", "_peer_wants", "_bells", "_peer_bells", "_pollers",
        "_fence_in", "_fence_out", "_spins", "_spin_misses", "_refused", "_wanting", "_rings", "_sleeps", "_closed",
        "hears_work",
    )  # fmt: skip

    def __init__(self, ends: LinkEnds, side: Side) -> None:
        """Map the memory and continue where an earlier object of this side stopped.

        Args:
            ends: the descriptors; `ends.dup()` where both sides live in one process.
            side: which side to be.

        Raises:
            ProtocolError: the memory is not that of a link.
        """
        self._ends = ends
        self._memory = map_block(ends.memory_fd)
        with memoryview(self._memory) as view:
            self._words = words = view.cast("Q")
        try:
            layout = layout_of(words, side)
        except ProtocolError:
            words.release()
            self._memory.close()
            raise
        memory, checked = self._memory, layout.checked
        self._control_out, self._work_out = (RingWriter(memory, words, p, checked=checked) for p in layout.outgoing)
        self._control_in, self._work_in = (RingReader(memory, words, p, checked=checked) for p in layout.incoming)
        self._sleeping, self._peer_sleeping = layout.sleeping, layout.peer_sleeping
        self._wants, self._peer_wants = layout.wants, layout.peer_wants
        self._bells, self._peer_bells = ends.bells(side)
        self._pollers = tuple(_poller(bell.read_fd) for bell in self._bells)
        fence = threading.Lock()
        self._fence_in, self._fence_out = fence.acquire, fence.release
        self._spins = cores() > 1
        self._spin_misses = 0
        self._refused: dict[RingWriter, int] = {}
        """Lane and size of frames that found no room lately."""
        self._wanting = False
        self.hears_work = True
        """Whether the work lane is read, and wakes us. While not, frames wait there, and their sender when full."""
        self._rings = self._sleeps = 0
        self._closed = False

    # --- sending --------------------------------------------------------------------------------------------------

    def send(self, payload: bytes, *, control: bool = False) -> bool:
        """Send one frame, and wake the peer if it sleeps. False: no room now, nothing was written.

        Raises:
            ProtocolError: the frame is empty, or larger than a quarter of its lane.
        """
        writer = self._control_out if control else self._work_out
        if writer.write(payload):
            fence_in, fence_out = self._fence_in, self._fence_out
            try:  # `_fence`, spelled out because it is called for every frame
                fence_in()
            finally:
                fence_out()
            if self._words[self._peer_sleeping]:
                self._ring_peer(self._peer_sleeping)
            return True
        self._refused[writer] = len(payload)
        return False

    def send_many(self, payloads: Sequence[bytes]) -> int:
        """Send frames on the work lane, with one fence and at most one wake-up; returns how many were taken."""
        taken = self._work_out.write_many(payloads)
        if taken:
            self._fence()
            if self._words[self._peer_sleeping]:
                self._ring_peer(self._peer_sleeping)
        if taken < len(payloads):
            self._refused[self._work_out] = len(payloads[taken])
        return taken

    def fits(self, payload: bytes) -> bool:
        """Whether a frame would find room on the work lane now. False: as if it had been refused."""
        if self._work_out.has_room(len(payload)):
            return True
        self._refused[self._work_out] = len(payload)
        return False

    def want_room(self, *, alternate: bool = False) -> None:
        """After a refused send: let our bell ring once the peer has taken something. Rings at once if it just did."""
        self._words[self._wants] = 2 if alternate else 1
        self._wanting = True
        self._fence()
        if self._has_room():
            self._words[self._wants] = 0
            self._bells[alternate].ring()

    def wait_room(self, timeout: float | None, *, alternate: bool = False) -> bool:
        """After a refused send: sleep until the peer has taken something, whatever arrives meanwhile. False: timeout.

        Only while disarmed, because it consumes the bell.
        """
        self.want_room(alternate=alternate)
        came = self._sleep(_deadline_ns(timeout), alternate, self._has_room)
        self._words[self._wants] = 0
        self._wanting = False
        return came

    # --- receiving ------------------------------------------------------------------------------------------------

    def receive(self, bytes_max: int = limits.RECEIVE_BYTES_PER_TURN_MAX) -> tuple[list[bytes], list[bytes]]:
        """Take what is there, control and work, without waiting; rings a peer that wants room.

        Args:
            bytes_max: about how many bytes to take from each lane at most; one frame is taken in any case.

        Returns:
            The frames of the control lane and of the work lane, each in the order of sending. There may be more left.

        Raises:
            ProtocolError: the memory is damaged.
        """
        words = self._words
        control, work = self._control_in, self._work_in
        early = control.read(bytes_max) if words[control.tail] != control.slot else []
        late = work.read(bytes_max) if words[work.tail] != work.slot and self.hears_work else []
        if early or late:
            self._fence()
            if words[self._peer_wants]:
                self._ring_peer(self._peer_wants)
        return early, late

    def pending(self) -> bool:
        """Whether there is something to receive."""
        words = self._words
        if words[self._work_in.tail] != self._work_in.slot and self.hears_work:
            return True
        return bool(words[self._control_in.tail] != self._control_in.slot)

    # --- sleeping -------------------------------------------------------------------------------------------------

    def arm(self, *, alternate: bool = False) -> bool:
        """Say that this side goes to sleep. True: nothing is there, the bell will ring. False: awake, receive first."""
        self._words[self._sleeping] = 2 if alternate else 1
        self._fence()
        if self.pending():
            self._words[self._sleeping] = 0
            return False
        return True

    def disarm(self) -> None:
        """Say that this side is awake."""
        self._words[self._sleeping] = 0

    def fileno(self, *, alternate: bool = False) -> int:
        """The descriptor that becomes readable when this side is woken."""
        return self._bells[alternate].read_fd

    def drain_bell(self, *, alternate: bool = False) -> None:
        """Consume the wake-up."""
        self._bells[alternate].drain()

    def wait(self, timeout: float | None, spin_ns: int = 0, *, alternate: bool = False) -> bool:
        """Wait until there is something to receive.

        Args:
            timeout: longest sleep, in seconds; None for ever, 0 for a look.
            spin_ns: how long to look at the lanes before sleeping. Ignored on one core, and mostly skipped while
                spinning does not pay. Holds the GIL.
            alternate: sleep on the alternate bell.

        Returns:
            True: there is data. False: the time is over, or the room that was wanted has come.
        """
        if self.pending():
            return True
        if spin_ns and self._spin(spin_ns):
            return True
        deadline_ns = _deadline_ns(timeout)
        while True:
            if self._wanting and not self._words[self._wants]:
                self._wanting = False
                return False
            if not self.arm(alternate=alternate):
                return True
            awake = self._sleep(deadline_ns, alternate, self.pending)
            self.disarm()
            if self.pending():
                return True
            if not awake:
                return False

    # --- the rest -------------------------------------------------------------------------------------------------

    def statistics(self) -> LinkStatistics:
        """A snapshot of the counters."""
        return LinkStatistics(
            control_bytes_sent=self._control_out.bytes_written,
            work_bytes_sent=self._work_out.bytes_written,
            control_bytes_received=self._control_in.bytes_read,
            work_bytes_received=self._work_in.bytes_read,
            frames_waiting=self._control_out.frames_waiting + self._work_out.frames_waiting,
            refused=self._control_out.refused + self._work_out.refused,
            rings=self._rings,
            sleeps=self._sleeps,
            rereads=self._control_in.rereads + self._work_in.rereads,
        )

    def close(self) -> None:
        """Unmap the memory and close the descriptors of this process. The peer is not told. Again is harmless."""
        if self._closed:
            return
        self._closed = True
        self._words.release()
        self._memory.close()
        self._ends.close()

    def _fence(self) -> None:
        """Order the stores before against the loads after; see the head of this module.

        By local names, which CPython calls faster than attributes; `finally` because a signal handler may raise.
        """
        fence_in, fence_out = self._fence_in, self._fence_out
        try:
            fence_in()
        finally:
            fence_out()

    def _ring_peer(self, word: int) -> None:
        """Wake the peer that asked for it in its sleeping or wants-room word. Clear first, then ring."""
        which = self._words[word]
        if which:
            self._words[word] = 0
            bell = self._peer_bells[which - 1]
            try:
                bell.ring()
            except BaseException:  # a signal handler raised: nobody else rings for a word that is cleared
                bell.ring()
                raise
            self._rings += 1

    def _has_room(self) -> bool:
        """Whether a frame that was refused would be taken now, or the peer cleared our wish."""
        return not self._words[self._wants] or any(writer.has_room(size) for writer, size in self._refused.items())

    def _sleep(self, deadline_ns: int | None, alternate: bool, awake: Callable[[], bool]) -> bool:
        """Sleep until our bell rings, which is consumed, or `awake` says so at the second look. False: timeout."""
        self._sleeps += 1
        bell = self._bells[alternate]
        poller = self._pollers[alternate]
        left_ns = RECHECK_NS if deadline_ns is None else deadline_ns - time.monotonic_ns()
        if poller.poll(max(0, min(left_ns, RECHECK_NS)) / 1e6):
            bell.drain()
            return True
        if awake():
            return True
        if deadline_ns is None:
            poller.poll()
        elif (left_ns := deadline_ns - time.monotonic_ns()) <= 0 or not poller.poll(left_ns / 1e6):
            return False
        bell.drain()
        return True

    def _spin(self, spin_ns: int) -> bool:
        """Look at the lanes for a while; whether something came."""
        misses = self._spin_misses
        if not self._spins or (misses >= SPIN_MISSES_MAX and misses % SPIN_RETRY_EVERY):
            self._spin_misses = misses + 1
            return False
        words, clock_ns = self._words, time.perf_counter_ns
        work, work_slot = self._work_in.tail, self._work_in.slot
        control, control_slot = self._control_in.tail, self._control_in.slot
        deadline_ns = clock_ns() + spin_ns
        while clock_ns() < deadline_ns:
            if words[work] != work_slot or words[control] != control_slot:
                self._spin_misses = 0
                return True
        self._spin_misses = misses + 1
        return False


def cores() -> int:
    """Cores this process may run on; on one, who spins keeps the peer from answering."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _poller(fd: int) -> select.poll:
    poller = select.poll()
    poller.register(fd, select.POLLIN)
    return poller


def _deadline_ns(timeout: float | None) -> int | None:
    """The end of a timeout on the monotonic clock."""
    return None if timeout is None else time.monotonic_ns() + int(timeout * 1e9)
