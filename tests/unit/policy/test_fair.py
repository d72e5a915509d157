"""Fair queue: classes, tenants, flows, what is held back, and what is asked about it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from actors.policy.fair import FairQueue
from actors.policy.position import Position
from actors.protocol.errors import CallerError
from actors.protocol.kinds import Kind

KIND = Kind.of(0, {"handler": "m:f", "node_type": "cpu", "shape": "one"})
LOW = replace(KIND, priority=3)
ACME = replace(KIND, tenant="acme")
PRINT = replace(KIND, concurrency_key="printer")
ACME_PRINT = replace(PRINT, tenant="acme")


class Limit:
    """A gate that lets so many through of what has a concurrency key."""

    def __init__(self, free: int) -> None:
        self.free = free
        self.asked = 0

    def __call__(self, kind: Kind, wanted: int) -> tuple[int, str]:
        self.asked += 1
        may = wanted if kind.concurrency_key is None else min(wanted, self.free)
        if kind.concurrency_key is not None:
            self.free -= may
        return may, "" if may == wanted else f"key:{kind.concurrency_key}"


def order(queue: FairQueue[str], pops: int) -> str:
    return "".join(run for _ in range(pops) for run, _, _ in queue.pop(1, 0))


def test_better_class_first_and_fifo_inside() -> None:
    queue: FairQueue[str] = FairQueue()
    queue.push(KIND, "a", [1, 2], 0, "f")
    queue.push(replace(KIND, priority=0), "b", [3], 0, "f")
    queue.push(KIND, "c", [4], 0, "f")
    assert [(run, nodes) for run, _, nodes in queue.pop(10, 0)] == [("b", [3]), ("a", [1, 2]), ("c", [4])]
    assert queue.size == 0


def test_one_flow_comes_in_one_piece_that_is_not_copied() -> None:
    queue: FairQueue[str] = FairQueue()
    nodes = [*range(5000)]
    queue.push(KIND, "a", nodes, 0, "f")
    assert queue.pop(5000, 0)[0][2] is nodes


def test_segments_of_one_run_and_kind_in_a_row_come_as_one() -> None:
    queue: FairQueue[str] = FairQueue()
    first = [1, 2]
    for run, nodes in (("a", first), ("a", range(3, 6)), ("b", [7]), ("a", [8, 9])):
        queue.push(KIND, run, nodes, 0, "f")
    assert [(run, nodes) for run, _, nodes in queue.pop(7, 0)] == [("a", [1, 2, 3, 4, 5]), ("b", [7]), ("a", [8])]
    assert [(run, nodes) for run, _, nodes in queue.pop(7, 0)] == [("a", [9])]
    assert first == [1, 2], "what was pushed is not changed"


def test_taking_a_few_of_very_many_copies_those_few() -> None:
    class Counted(list[int]):
        copied = 0

        def __getitem__(self, at: object) -> object:  # type: ignore[override]
            found = super().__getitem__(at)  # type: ignore[index]
            Counted.copied += len(found)  # type: ignore[arg-type]
            return found

    queue: FairQueue[str] = FairQueue()
    queue.push(KIND, "a", Counted(range(1000)), 0, "f")
    queue.push(ACME, "b", range(1000), 0, "f")
    taken = [node for _ in range(200) for run, _, nodes in queue.pop(10, 0) if run == "a" for node in nodes]
    assert taken == list(range(1000))
    assert Counted.copied == 1000


def test_returned_nodes_go_before_their_flow() -> None:
    queue: FairQueue[str] = FairQueue()
    queue.push(KIND, "a", [1], 0, "f")
    queue.push(PRINT, "b", [2], 0, "f", front=True)
    assert order(queue, 2) == "ba"


def test_long_tasks_of_tenants_and_flows_take_turns_one_by_one() -> None:
    queue: FairQueue[str] = FairQueue()
    queue.push(KIND, "a", range(100), 0, "r:1")
    queue.push(KIND, "b", range(100), 0, "r:2")
    queue.push(ACME, "c", range(100), 0, "r:3")
    assert Counter(order(queue, 40)) == {"a": 10, "b": 10, "c": 20}


def test_weights_count_at_once() -> None:
    queue: FairQueue[str] = FairQueue()
    queue.push(KIND, "a", range(1000), 0, "f")
    queue.push(ACME, "b", range(1000), 0, "f")
    order(queue, 20)
    queue.set_weight("acme", 3)
    order(queue, 8)
    assert Counter(order(queue, 400)) == {"a": 100, "b": 300}
    with pytest.raises(CallerError, match="above 0"):
        queue.set_weight("acme", 0)


def test_a_tenant_that_comes_late_is_not_behind_what_waits() -> None:
    queue: FairQueue[str] = FairQueue()
    queue.push(KIND, "a", range(100_000), 0, "f")
    queue.pop(1000, 0)
    queue.push(ACME, "b", [1], 0, "f")
    assert order(queue, 1) == "b"


def test_many_tenants_with_a_task_each_leave_nothing_behind() -> None:
    queue: FairQueue[str] = FairQueue()
    kinds = [replace(KIND, tenant=str(no)) for no in range(1000)]
    for no, kind in enumerate(kinds):
        queue.push(kind, "a", [no], 0, f"s:{no}")
    assert [node for _ in range(1000) for _, _, nodes in queue.pop(1, 0) for node in nodes] == [*range(1000)]
    assert [len(level.tenants) for level in queue._levels] == [0, 0, 1, 0], "the last lane stays, to be used again"


def test_what_a_gate_holds_back_stops_nobody_behind_it() -> None:
    queue: FairQueue[str] = FairQueue()
    limit = Limit(2)
    queue.push(PRINT, "a", range(5), 0, "f")
    queue.push(KIND, "b", [9], 0, "f")
    assert [(run, list(nodes)) for run, _, nodes in queue.pop(10, 0, gate=limit)] == [("a", [0, 1]), ("b", [9])]
    assert (queue.size, queue.blocked_size, queue.held_back()) == (0, 3, {"key:printer": 3})
    queue.push(PRINT, "a", [5], 0, "f")
    assert queue.size == 0, "it joins what is held back"
    assert queue.release("key:printer") == 4
    assert [list(nodes) for _, _, nodes in queue.pop(10, 0)] == [[2, 3, 4, 5]]
    assert queue.release("key:printer") == 0


def test_a_million_tasks_behind_one_key_are_held_back_in_one_step() -> None:
    queue: FairQueue[str] = FairQueue()
    for node in range(1000):
        queue.push(PRINT, str(node), [node], 0, "f")
    limit = Limit(0)
    for node in range(100):
        limit.free, limit.asked = 1, 0
        assert [list(nodes) for _, _, nodes in queue.pop(500, 0, gate=limit)] == [[node]]
        assert limit.asked == 1
        queue.release("key:printer")


def test_released_work_comes_back_in_the_order_of_its_flow() -> None:
    queue: FairQueue[str] = FairQueue()
    queue.push(ACME, "a", [1], 0, "f")
    queue.push(ACME_PRINT, "b", [2], 0, "f")
    queue.push(ACME, "c", [3], 0, "f")
    queue.pop(10, 0, gate=lambda kind, wanted: (0, f"key:{kind.concurrency_key}"))
    queue.release("key:printer")
    queue.release("key:None")
    assert order(queue, 3) == "abc"


@pytest.mark.parametrize("scope", ["tenant:acme", "class:normal", "type:cpu", "key:printer"])
def test_a_pause_holds_back_a_scope_and_nothing_else(scope: str) -> None:
    queue: FairQueue[str] = FairQueue()
    other = replace(LOW, node_type="gpu")
    queue.push(ACME_PRINT, "a", [1, 2], 0, "f")
    queue.push(other, "b", [3], 0, "f")
    queue.block(scope)
    assert [run for run, _, _ in queue.pop(10, 0)] == ["b"]
    queue.block(scope)
    assert queue.release(scope) == 2
    assert order(queue, 1) == "a"


def test_who_has_other_work_does_not_keep_a_limit_from_who_has_not() -> None:
    queue: FairQueue[str] = FairQueue()
    queue.push(KIND, "other", range(1000), 0, "f")
    queue.push(PRINT, "a", range(1000), 0, "f", front=True)
    queue.push(ACME_PRINT, "b", range(1000), 0, "f")
    served: Counter[str] = Counter()
    for _ in range(40):
        served.update(run for run, _, _ in queue.pop(8, 0, gate=Limit(1)))
        queue.release("key:printer")
    assert abs(served["a"] - served["b"]) <= 2


def test_a_gate_must_say_what_blocks() -> None:
    queue: FairQueue[str] = FairQueue()
    queue.push(KIND, "a", [1], 0, "f")
    with pytest.raises(CallerError, match="what blocks"):
        queue.pop(1, 0, gate=lambda kind, wanted: (0, ""))


def test_room_bounds_a_class() -> None:
    queue: FairQueue[str] = FairQueue()
    queue.push(KIND, "a", range(10), 0, "f")
    queue.push(LOW, "b", range(10), 0, "f")
    assert [(run, len(nodes)) for run, _, nodes in queue.pop(8, 0, [9, 9, 3, 1])] == [("a", 3), ("b", 1)]


def test_ageing_gives_one_turn_a_time_and_can_be_turned_off() -> None:
    queue: FairQueue[str] = FairQueue(ageing_ns=160)
    queue.push(KIND, "a", range(1000), 0, "f")
    queue.push(LOW, "b", range(1000), 0, "f")
    taken = {now: order_at(queue, now) for now in range(0, 400, 10)}
    assert [now for now, run in taken.items() if run == "b"] == [160, 320]
    queue.ageing_ns = 0
    assert {order_at(queue, now) for now in range(400, 2000, 10)} == {"a"}


def test_room_for_the_best_alone_does_not_put_off_a_turn_for_age() -> None:
    queue: FairQueue[str] = FairQueue(ageing_ns=160)
    for run, kind in (("a", replace(KIND, priority=0)), ("b", KIND), ("c", LOW)):
        queue.push(kind, run, range(1000), 0, "f")
    assert [run for run, _, _ in queue.pop(1, 160, [9, 0, 0, 0])] == ["a"]
    assert [run for run, _, _ in queue.pop(2, 160)] == ["b", "c"]


def order_at(queue: FairQueue[str], now_ns: int) -> str:
    return queue.pop(1, now_ns)[0][0]


def test_a_run_that_is_half_taken_changes_its_class() -> None:
    queue: FairQueue[str] = FairQueue()
    queue.push(KIND, "a", range(4), 5, "f")
    queue.push(KIND, "b", [9], 6, "f")
    queue.pop(2, 7)
    assert queue.reprioritize("a", 3) == 2
    assert (queue.counts(), queue.oldest_ns(3)) == ([0, 0, 1, 2], 5)
    queue.push(KIND, "a", [4], 8, "f", class_=3)
    assert [(run, list(nodes)) for run, _, nodes in queue.pop(9, 9)] == [("b", [9]), ("a", [2, 3, 4])]


def test_a_dropped_run_is_gone_wherever_it_waits() -> None:
    queue: FairQueue[str] = FairQueue()
    queue.push(KIND, "a", range(4), 0, "f")
    queue.push(KIND, "b", [9], 0, "f")
    queue.push(LOW, "a", [5], 0, "g")
    queue.push(PRINT, "a", [6], 0, "g")
    queue.block("key:printer")
    assert queue.drop_run("a", "f") == 4
    assert queue.drop_run("a") == 2
    assert (queue.size, queue.blocked_size, queue.held_back()) == (1, 0, {})
    assert order(queue, 2) == "b"


def test_position_says_who_is_before() -> None:
    queue: FairQueue[str] = FairQueue()
    queue.push(ACME, "a", range(4), 0, "f")
    queue.push(ACME_PRINT, "b", range(4), 0, "f")
    queue.push(ACME, "c", range(4), 0, "g")
    queue.push(KIND, "d", range(4), 0, "f")
    assert queue.position("b", 2) == Position(2, "acme", 6, 0, "")
    assert queue.position("c", 0) == Position(2, "acme", 0, 1, "")
    assert queue.position("d", 1, "f") == Position(2, "", 1, 1, "")
    queue.block("key:printer")
    assert queue.position("b", 2) == Position(2, "acme", 2, 0, "key:printer")
    assert queue.position("b", 7) is None


def test_one_node_moves_as_another_kind_and_back_to_its_place() -> None:
    queue: FairQueue[str] = FairQueue()
    queue.push(KIND, "a", range(5), 0, "f")
    queue.push(KIND, "b", [9], 0, "f")
    assert queue.pop(1, 0) == [("a", KIND, range(1))]
    assert queue.reprioritize("a", 3, kinds={KIND: LOW}, node=2) == 1
    assert queue.reprioritize("a", 3, kinds={KIND: LOW}, node=0) == 0, "it was taken"
    assert queue.counts() == [0, 0, 4, 1]
    other = replace(KIND, name="other")
    assert queue.reprioritize("a", 2, kinds={LOW: other}, node=2) == 1
    assert [(run, kind, [*nodes]) for run, kind, nodes in queue.pop(9, 0)] == [
        ("a", KIND, [1]),
        ("a", other, [2]),
        ("a", KIND, [3, 4]),
        ("b", KIND, [9]),
    ]
    assert (queue.size, queue.blocked_size, queue.counts()) == (0, 0, [0, 0, 0, 0])
