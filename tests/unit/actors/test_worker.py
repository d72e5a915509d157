"""The worker's desk: what is claimed next, what is flushed before, what is stopped."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from actors.protocol import limits
from actors.protocol.errors import ProtocolError
from actors.worker import NORMAL, OVERTAKEN_MAX, OVERTAKEN_NS, WorkChunk, WorkerDesk, WorkGroup


def group(serial: int, count: int, kind: int = 1, lane: int = NORMAL) -> WorkGroup:
    return WorkGroup(serial, 1, "run", kind, list(range(count)), None, [None] * count, True, lane)


def claimed(desk: WorkerDesk, now_ns: int = 0) -> tuple[int, int]:
    """Claim and run the next chunk: its first serial and its size."""
    chunk = desk.next_chunk(now_ns=now_ns, by_duration=False)
    assert chunk is not None
    desk.leave(chunk, chunk.size)
    desk.check_invariants()
    return chunk.serial, chunk.size


def test_chunks_follow_the_serials_and_grow_with_short_tasks() -> None:
    desk = WorkerDesk()
    desk.accept(group(1, 10))
    taken = []
    while (chunk := desk.next_chunk()) is not None:
        taken.append((chunk.serial, chunk.size))
        desk.leave(chunk, chunk.size)
        desk.ran(1, chunk.size, 1_000 * chunk.size)
    assert taken == [(1, 1), (2, 2), (4, 4), (8, 3)]
    assert desk.waiting == 0


def test_a_chunk_is_of_one_group() -> None:
    desk = WorkerDesk()
    desk.accept(group(1, 2))
    desk.accept(group(3, 2, kind=2))
    chunks = [desk.next_chunk(by_duration=False) for _ in range(3)]
    assert [(c.serial, c.size) if c else None for c in chunks] == [(1, 2), (3, 2), None]


def test_room_bounds_a_chunk() -> None:
    desk = WorkerDesk()
    desk.accept(group(1, 5))
    chunk = desk.next_chunk(3, by_duration=False)
    assert chunk is not None
    assert chunk.size == 3
    assert desk.next_chunk(0) is None
    assert desk.waiting == 2


def test_what_was_not_started_comes_next_again() -> None:
    desk = WorkerDesk()
    desk.accept(group(1, 6))
    desk.accept(group(7, 1))
    chunk = desk.next_chunk(by_duration=False)
    assert chunk is not None
    desk.leave(chunk, 2)
    again = desk.next_chunk(by_duration=False)
    assert again is not None
    assert (again.serial, again.size) == (3, 4)
    desk.leave(again, 4)
    following = desk.next_chunk()
    assert following is not None
    assert following.serial == 7


def test_results_go_out_before_a_task_that_may_be_long() -> None:
    desk = WorkerDesk()
    desk.flushed(0)
    chunk = WorkChunk(group(1, 1), 0, 1)
    assert desk.must_flush(chunk, 1), "unknown"
    desk.ran(1, 1, 1_000)
    assert not desk.must_flush(chunk, 1)
    assert desk.must_flush(chunk, limits.RESULT_FLUSH_NS)
    assert not desk.must_flush(chunk, limits.RESULT_ASKED_NS)
    assert desk.must_flush(chunk, limits.RESULT_ASKED_NS, asked=True)
    desk.ran(1, 1, limits.CLAIM_TARGET_NS)
    assert desk.must_flush(chunk, 1)


def test_a_stop_request_is_kept_until_its_lease_comes() -> None:
    desk = WorkerDesk()
    desk.accept(group(1, 3))
    desk.stop(2, 1)
    assert desk.has_stops
    assert [desk.stop_reason(serial) for serial in (1, 2, 3)] == [0, 1, 0]
    assert not desk.has_stops


def test_stop_requests_for_others_are_forgotten() -> None:
    desk = WorkerDesk()
    desk.accept(group(5, 3))
    chunk = desk.next_chunk()
    assert chunk is not None
    desk.leave(chunk, 1)
    for serial in (1, 5, 8, 100):
        desk.stop(serial, 1)
    assert not desk.has_stops


def test_drain_drops_what_is_not_claimed() -> None:
    desk = WorkerDesk()
    desk.accept(group(1, 3))
    chunk = desk.next_chunk()
    assert chunk is not None
    desk.drain()
    desk.accept(group(4, 3))
    desk.leave(chunk, 0)
    assert desk.next_chunk() is None
    assert desk.waiting == 0


@pytest.mark.parametrize(
    "bad",
    [
        WorkGroup(9, 1, "r", 1, [], None, [], True),
        WorkGroup(9, 1, "r", 1, [1, 2], None, [1], True),
        WorkGroup(9, 1, "r", 1, [1], [1, 2], [1], True),
        WorkGroup(3, 1, "r", 1, [1], None, [1], True),
        WorkGroup(9, 1, "r", 1, [1], None, [1], True, 4),
        WorkGroup(9, 1, "r", 1, [1], None, [1], True, -1),
    ],
)
def test_malformed_groups_are_refused(bad: WorkGroup) -> None:
    desk = WorkerDesk()
    desk.accept(group(1, 3))
    with pytest.raises(ProtocolError):
        desk.accept(bad)
    assert desk.waiting == 3


REALTIME, HIGH, LOW = 0, 1, 3


def test_a_better_class_overtakes_at_the_next_chunk() -> None:
    desk = WorkerDesk()
    desk.accept(group(1, 3, lane=LOW))
    desk.accept(group(4, 2))
    first = desk.next_chunk()
    assert first is not None
    assert first.serial == 4
    desk.accept(group(6, 2, lane=REALTIME))
    desk.accept(group(8, 1, lane=HIGH))
    desk.leave(first, 1)
    assert [claimed(desk) for _ in range(4)] == [(6, 2), (8, 1), (5, 1), (1, 3)]


def test_slots_are_free_up_to_the_lowest_lease_that_may_still_start() -> None:
    desk = WorkerDesk()
    desk.accept(group(1, 4, lane=LOW))
    chunk = desk.next_chunk(2, by_duration=False)
    assert chunk is not None
    assert desk.passed == 0, "what is claimed may be put back"
    desk.leave(chunk, 1)
    assert desk.passed == 1
    desk.accept(group(5, 3, lane=REALTIME))
    assert claimed(desk) == (5, 3)
    assert desk.passed == 1, "2 to 4 were overtaken"
    assert claimed(desk) == (2, 3)
    assert desk.passed == 7


def test_what_is_put_back_is_next_of_its_class_behind_a_better_one() -> None:
    desk = WorkerDesk()
    desk.accept(group(1, 3))
    desk.accept(group(4, 1))
    chunk = desk.next_chunk(by_duration=False)
    assert chunk is not None
    desk.accept(group(5, 1, lane=REALTIME))
    desk.leave(chunk, 1)
    assert [claimed(desk) for _ in range(3)] == [(5, 1), (2, 2), (4, 1)]


def test_a_stop_request_for_what_was_overtaken_is_kept() -> None:
    desk = WorkerDesk()
    desk.accept(group(1, 2, lane=LOW))
    desk.accept(group(3, 2, lane=REALTIME))
    assert claimed(desk) == (3, 2)
    for serial in (2, 3, 4):
        desk.stop(serial, 1)
    assert [desk.stop_reason(serial) for serial in (1, 2, 3, 4)] == [0, 1, 0, 0]


def test_a_stop_request_for_what_is_claimed_is_kept_until_it_started() -> None:
    desk = WorkerDesk()
    desk.accept(group(1, 3))
    chunk = desk.next_chunk(by_duration=False)
    assert chunk is not None
    desk.stop(2, 1)
    desk.stop(3, 2)
    desk.leave(chunk, 2)
    assert [desk.stop_reason(serial) for serial in (2, 3)] == [0, 2]


def test_what_is_overtaken_for_long_has_its_turn_once_in_a_while() -> None:
    desk = WorkerDesk()
    desk.accept(group(1, 2, lane=LOW))
    desk.accept(group(3, 10, lane=REALTIME))

    def next_serial(now_ns: int) -> int:
        chunk = desk.next_chunk(1, now_ns=now_ns)
        assert chunk is not None
        desk.leave(chunk, 1)
        return chunk.serial

    start = 7 * OVERTAKEN_NS  # it has waited behind a long task; that is not to be overtaken
    times = (0, OVERTAKEN_NS - 1, OVERTAKEN_NS, OVERTAKEN_NS + 1, 2 * OVERTAKEN_NS, 2 * OVERTAKEN_NS + 1)
    assert [next_serial(start + after_ns) for after_ns in times] == [3, 4, 1, 5, 6, 2]


def test_behind_one_long_task_the_best_is_still_first() -> None:
    desk = WorkerDesk()
    desk.accept(group(1, 1, lane=LOW))
    desk.accept(group(2, 2, lane=REALTIME))
    serials = []
    for now_ns in (1, 100 * OVERTAKEN_NS):
        chunk = desk.next_chunk(1, now_ns=now_ns)
        assert chunk is not None
        desk.leave(chunk, 1)
        serials.append(chunk.serial)
    assert serials == [2, 3]


def test_what_would_keep_the_lease_table_from_being_used_again_goes_first() -> None:
    desk = WorkerDesk()
    desk.accept(group(1, 1, lane=LOW))
    desk.accept(group(2, OVERTAKEN_MAX - 1, lane=REALTIME))
    assert claimed(desk)[0] == 2
    desk.accept(group(OVERTAKEN_MAX + 1, 1, lane=REALTIME))
    assert claimed(desk) == (1, 1)


class DeskMachine(RuleBasedStateMachine):
    """Any order of arrivals, claims, early ends and stops, in all classes.

    Every lease comes once, in order inside its class, and before all of worse classes; what is stopped is stopped, and
    `passed` is the lowest that has not come.
    """

    def __init__(self) -> None:
        super().__init__()
        self.desk = WorkerDesk()
        self.newest = 0
        self.lanes: dict[int, list[int]] = {lane: [] for lane in range(4)}
        self.stops: dict[int, int] = {}

    @rule(count=st.integers(1, 300), kind=st.integers(1, 3), lane=st.integers(0, 3), gap=st.integers(0, 2))
    def arrive(self, count: int, kind: int, lane: int, gap: int) -> None:
        first = self.newest + 1 + gap
        self.newest = first + count - 1
        self.desk.accept(group(first, count, kind, lane))
        self.lanes[lane] += range(first, first + count)

    @rule(serial=st.integers(1, 2000), reason=st.integers(1, 2))
    def stop(self, serial: int, reason: int) -> None:
        self.desk.stop(serial, reason)
        if any(serial in waiting for waiting in self.lanes.values()):
            self.stops[serial] = reason

    @precondition(lambda self: any(self.lanes.values()))
    @rule(early=st.integers(0, 300), task_ns=st.integers(100, 10_000_000), stopped=st.integers(0, 300))
    def run_chunk(self, early: int, task_ns: int, stopped: int) -> None:
        chunk = self.desk.next_chunk()
        assert chunk is not None
        waiting = next(filter(None, self.lanes.values()))
        serials = list(range(chunk.serial, chunk.serial + chunk.size))
        assert serials == waiting[: chunk.size]
        assert self.desk.passed == self.lowest() - 1
        ran = max(1, chunk.size - early)
        if stopped < chunk.size:  # while the chunk runs: for one that started already or will start
            self.desk.stop(serials[stopped], 1)
            if stopped >= ran:
                self.stops[serials[stopped]] = 1
        for serial in serials[: min(ran, stopped)]:
            assert self.desk.stop_reason(serial) == self.stops.pop(serial, 0)
        for serial in serials[min(ran, stopped) : ran]:
            self.stops.pop(serial, None)
        self.desk.leave(chunk, ran)
        self.desk.ran(chunk.group.kind_no, ran, ran * task_ns)
        del waiting[:ran]

    def lowest(self) -> int:
        return min((waiting[0] for waiting in self.lanes.values() if waiting), default=self.newest + 1)

    @invariant()
    def consistent(self) -> None:
        self.desk.check_invariants()
        assert self.desk.waiting == sum(map(len, self.lanes.values()))
        assert self.desk.passed == self.lowest() - 1
        assert self.desk.has_stops == bool(self.stops)


TestDesk = DeskMachine.TestCase


def test_a_batch_is_claimed_whole_and_counts_as_one() -> None:
    desk = WorkerDesk()
    batch = group(1, 5)
    batch.runs = [(1, "a")] * 3 + [(2, "b")] * 2
    desk.accept(batch)
    desk.accept(group(6, 2))
    chunk = desk.next_chunk(1)
    assert chunk is not None
    assert (chunk.serial, chunk.size) == (1, 5)
    assert desk.must_flush(chunk, 0)
    desk.leave(chunk, chunk.size)
    assert claimed(desk) == (6, 2)
