"""Rings: frames come out once, in order and unchanged; what does not fit is refused; what is damaged is noticed."""

from __future__ import annotations

import mmap
from collections.abc import Iterator

import pytest

from actors.protocol import limits
from actors.protocol.errors import ProtocolError
from runtime.mail.ring import RUN_FRAMES_MIN, SMALL_PASS_FRAMES, RingPlan, RingReader, RingWriter

ALL = 1 << 30


class Ends:
    """Both ends of a ring in private memory."""

    def __init__(self, data_bytes: int, *, checked: bool) -> None:
        self.plan = RingPlan.at(64, data_bytes)
        self.memory = mmap.mmap(-1, self.plan.stop)
        self.words = memoryview(self.memory).cast("Q")
        self.plan.prepare(self.words)
        self.checked = checked
        self.writer, self.reader = self.new_writer(), self.new_reader()

    def new_writer(self) -> RingWriter:
        return RingWriter(self.memory, self.words, self.plan, checked=self.checked)

    def new_reader(self) -> RingReader:
        return RingReader(self.memory, self.words, self.plan, checked=self.checked)

    def read_all(self) -> list[bytes]:
        frames: list[bytes] = []
        while taken := self.reader.read(ALL):
            frames += taken
        return frames


@pytest.fixture(params=[False, True], ids=["ordered", "checked"])
def ring(request: pytest.FixtureRequest) -> Iterator[Ends]:
    """A ring of 1 KiB: 16 slots, of which 15 can be filled, and frames of up to 256 bytes."""
    ends = Ends(1024, checked=request.param)
    yield ends
    ends.words.release()
    ends.memory.close()


@pytest.fixture(params=[False, True], ids=["ordered", "checked"])
def wide(request: pytest.FixtureRequest) -> Iterator[Ends]:
    """A ring of 64 KiB: 1024 slots."""
    ends = Ends(65536, checked=request.param)
    yield ends
    ends.words.release()
    ends.memory.close()


def test_an_empty_ring_gives_nothing(ring: Ends) -> None:
    assert ring.reader.read(ALL) == []
    assert ring.writer.frames_waiting == 0


def test_frames_come_out_once_and_in_order(ring: Ends) -> None:
    assert ring.writer.write(b"one")
    assert ring.writer.write(b"second")
    assert ring.writer.frames_waiting == 2
    assert ring.reader.read(ALL) == [b"one", b"second"]
    assert ring.reader.read(ALL) == []
    assert ring.writer.bytes_written == ring.reader.bytes_read == 9
    assert ring.writer.frames_waiting == 0


def test_full_slots_refuse_and_change_nothing(ring: Ends) -> None:
    frames = [bytes([number]) for number in range(1, 16)]
    assert all(map(ring.writer.write, frames))
    assert not ring.writer.write(b"x")
    assert not ring.writer.has_room(1)
    assert ring.writer.refused == 1
    assert ring.read_all() == frames
    assert ring.writer.write(b"x")
    assert ring.read_all() == [b"x"]


def test_full_data_refuse_and_change_nothing(ring: Ends) -> None:
    frames = [bytes([number]) * 256 for number in range(4)]
    assert all(map(ring.writer.write, frames))
    assert not ring.writer.write(b"x")
    assert ring.reader.read(256) == frames[:1]
    assert ring.writer.write(b"y" * 255)
    assert not ring.writer.has_room(2)
    assert ring.writer.has_room(1)
    assert ring.read_all() == [*frames[1:], b"y" * 255]


def test_frames_cross_the_end_of_the_data(ring: Ends) -> None:
    for size in range(1, 257):
        frame = bytes([size % 256]) * size
        assert ring.writer.write(frame)
        assert ring.reader.read(ALL) == [frame]


@pytest.mark.parametrize("size", [0, 257, 2000])
def test_a_frame_of_illegal_size_is_a_bug_of_the_caller(ring: Ends, size: int) -> None:
    with pytest.raises(ProtocolError):
        ring.writer.write(bytes(size))
    with pytest.raises(ProtocolError):
        ring.writer.write_many([bytes(size)] * 2)
    ring.writer.write(b"first")
    with pytest.raises(ProtocolError):
        ring.writer.write(bytes(size))
    with pytest.raises(ProtocolError):
        ring.writer.write_many([bytes(size)] * RUN_FRAMES_MIN)
    assert ring.read_all() == [b"first"]


@pytest.mark.parametrize("count", [1, RUN_FRAMES_MIN, SMALL_PASS_FRAMES, 500])
def test_bytes_max_ends_a_pass_but_never_before_one_frame(wide: Ends, count: int) -> None:
    frames = [b"%04d" % number for number in range(count)]
    assert wide.writer.write_many(frames) == count
    assert wide.reader.read(1) == frames[:1]
    assert wide.reader.read(9) == frames[1:3]
    assert wide.read_all() == frames[3:]


def test_a_pass_takes_a_bounded_number_of_frames(monkeypatch: pytest.MonkeyPatch, wide: Ends) -> None:
    monkeypatch.setattr(limits, "RECEIVE_FRAMES_PER_TURN_MAX", 100)
    assert wide.writer.write_many([b"x"] * 150) == 150
    assert len(wide.reader.read(ALL)) == 100
    assert len(wide.reader.read(ALL)) == 50


def test_many_frames_go_through_many_laps(wide: Ends) -> None:
    for lap in range(60):
        frames = [b"%d-%d" % (lap, number) * 7 for number in range(lap * 11)]
        assert wide.writer.write_many(frames) == len(frames)
        assert wide.read_all() == frames


def test_write_many_takes_what_fits(wide: Ends) -> None:
    frames = [b"%05d" % number for number in range(2000)]
    taken = wide.writer.write_many(frames)
    assert taken == 1023
    assert wide.read_all() == frames[:taken]
    big = [bytes([number]) * 5000 for number in range(20)]
    assert wide.writer.write_many(big) == 13
    assert wide.read_all() == big[:13]


def test_later_ends_continue_where_earlier_ones_stopped(ring: Ends) -> None:
    for number in range(200):
        frame = b"%d" % number * (1 + number % 40)
        assert ring.writer.write(frame)
        if number % 3:
            ring.writer = ring.new_writer()
        ring.reader = ring.new_reader()
        assert ring.reader.read(ALL) == [frame]


def test_an_unpublished_frame_is_no_frame(ring: Ends) -> None:
    ring.writer.write(b"before")
    tail = ring.words[ring.plan.tail]
    ring.writer.write(b"written when its writer was killed")
    ring.words[ring.plan.tail] = tail
    ring.writer = ring.new_writer()
    ring.writer.write(b"after")
    assert ring.read_all() == [b"before", b"after"]


class Late(mmap.mmap):
    """Memory whose bytes from `place` on look old for the next `looks` looks, as on a weakly ordered machine."""

    place = 0
    looks = 0

    def __getitem__(self, key: int | slice) -> int | bytes:  # type: ignore[override]
        found = super().__getitem__(key)
        if isinstance(key, slice) and key.start <= self.place < key.stop and self.looks:
            self.looks -= 1
            return found[: self.place - key.start] + bytes(key.stop - self.place)  # type: ignore[index]
        return found


@pytest.mark.parametrize("count", [1, 3, SMALL_PASS_FRAMES, 100])
@pytest.mark.parametrize("late", [0, 1, 2])
def test_bytes_that_are_seen_late_are_read_again(monkeypatch: pytest.MonkeyPatch, count: int, late: int) -> None:
    monkeypatch.setattr(mmap, "mmap", Late)
    ring = Ends(65536, checked=True)
    memory = ring.memory
    assert isinstance(memory, Late)
    frames = [b"frame-%04d" % number for number in range(count)]
    ring.writer.write_many(frames)
    memory.place, memory.looks = ring.plan.data + 10 * late, 5
    assert ring.read_all() == frames
    assert ring.reader.rereads > 0 or late >= count
    ring.words.release()
    memory.close()


@pytest.mark.parametrize("count", [1, 3, SMALL_PASS_FRAMES, 100])
def test_a_tail_that_never_gets_its_frames_is_damage(monkeypatch: pytest.MonkeyPatch, wide: Ends, count: int) -> None:
    monkeypatch.setattr(limits, "RING_REREADS_MAX", 3)
    wide.writer.write_many([b"good"] * 2)
    wide.words[wide.plan.tail] += count
    assert wide.reader.read(ALL) == [b"good"] * 2
    with pytest.raises(ProtocolError):
        wide.reader.read(ALL)
    assert wide.reader.rereads == 3


@pytest.mark.parametrize("count", [3, SMALL_PASS_FRAMES, 100])
def test_a_flipped_bit_is_noticed_where_frames_are_checked(
    monkeypatch: pytest.MonkeyPatch, wide: Ends, count: int
) -> None:
    monkeypatch.setattr(limits, "RING_REREADS_MAX", 3)
    frames = [b"frame-%04d" % number for number in range(count)]
    wide.writer.write_many(frames)
    wide.memory[wide.plan.data + 25] ^= 1
    if not wide.checked:
        assert len(wide.read_all()) == count
        return
    assert wide.reader.read(ALL) == frames[:2]
    with pytest.raises(ProtocolError):
        wide.reader.read(ALL)


def test_a_wild_end_is_noticed(monkeypatch: pytest.MonkeyPatch, wide: Ends) -> None:
    monkeypatch.setattr(limits, "RING_REREADS_MAX", 3)
    for count in (1, 50):
        wide.writer.write_many([b"x"] * count)
        wide.words[wide.reader.slot] = 1 << 40
        with pytest.raises(ProtocolError):
            wide.read_all()


def test_a_plan_is_made_of_whole_words() -> None:
    with pytest.raises(ProtocolError):
        RingPlan.at(4, 1024)
    with pytest.raises(ProtocolError):
        RingPlan.at(0, 1023)
