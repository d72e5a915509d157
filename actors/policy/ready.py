"""Ready queue of one node type: four priority classes, first in first out inside a class, O(1) a batch.

Holds *segments*, a run with some of its nodes, because nodes become ready in batches: pushing a thousand nodes is one
append, and nodes in a row are a `range`, cut without copying. Prior art: the run queues of operating systems, with a
segment in the place of a thread.

Invariant: `len(queue)` is the number of nodes in all segments. Nodes that left the READY state while they waited are
not removed here; who pops them checks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Generic, TypeVar

R = TypeVar("R")


class ReadyQueue(Generic[R]):
    """Segments of (run, nodes) by priority class, 0 first."""

    __slots__ = ("_classes", "_size")

    def __init__(self, classes: int = 4) -> None:
        self._classes: tuple[deque[tuple[R, Sequence[int]]], ...] = tuple(deque() for _ in range(classes))
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def push(self, priority: int, run: R, nodes: Sequence[int]) -> None:
        """Add nodes behind their class. The list is kept, not copied."""
        if nodes:
            self._classes[priority].append((run, nodes))
            self._size += len(nodes)

    def push_front(self, priority: int, run: R, nodes: Sequence[int]) -> None:
        """Put returned nodes before their class: they were waiting longer than all that is there."""
        if nodes:
            self._classes[priority].appendleft((run, nodes))
            self._size += len(nodes)

    def pop(self, count: int) -> list[tuple[R, Sequence[int]]]:
        """Take up to `count` nodes, best class first."""
        taken: list[tuple[R, Sequence[int]]] = []
        for waiting in self._classes:
            while waiting and count > 0:
                run, nodes = waiting[0]
                if len(nodes) <= count:
                    waiting.popleft()
                    taken.append((run, nodes))
                    count -= len(nodes)
                    self._size -= len(nodes)
                else:
                    taken.append((run, nodes[:count]))
                    waiting[0] = (run, nodes[count:])
                    self._size -= count
                    return taken
        return taken

    def segments(self) -> list[tuple[R, Sequence[int]]]:
        """All segments, best class first; for checks."""
        return [segment for waiting in self._classes for segment in waiting]

    def counts(self) -> list[int]:
        """Waiting nodes per class."""
        return [sum(len(nodes) for _, nodes in waiting) for waiting in self._classes]
