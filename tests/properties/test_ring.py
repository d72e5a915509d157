"""A ring against a plain queue: any mixture of writes and reads, full rings and wrap-around included."""

from __future__ import annotations

import mmap
from collections import deque

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.mail.ring import RingPlan, RingReader, RingWriter

DATA_BYTES = 2048
SLOTS = DATA_BYTES // 64
FRAME_BYTES_MAX = DATA_BYTES // 4

SIZES = st.one_of(st.integers(1, 8), st.integers(1, 100), st.integers(FRAME_BYTES_MAX - 4, FRAME_BYTES_MAX))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), SIZES),
        st.tuples(st.just("write_many"), st.lists(SIZES, max_size=40)),
        st.tuples(st.just("read"), st.integers(1, 2 * DATA_BYTES)),
        st.tuples(st.just("reopen"), st.booleans()),
    ),
    max_size=60,
)


class Oracle:
    """What a ring should hold, and whether it should have room."""

    def __init__(self) -> None:
        self.frames: deque[bytes] = deque()
        self.bytes_held = 0

    def takes(self, size: int) -> bool:
        return len(self.frames) < SLOTS - 1 and self.bytes_held + size <= DATA_BYTES

    def write(self, frame: bytes) -> None:
        self.frames.append(frame)
        self.bytes_held += len(frame)

    def read(self, count: int) -> list[bytes]:
        frames = [self.frames.popleft() for _ in range(count)]
        self.bytes_held -= sum(map(len, frames))
        return frames


@pytest.mark.slow
@pytest.mark.parametrize("checked", [False, True], ids=["ordered", "checked"])
@given(steps=STEPS)
@settings(max_examples=150)
def test_a_ring_is_a_bounded_queue(checked: bool, steps: list[tuple[str, object]]) -> None:
    plan = RingPlan.at(0, DATA_BYTES)
    oracle, number = Oracle(), 0
    with mmap.mmap(-1, plan.stop) as memory, memoryview(memory) as view, view.cast("Q") as words:
        plan.prepare(words)
        writer = RingWriter(memory, words, plan, checked=checked)
        reader = RingReader(memory, words, plan, checked=checked)
        for what, amount in steps:
            if what == "write" or what == "write_many":
                sizes = [amount] if isinstance(amount, int) else amount
                assert isinstance(sizes, list)
                frames = [bytes([number % 251, place % 251]) * size for place, size in enumerate(sizes)]
                frames = [frame[:size] for frame, size in zip(frames, sizes, strict=True)]
                number += 1
                taken = int(writer.write(frames[0])) if what == "write" else writer.write_many(frames)
                for frame in frames[:taken]:
                    assert oracle.takes(len(frame))
                    oracle.write(frame)
                assert taken == len(frames) or not oracle.takes(len(frames[taken]))
            elif what == "read":
                assert isinstance(amount, int)
                found = reader.read(amount)
                assert found == oracle.read(len(found))
                assert bool(found) or not oracle.frames
                assert len(found) <= 1 or sum(map(len, found)) <= amount
            elif amount:
                writer = RingWriter(memory, words, plan, checked=checked)
            else:
                reader = RingReader(memory, words, plan, checked=checked)
            assert writer.frames_waiting == len(oracle.frames)
            assert writer.bytes_written - reader.bytes_read == oracle.bytes_held
        while found := reader.read(DATA_BYTES):
            assert found == oracle.read(len(found))
        assert not oracle.frames
        assert writer.write(bytes(FRAME_BYTES_MAX))
        assert reader.rereads == 0
