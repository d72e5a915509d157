"""The worker's desk: what is claimed next, what is flushed before, what is stopped."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from actors.protocol import limits
from actors.protocol.errors import ProtocolError
from actors.worker import WorkChunk, WorkerDesk, WorkGroup


def group(serial: int, count: int, kind: int = 1) -> WorkGroup:
    return WorkGroup(serial, 1, "run", kind, list(range(count)), None, [None] * count, True)


def test_chunks_follow_the_serials_and_grow_with_short_tasks() -> None:
    desk = WorkerDesk()
    desk.accept(group(1, 10))
    taken = []
    while (chunk := desk.next_chunk()) is not None:
        taken.append((chunk.serial, chunk.size))
        desk.started(chunk.serial + chunk.size - 1)
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
    desk.put_back(chunk, 2)
    again = desk.next_chunk(by_duration=False)
    assert again is not None
    assert (again.serial, again.size) == (3, 4)
    desk.put_back(again, 4)
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
    desk.started(5)
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
    desk.put_back(chunk, 0)
    assert desk.next_chunk() is None
    assert desk.waiting == 0


@pytest.mark.parametrize(
    "bad",
    [
        WorkGroup(9, 1, "r", 1, [], None, [], True),
        WorkGroup(9, 1, "r", 1, [1, 2], None, [1], True),
        WorkGroup(9, 1, "r", 1, [1], [1, 2], [1], True),
        WorkGroup(3, 1, "r", 1, [1], None, [1], True),
    ],
)
def test_malformed_groups_are_refused(bad: WorkGroup) -> None:
    desk = WorkerDesk()
    desk.accept(group(1, 3))
    with pytest.raises(ProtocolError):
        desk.accept(bad)
    assert desk.waiting == 3


class DeskMachine(RuleBasedStateMachine):
    """Any order of arrivals, claims, early ends and stops: every lease comes once, in order, unless it is drained."""

    def __init__(self) -> None:
        super().__init__()
        self.desk = WorkerDesk()
        self.serial = 1
        self.expected = 1

    @rule(count=st.integers(1, 300), kind=st.integers(1, 3), gap=st.integers(0, 2))
    def arrive(self, count: int, kind: int, gap: int) -> None:
        if self.expected == self.serial:
            self.expected += gap
        else:
            gap = 0
        self.serial += gap
        self.desk.accept(group(self.serial, count, kind))
        self.serial += count

    @rule(serial=st.integers(1, 2000), reason=st.integers(1, 2))
    def stop(self, serial: int, reason: int) -> None:
        self.desk.stop(serial, reason)

    @precondition(lambda self: self.expected < self.serial)
    @rule(early=st.integers(0, 300), task_ns=st.integers(100, 10_000_000))
    def run_chunk(self, early: int, task_ns: int) -> None:
        chunk = self.desk.next_chunk()
        assert chunk is not None
        assert chunk.serial == self.expected
        ran = max(1, chunk.size - early)
        for serial in range(chunk.serial, chunk.serial + ran):
            self.desk.stop_reason(serial)
        self.desk.put_back(chunk, ran)
        self.desk.started(chunk.serial + ran - 1)
        self.desk.ran(chunk.group.kind_no, ran, ran * task_ns)
        self.expected += ran

    @invariant()
    def consistent(self) -> None:
        self.desk.check_invariants()
        assert self.desk.waiting == self.serial - self.expected


TestDesk = DeskMachine.TestCase
