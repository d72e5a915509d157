"""Numbers of nodes on the wire and in the log: a list, or the first one where they are consecutive.

Work that is given out in one piece is mostly consecutive (single tasks, the items of a `map`), and a number that is not
written need not be parsed: by engine, worker, face and recovery, four times a task, 25 ns each.
"""

from __future__ import annotations

from collections.abc import Sequence


def packed(nodes: Sequence[int]) -> list[int] | int:
    """As they are written. Only a `range` counts as consecutive: to look at a list would cost what it saves."""
    if type(nodes) is range:
        return nodes[0]
    return nodes if type(nodes) is list else list(nodes)


def unpacked(nodes: list[int] | int, count: int) -> Sequence[int]:
    """As they were: `count` numbers."""
    return range(nodes, nodes + count) if type(nodes) is int else nodes  # type: ignore[return-value]


def joined(nodes: Sequence[int], more: Sequence[int]) -> Sequence[int]:
    """Both, in this order. A list that comes first is extended."""
    if type(nodes) is range and type(more) is range and nodes.stop == more.start:
        return range(nodes.start, more.stop)
    if type(nodes) is not list:
        nodes = list(nodes)
    nodes.extend(more)
    return nodes
