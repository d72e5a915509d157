"""Graphs as rows of parent numbers: children, an order with parents first, and a cycle where there is one.

All in O(nodes + edges) and without recursion, so that a chain of a million is as good as a fan-out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence


def successors(parents: Sequence[Sequence[int]]) -> list[list[int]]:
    """The edges turned round: rows of children."""
    children: list[list[int]] = [[] for _ in parents]
    for child, row in enumerate(parents):
        for parent in row:
            children[parent].append(child)
    return children


def topological(parents: Sequence[Sequence[int]]) -> list[int]:
    """Row numbers, parents first (Kahn's algorithm, first in first out). Rows on or behind a cycle are missing."""
    waits = [len(row) for row in parents]
    children = successors(parents)
    queue = deque(row for row, count in enumerate(waits) if not count)
    order: list[int] = []
    while queue:
        row = queue.popleft()
        order.append(row)
        for child in children[row]:
            waits[child] -= 1
            if not waits[child]:
                queue.append(child)
    return order


def cycle(parents: Sequence[Sequence[int]]) -> list[int]:
    """Row numbers along one cycle, each before its child, the first repeated last; empty when there is none."""
    done = set(topological(parents))
    if len(done) == len(parents):
        return []
    at: dict[int, int] = {}
    walk: list[int] = []
    row = next(row for row in range(len(parents)) if row not in done)
    # Every row that is not done has a parent that is not done either, so the walk comes back to itself.
    while row not in at:
        at[row] = len(walk)
        walk.append(row)
        row = next(parent for parent in parents[row] if parent not in done)
    found = walk[at[row] :][::-1]
    return [*found, found[0]]
