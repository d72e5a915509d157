"""Ready queue: classes, order, splitting."""

from __future__ import annotations

from actors.policy.ready import ReadyQueue


def test_better_class_first_and_fifo_inside() -> None:
    queue: ReadyQueue[str] = ReadyQueue()
    queue.push(2, "a", [1, 2])
    queue.push(0, "b", [3])
    queue.push(2, "c", [4])
    assert queue.pop(10) == [("b", [3]), ("a", [1, 2]), ("c", [4])]
    assert len(queue) == 0


def test_a_segment_is_split_and_its_rest_stays_first() -> None:
    queue: ReadyQueue[str] = ReadyQueue()
    queue.push(1, "a", [1, 2, 3])
    queue.push(1, "b", [9])
    assert queue.pop(2) == [("a", [1, 2])]
    assert len(queue) == 2
    assert queue.pop(2) == [("a", [3]), ("b", [9])]


def test_returned_nodes_go_before_the_others() -> None:
    queue: ReadyQueue[str] = ReadyQueue()
    queue.push(1, "a", [1])
    queue.push_front(1, "b", [2])
    assert queue.pop(1) == [("b", [2])]


def test_nothing_is_pushed_for_no_nodes() -> None:
    queue: ReadyQueue[str] = ReadyQueue()
    queue.push(1, "a", [])
    queue.push_front(1, "a", [])
    assert queue.pop(1) == []
    assert queue.counts() == [0, 0, 0, 0]
