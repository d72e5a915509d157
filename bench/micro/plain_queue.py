"""The ready queue that `actors.policy.fair` took the place of, to measure against: classes, first in first out inside.

Holds *segments*, a run with some of its nodes, because nodes become ready in batches: pushing a thousand nodes is one
append. A segment remembers how many of its nodes were taken, so that taking a few of a million copies those few. Prior
art: the run queues of operating systems, with a segment in the place of a thread.

Invariant: `len(queue)` is the number of nodes in all segments. Nodes that left the READY state while they waited are
not removed here; who pops them checks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Generic, TypeVar

R = TypeVar("R")


class ReadyQueue(Generic[R]):
    """Segments of (run, nodes, how many of them were taken) by priority class, 0 first. `size` counts the nodes."""

    __slots__ = ("_classes", "size")

    def __init__(self, classes: int = 4) -> None:
        self._classes: tuple[deque[tuple[R, Sequence[int], int]], ...] = tuple(deque() for _ in range(classes))
        self.size = 0

    def __len__(self) -> int:
        return self.size

    def push(self, priority: int, run: R, nodes: Sequence[int]) -> None:
        """Add nodes behind their class. The list is kept, not copied."""
        if nodes:
            self._classes[priority].append((run, nodes, 0))
            self.size += len(nodes)

    def push_front(self, priority: int, run: R, nodes: Sequence[int]) -> None:
        """Put returned nodes before their class: they were waiting longer than all that is there."""
        if nodes:
            self._classes[priority].appendleft((run, nodes, 0))
            self.size += len(nodes)

    def pop(self, count: int, worst: int | None = None) -> list[tuple[R, Sequence[int]]]:
        """Take up to `count` nodes, best class first, none of a class below `worst`.

        Segments of one run that follow each other come as one.
        """
        taken: list[tuple[R, Sequence[int]]] = []
        for waiting in self._classes if worst is None else self._classes[: worst + 1]:
            while waiting and count > 0:
                run, nodes, start = waiting[0]
                left = len(nodes) - start
                if left > count:
                    waiting[0] = (run, nodes, start + count)
                    _add(taken, run, nodes[start : start + count])
                    self.size -= count
                    return taken
                waiting.popleft()
                _add(taken, run, nodes[start:] if start else nodes)
                self.size -= left
                count -= left
        return taken

    def best_class(self) -> int:
        """The best class that something waits in; the number of classes when nothing does."""
        for number, waiting in enumerate(self._classes):
            if waiting:
                return number
        return len(self._classes)

    def drop_first(self, run: R) -> None:
        """Drop the first segment of each class if it is this run's, none of whose nodes is READY any more."""
        for waiting in self._classes:
            if waiting and waiting[0][0] is run:
                _, nodes, start = waiting.popleft()
                self.size -= len(nodes) - start

    def segments(self) -> list[tuple[R, Sequence[int]]]:
        """All segments, best class first; for checks."""
        return [(run, nodes[start:]) for waiting in self._classes for run, nodes, start in waiting]

    def counts(self) -> list[int]:
        """Waiting nodes per class."""
        return [sum(len(nodes) - start for _, nodes, start in waiting) for waiting in self._classes]


def _add(taken: list[tuple[R, Sequence[int]]], run: R, nodes: Sequence[int]) -> None:
    before = taken.pop()[1] if taken and taken[-1][0] is run else None
    taken.append((run, nodes if before is None else [*before, *nodes]))
