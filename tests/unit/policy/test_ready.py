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


def test_segments_of_one_run_in_a_row_come_as_one() -> None:
    queue: ReadyQueue[str] = ReadyQueue()
    first = [1, 2]
    for run, nodes in (("a", first), ("a", range(3, 6)), ("b", [7]), ("a", [8, 9])):
        queue.push(1, run, nodes)
    assert queue.pop(7) == [("a", [1, 2, 3, 4, 5]), ("b", [7]), ("a", [8])]
    assert queue.pop(7) == [("a", [9])]
    assert first == [1, 2], "what was pushed is not changed"


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


def test_taking_a_few_of_very_many_copies_those_few() -> None:
    class Counted(list[int]):
        copied = 0

        def __getitem__(self, at: object) -> object:  # type: ignore[override]
            found = super().__getitem__(at)  # type: ignore[index]
            Counted.copied += len(found)  # type: ignore[arg-type]
            return found

    queue: ReadyQueue[str] = ReadyQueue()
    queue.push(1, "a", Counted(range(1000)))
    taken = [node for _ in range(100) for _, nodes in queue.pop(10) for node in nodes]
    assert taken == list(range(1000))
    assert Counted.copied == 1000
    assert len(queue) == 0


def test_a_segment_that_was_begun_keeps_its_place_and_its_count() -> None:
    queue: ReadyQueue[str] = ReadyQueue()
    queue.push(1, "a", range(5))
    queue.pop(2)
    queue.push_front(1, "b", [9])
    assert queue.counts() == [0, 4, 0, 0]
    assert queue.segments() == [("b", [9]), ("a", range(2, 5))]
    assert queue.pop(3) == [("b", [9]), ("a", range(2, 4))]


def test_what_a_run_has_at_the_front_can_be_dropped() -> None:
    queue: ReadyQueue[str] = ReadyQueue()
    queue.push(1, "a", range(5))
    queue.push(1, "b", [9])
    queue.push(2, "a", [7])
    queue.pop(2)
    queue.drop_first("a")
    assert len(queue) == 1
    assert queue.pop(9) == [("b", [9])]


def test_only_classes_that_are_good_enough_are_taken() -> None:
    queue: ReadyQueue[str] = ReadyQueue()
    assert queue.best_class() == 4
    queue.push(3, "a", [1, 2])
    queue.push(1, "b", [3])
    assert queue.best_class() == 1
    assert queue.pop(5, 1) == [("b", [3])]
    assert queue.pop(5, 2) == []
    assert (queue.best_class(), queue.size) == (3, 2)
