"""A one-way queue of frames in shared memory: one process writes, one reads, nobody locks.

Layout of a ring (`RingPlan`), inside a block that both processes have mapped; a word is 64 bits::

    tail word     next slot the writer will fill                 written by the writer, after everything else
    head word     next slot the reader will look at              written by the reader, once per pass
    ends column   one word per slot: the position in the stream where the slot's frame ends
    check column  one word per slot: XXH3-64 of the frame, seeded with that end (only `checked` rings)
    data          the frames, end to end, as a circle of bytes

A frame has no header among the data. Its descriptor is its slot: it starts where the frame before it ended, and the
*end* is a position of the whole stream that only grows, so it ties the slot to its place in the stream: what an
earlier lap left in the slot is never larger than the start, and is recognised. Columns are why this is fast in
CPython: a reader takes the ends of a pass with one `tolist`, the bytes with one slice, and cuts it at C speed
(`BytesIO.read` over the lengths), and a writer of many frames stores them all with three slice assignments. A frame
that meets the end of the data goes on at its beginning (split copy); the reader joins the two pieces.

States: slot indices are in `(first, stop]` after the first frame, and never equal in both words unless the ring is
empty, because the writer leaves one slot unused. Invariants, asserted by the property test: frames come out once, in
order, unchanged; `refused` only when slots or bytes are really short; a ring that was drained takes any legal frame.

Which orders are needed, and why they hold
  1. Frame, end and check before tail (writer). 2. Tail before end and frame (reader). 3. Frame read before head
  stored (reader). 4. Head read before the space is used again (writer).
  *Total store order* (x86): loads are not moved over loads, nor stores over stores, nor a load after a later store;
  that is all four. Words are aligned and stored by `memoryview` with one eight-byte move, so they are never torn,
  and the interpreter neither caches nor reorders accesses to a buffer.
  *Weakly ordered machines* (`checked`): 1 and 2 may fail: a tail can be seen before the bytes it stands for. Such a
  frame fails its check (the end is not above the start, or the hash, seeded with the position, does not fit the bytes),
  the reader delivers what is good before it, and reads the rest again: coherence makes every store visible in the
  end, so a few rounds do; after `RING_REREADS_MAX` it is no delay but damage, and `ProtocolError`. A wrong frame
  would need a 64-bit collision. 3 holds because every byte of a frame feeds the comparison that the store of the head
  depends on, and 4 because the copy into the space depends on the comparison with the head: no machine makes a store
  visible before the branch it depends on is decided.

Concurrency: one writer object and one reader object per ring at a time, each used by one thread at a time. A later
object continues where its forerunner stopped, as both positions are in the block. A writer killed at any instant
leaves either the whole frame or none; a reader killed between taking and publishing leaves the frames in the ring.

Known limits: an exception raised by a signal handler inside `read` may lose the frames of that pass, and inside
`write_many` hide how many were taken; raise only where the caller can bear it.

Prior art: Lamport's single-producer queue (1977); FastForward (Giacomoni et al., 2008) for publishing by data.
"""

from __future__ import annotations

import mmap
import operator
import platform
from array import array
from bisect import bisect_right
from collections.abc import Sequence
from io import BytesIO
from itertools import accumulate, chain
from typing import Final, NamedTuple

from xxhash import xxh3_64_intdigest

from actors.protocol import limits
from actors.protocol.errors import ProtocolError

ORDERED_MACHINE: Final = platform.machine().lower() in {"x86_64", "amd64", "i386", "i686", "x86"}
"""Whether this machine keeps total store order. Others use checked rings."""

WORD_BYTES: Final = 8
SMALL_PASS_FRAMES: Final = 24
"""A pass of fewer frames is read in a loop: 140 ns a frame, measured, against 2 us and 75 ns a frame for many."""
_LINE_WORDS: Final = 16
"""Head and tail are this many words apart: two cache lines, as neighbours are fetched in pairs."""
_HEADER_WORDS: Final = 2 * _LINE_WORDS
RUN_FRAMES_MIN: Final = 12
"""Fewer frames are stored one by one: 190 ns a frame, measured, against 2 us and 50 ns a frame for a run."""
RUN_FRAMES_MAX: Final = 1024
"""Frames stored by one set of slice assignments."""


class RingPlan(NamedTuple):
    """Where a ring lies in its block. Word indices count from the beginning of the block."""

    tail: int
    head: int
    slots: int
    slots_count: int
    data: int
    data_bytes: int

    @classmethod
    def at(cls, offset: int, data_bytes: int) -> RingPlan:
        """Plan a ring from byte `offset` (a multiple of 8) on, for `data_bytes` bytes of frames."""
        if offset % WORD_BYTES or data_bytes % WORD_BYTES:
            raise ProtocolError(f"a ring is made of whole words, not offset {offset} and {data_bytes} bytes")
        word = offset // WORD_BYTES
        slots_count = max(data_bytes // limits.RING_BYTES_PER_FRAME_MEAN, 2)
        slots = word + _HEADER_WORDS
        return cls(word, word + _LINE_WORDS, slots, slots_count, (slots + 2 * slots_count) * WORD_BYTES, data_bytes)

    @property
    def stop(self) -> int:
        """The byte after the ring."""
        return self.data + self.data_bytes

    @property
    def slots_stop(self) -> int:
        """The word after the ends column."""
        return self.slots + self.slots_count

    @property
    def frame_bytes_max(self) -> int:
        """Largest frame: a quarter of the data, so that a drained ring always has room for it."""
        return self.data_bytes // 4

    def prepare(self, words: memoryview) -> None:
        """Make an empty ring of zeroed memory; once, before the block is shared."""
        words[self.tail] = words[self.head] = self.slots

    def end_before(self, words: memoryview, slot: int) -> int:
        """Where the frame before `slot` ends in the stream. The unused slot keeps it intact for either side."""
        return int(words[(slot if slot > self.slots else self.slots_stop) - 1])


class _RingEnd:
    """What both ends know: the block, and the plan taken apart into attributes."""

    __slots__ = (
        "_memory", "_words", "_head", "_slots_first", "_slots_stop", "_slots_count",
        "_data_first", "_data_stop", "_data_bytes", "_checked", "tail",
    )  # fmt: skip

    def __init__(self, memory: mmap.mmap, words: memoryview, plan: RingPlan, *, checked: bool) -> None:
        """One end of the ring that `plan` describes.

        Args:
            memory: the whole block.
            words: the same, cast to `Q`.
            plan: the ring's place in it.
            checked: whether frames carry a hash; both ends must agree.
        """
        self._memory = memory
        self._words = words
        self.tail = plan.tail
        self._head = plan.head
        self._slots_first = plan.slots
        self._slots_stop = plan.slots_stop
        self._slots_count = plan.slots_count
        self._data_first = plan.data
        self._data_stop = plan.stop
        self._data_bytes = plan.data_bytes
        self._checked = checked


class RingWriter(_RingEnd):
    """The writing end."""

    __slots__ = ("_frame_bytes_max", "_lap", "_offset", "_offset_limit", "_slot", "_slot_limit", "refused")

    def __init__(self, memory: mmap.mmap, words: memoryview, plan: RingPlan, *, checked: bool) -> None:
        """Go on writing where the writer before stopped."""
        super().__init__(memory, words, plan, checked=checked)
        self._frame_bytes_max = plan.frame_bytes_max
        self._slot = self._slot_limit = words[plan.tail]
        end = plan.end_before(words, self._slot)
        self._offset = self._offset_limit = plan.data + end % plan.data_bytes  # the first frame looks for room
        self._lap = end - self._offset  # position in the stream = lap + offset in the block
        self.refused = 0

    def write(self, frame: bytes) -> bool:
        """Append one frame; False, and nothing written, when there is no room now.

        Raises:
            ProtocolError: the frame is empty, or longer than the ring allows.
        """
        offset = self._offset
        stop = offset + len(frame)
        slot = self._slot
        if stop > self._offset_limit or slot >= self._slot_limit or stop == offset:
            return self._write_slowly(frame)
        self._memory[offset:stop] = frame
        words = self._words
        words[slot] = end = self._lap + stop
        if self._checked:
            words[slot + self._slots_count] = xxh3_64_intdigest(frame, end)
        self._offset = stop
        self._slot = slot = slot + 1
        words[self.tail] = slot
        return True

    def write_many(self, frames: Sequence[bytes]) -> int:
        """Append as many frames of the sequence as there is room for; returns how many. Visible all at once."""
        taken, total = 0, len(frames)
        while total - taken >= RUN_FRAMES_MIN:
            ahead = min(self._slot_limit - self._slot, RUN_FRAMES_MAX)
            taken_now = self._write_run(frames[taken : taken + ahead])
            if taken_now == 0:  # only the slow way of `write` looks for room
                if not self.write(frames[taken]):
                    return taken
                taken_now = 1
            taken += taken_now
        for frame in frames[taken:]:
            if not self.write(frame):
                break
            taken += 1
        return taken

    def has_room(self, frame_bytes: int) -> bool:
        """Whether a frame of that many bytes would be taken now."""
        return self._look_for_room() >= frame_bytes and self._slot < self._slot_limit

    @property
    def bytes_written(self) -> int:
        """Position in the stream: bytes since the block was made."""
        return self._lap + self._offset

    @property
    def frames_waiting(self) -> int:
        """Frames which the reader has not taken."""
        return int(self._slot - self._words[self._head]) % self._slots_count

    def _write_run(self, frames: Sequence[bytes]) -> int:
        """Append the longest head of `frames` that fits without a look at the reader or a wrap-around."""
        if not all(frames):
            raise ProtocolError("a frame has at least the byte that names its type")
        offset, slot, lap = self._offset, self._slot, self._lap
        ends = array("Q", accumulate(map(len, frames), initial=lap + offset))
        count = bisect_right(ends, lap + self._offset_limit) - 1
        if count == 0:
            return 0
        frames = frames[:count]
        words = self._words
        stop = ends[count] - lap
        self._memory[offset:stop] = b"".join(frames)
        column = memoryview(ends)[1 : count + 1]
        words[slot : slot + count] = column
        if self._checked:
            checks = array("Q", map(xxh3_64_intdigest, frames, column))
            words[slot + self._slots_count : slot + self._slots_count + count] = memoryview(checks)
        self._offset = stop
        self._slot = slot = slot + count
        words[self.tail] = slot
        return count

    def _write_slowly(self, frame: bytes) -> bool:
        """Append a frame that meets a limit: the room known so far, the end of a column, the end of the data."""
        size = len(frame)
        if not 0 < size <= self._frame_bytes_max:
            raise ProtocolError(f"a frame of {size} bytes is not between 1 and {self._frame_bytes_max}")
        if not self.has_room(size):
            self.refused += 1
            return False
        if self._offset + size <= self._offset_limit:
            return self.write(frame)
        words, slot = self._words, self._slot
        there = self._data_stop - self._offset
        stop = self._data_first + size - there
        self._memory[self._offset : self._data_stop] = frame[:there]
        self._memory[self._data_first : stop] = frame[there:]
        end = self._lap + self._offset + size
        check = xxh3_64_intdigest(frame, end)
        words[slot] = end
        if self._checked:
            words[slot + self._slots_count] = check
        self._offset_limit = self._offset = stop
        self._lap = end - stop
        self._slot = slot = slot + 1
        words[self.tail] = slot
        return True

    def _look_for_room(self) -> int:
        """Set the limits from the reader's head; returns the free bytes.

        `_offset_limit` is at most a frame ahead, so that the comparison with it refuses frames that are too long, too.
        """
        head = self._words[self._head]
        consumed = self._words[(head if head > self._slots_first else self._slots_stop) - 1]
        slot, offset, lap = self._slot, self._offset, self._lap
        if slot == self._slots_stop:
            slot = self._slots_first
        if offset == self._data_stop:
            offset, lap = self._data_first, lap + self._data_bytes
        slots_free = self._slots_count - 1 - (slot - head) % self._slots_count
        bytes_free = self._data_bytes - (lap + offset - consumed)
        offset_limit = min(offset + bytes_free, self._data_stop, offset + self._frame_bytes_max)
        slot_limit = min(slot + slots_free, self._slots_stop)
        self._slot, self._offset, self._lap = slot, offset, lap
        self._slot_limit, self._offset_limit = slot_limit, offset_limit
        return int(bytes_free)


class RingReader(_RingEnd):
    """The reading end. It has something to read while the word `tail` of the block differs from `slot`."""

    __slots__ = ("_at", "_offset", "rereads", "slot")

    def __init__(self, memory: mmap.mmap, words: memoryview, plan: RingPlan, *, checked: bool) -> None:
        """Go on reading where the reader before stopped."""
        super().__init__(memory, words, plan, checked=checked)
        self.slot = words[plan.head]
        self._at = plan.end_before(words, self.slot)
        self._offset = plan.data + self._at % plan.data_bytes
        self.rereads = 0

    def read(self, bytes_max: int) -> list[bytes]:
        """Take the frames that are there, in order, up to about `bytes_max` bytes but at least one; never waits.

        Raises:
            ProtocolError: the memory does not hold what a writer writes.
        """
        words, slot = self._words, self.slot
        count = words[self.tail] - slot
        if not 0 < count < SMALL_PASS_FRAMES:
            return self._read_many(count, bytes_max) if count else []
        memory, data_stop, checked = self._memory, self._data_stop, self._checked
        offset, at = self._offset, self._at
        at_max = at + bytes_max
        slot_stop = slot + count
        frames: list[bytes] = []
        while slot < slot_stop:
            end = words[slot]
            stop = offset + end - at
            if not offset < stop <= data_stop or (end > at_max and frames):
                break
            frame = memory[offset:stop]
            if checked and words[slot + self._slots_count] != xxh3_64_intdigest(frame, end):
                break
            frames.append(frame)
            offset, at = stop, end
            slot += 1
        if not frames:  # it goes on at the beginning of the data, or its bytes are not visible yet
            return self._read_many(count, bytes_max)
        self._offset, self._at, self.slot = offset, at, slot
        words[self._head] = slot
        return frames

    @property
    def bytes_read(self) -> int:
        """Position in the stream: bytes taken since the block was made."""
        return int(self._at)

    def _read_many(self, count: int, bytes_max: int) -> list[bytes]:
        """Take one contiguous piece of the columns."""
        slot = self.slot
        if count < 0:  # the writer went on at the beginning of the columns
            count = self._slots_stop - slot
            if count == 0:
                slot = self._slots_first
                count = self._words[self.tail] - slot
        count = min(count, limits.RECEIVE_FRAMES_PER_TURN_MAX)
        for _ in range(limits.RING_REREADS_MAX):
            ends = self._words[slot : slot + count].tolist()
            if ends[-1] - self._at > bytes_max:
                ends = ends[: max(1, bisect_right(ends, self._at + bytes_max))]
            frames = self._good_frames(slot, ends)
            if frames:
                break
            self.rereads += 1
        else:
            raise ProtocolError(f"a frame at position {self._at} of the stream does not fit its check")
        end = ends[len(frames) - 1]
        offset = self._offset + end - self._at
        if offset > self._data_stop:
            offset -= self._data_bytes
        slot += len(frames)
        self._offset, self._at, self.slot = offset, end, slot
        self._words[self._head] = slot
        return frames

    def _good_frames(self, slot: int, ends: list[int]) -> list[bytes]:
        """The frames of these slots, up to the first that does not fit its check (on ordered machines: all of them)."""
        at = self._at
        lengths = list(map(operator.sub, ends, chain((at,), ends)))
        if min(lengths) <= 0 or ends[-1] - at > self._data_bytes:
            good = next(
                i
                for i, (length, end) in enumerate(zip(lengths, ends, strict=True))
                if length <= 0 or end - at > self._data_bytes
            )
            lengths, ends = lengths[:good], ends[:good]
            if not good:
                return []
        offset = self._offset
        stop = offset + ends[-1] - at
        if stop <= self._data_stop:
            piece = self._memory[offset:stop]
        else:
            piece = self._memory[offset : self._data_stop] + self._memory[self._data_first : stop - self._data_bytes]
        frames = list(map(BytesIO(piece).read, lengths))
        if self._checked:
            slot += self._slots_count
            checks = self._words[slot : slot + len(ends)].tolist()
            found = list(map(xxh3_64_intdigest, frames, ends))
            if found != checks:
                del frames[next(i for i, pair in enumerate(zip(found, checks, strict=True)) if pair[0] != pair[1]) :]
        return frames
