"""The face's submissions on their way: numbered, kept until they are durable, sent again after a restart of the engine.

    new ──► unsent ──(room in the ring)──► sent ──(acknowledged)──► gone
              ▲                              │
              └────(the engine restarted)────┘

Invariants
- Frames are sent in the order of their numbers; `sent` then `unsent` hold the numbers after `acked`, without a gap.
- `bytes_held` is the sum of both; beyond `limits.UNACKED_BYTES_MAX` nothing more is taken (guarantee G5).
- A `Slot` in `unsent` is the place of a frame that is still being made (its large values are being written); nothing
  behind it is sent before it. One without a number is the definition of a task kind that found no room at once, or
  the word that definitions are not used any more.
- Of the kinds that were given up, `retired` ones are defined again to a new engine, because frames that are not durable
  may name them.
- A number that was given up is an empty frame: it is counted and never sent.

Concurrency: used under the client's lock.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from actors.protocol import limits
from actors.protocol.errors import QueueFull
from runtime.mail.link import Link

_FLUSH_FRAMES: Final = 512
"""Frames handed to the ring at a time."""


class Slot:
    """A frame that is not made yet (None), or one without a number."""

    __slots__ = ("frame", "numbered")

    def __init__(self, frame: bytes | None = None, *, numbered: bool = True) -> None:
        self.frame = frame
        self.numbered = numbered


class Outbox:
    """See the module. `seq` is the last number given out, `acked` the last one that is durable."""

    __slots__ = (
        "acked", "bytes_held", "control", "first_kind", "kinds", "retired", "open", "sent", "seq", "unsent",
    )  # fmt: skip

    def __init__(self) -> None:
        self.seq = 0
        self.acked = 0
        self.bytes_held = 0
        self.sent: deque[bytes] = deque()
        self.unsent: deque[bytes | Slot] = deque()
        self.kinds: deque[bytes] = deque()
        self.first_kind = 0
        """Number of the first of `kinds`."""
        self.retired: deque[tuple[int, int]] = deque()
        """[(last number when they were given up, kinds below this)]"""
        self.control: deque[bytes] = deque()
        self.open = False

    def check_room(self) -> None:
        """Raise QueueFull when too much is held."""
        if self.bytes_held > limits.UNACKED_BYTES_MAX:
            raise QueueFull(f"{self.bytes_held:,} bytes of submissions are not durable yet")

    # --- new frames -----------------------------------------------------------------------------------------------

    def put(self, frame: bytes, link: Link) -> None:
        """Take the frame of the number `seq + 1`."""
        if self.unsent or not self.open or not link.send(frame):
            self.unsent.append(frame)
            self.flush(link)
        else:
            self.sent.append(frame)
        self.bytes_held += len(frame)
        self.seq += 1

    def reserve(self) -> Slot:
        """Take the number `seq + 1` for a frame that comes later."""
        slot = Slot()
        self.unsent.append(slot)
        self.seq += 1
        return slot

    def fill(self, slot: Slot, frame: bytes, link: Link) -> None:
        """Put a frame in its reserved place; an empty one gives the number up."""
        slot.frame = frame
        self.bytes_held += len(frame)
        self.flush(link)

    def define(self, text: bytes, link: Link) -> int:
        """Number of a new task kind; its definition goes ahead of the submissions that come."""
        number = self.first_kind + len(self.kinds)
        frame = b"K[%d,%b]" % (number, text)
        self.kinds.append(frame)
        self._insert(frame, link)
        return number

    def give_up(self, before: int, link: Link) -> None:
        """No submission that comes names a kind with a number below this."""
        if before > self.first_kind:
            self.retired.append((self.seq, before))
            self._insert(b"U[%d]" % before, link)
            self._forget_kinds()

    def _insert(self, frame: bytes, link: Link) -> None:
        """Send a frame without a number in its place among the others; a new engine is told otherwise."""
        if self.open and (self.unsent or not link.send(frame)):
            self.unsent.append(Slot(frame, numbered=False))
            self.flush(link)

    def _forget_kinds(self) -> None:
        while self.retired and self.retired[0][0] <= self.acked:
            _, before = self.retired.popleft()
            for _ in range(before - self.first_kind):
                self.kinds.popleft()
            self.first_kind = before

    def say(self, frame: bytes, link: Link) -> None:
        """Send on the control lane, or keep until there is room."""
        self.control.append(frame)
        self.flush(link)

    # --- on their way ---------------------------------------------------------------------------------------------

    def flush(self, link: Link) -> None:
        """Send what waits, as far as there is room."""
        while self.control:
            if not link.send(self.control[0], control=True):
                link.want_room()
                return
            self.control.popleft()
        while self.open and self.unsent:
            if not self._first_fits(link):
                link.want_room()
                return
            frames = self._ready()
            taken = link.send_many([frame for frame, _ in frames if frame])
            for frame, numbered in frames:
                if frame and not taken:
                    link.want_room()
                    return
                taken -= bool(frame)
                self.unsent.popleft()
                if numbered:
                    self.sent.append(frame)
            if not frames:
                return

    def acknowledge(self, seq: int) -> None:
        """Forget what is durable: everything up to `seq`."""
        freed = 0
        for _ in range(seq - self.acked):
            if self.sent:
                freed += len(self.sent.popleft())
            elif self.unsent:
                first = self.unsent.popleft()
                freed += len((first.frame or b"") if isinstance(first, Slot) else first)
        self.acked = max(self.acked, seq)
        self.bytes_held -= freed
        if self.retired:
            self._forget_kinds()

    def pause(self) -> None:
        """The engine is gone: everything waits again, and questions are asked anew by the client."""
        self.open = False
        self.control.clear()
        kept = [entry for entry in self.unsent if not isinstance(entry, Slot) or entry.numbered]
        self.unsent = deque([*self.sent, *kept])
        self.sent = deque()

    def resume(self, link: Link) -> None:
        """A new engine said hello, and `acknowledge` was called: define the kinds again and send what waits."""
        self.unsent.extendleft(Slot(frame, numbered=False) for frame in reversed(self.kinds))
        if self.retired:
            self.unsent.append(Slot(b"U[%d]" % self.retired[-1][1], numbered=False))
        self.open = True
        self.flush(link)

    def last_to_wait_for(self) -> int:
        """The last number whose acknowledgement will come."""
        seq = self.seq
        for entry in (*reversed(self.unsent), *reversed(self.sent)):
            frame = entry.frame if isinstance(entry, Slot) else entry
            if isinstance(entry, Slot) and not entry.numbered:
                continue
            if frame != b"":
                break
            seq -= 1
        return seq

    def _first_fits(self, link: Link) -> bool:
        """Whether it is worth a look at the frames behind the first: each that comes while the ring is full asks."""
        first = self.unsent[0]
        frame = first.frame if isinstance(first, Slot) else first
        return not frame or link.fits(frame)

    def _ready(self) -> list[tuple[bytes, bool]]:
        """The frames at the front that can be sent, each with whether it has a number."""
        found: list[tuple[bytes, bool]] = []
        for entry in self.unsent:
            if isinstance(entry, Slot):
                if entry.frame is None:
                    break
                found.append((entry.frame, entry.numbered))
            else:
                found.append((entry, True))
            if len(found) == _FLUSH_FRAMES:
                break
        return found
