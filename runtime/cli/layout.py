"""Layered layout of a graph for drawing: left to right, a column per level, wide levels folded into blocks.

Steps (after Sugiyama, without dummy nodes, so that it stays linear in nodes and edges):

1. level of a node: longest path from a root; roots are then moved next to their first child.
2. order inside a level: mean position of the neighbours (barycentre), some sweeps down and up.
3. fold: a level with more nodes than rows becomes a block of several columns, filled row by row, so that the order
   still runs from top to bottom. The number of rows is chosen so that the picture fits a wide screen.
4. height: as near as possible to the mean height of the neighbours without overlap (least squares, solved exactly by
   pooling adjacent violators), which makes chains straight.
5. wrap: a graph that is much longer than high runs in several lines, left to right and back, as a river does.

Coordinates are in cells: x counts columns, y counts rows. About 25 µs a node and edge.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from runtime.cli.order import successors, topological

SWEEPS: Final = 4
"""More sweeps change little after the first few."""
ASPECT: Final = 2.4
"""Width by height that is aimed at: that of the graph on a wide screen."""
CELL_RATIO: Final = 4.3
"""Width by height of a cell, as the page draws it."""
COLUMN_GAP: Final = 1.0
"""Free space between two levels, in columns: room for the edges."""

LINE_GAP: Final = 1.0
"""Free space between the lines of a wrapped graph, in rows."""
LINE_COLUMNS_MIN: Final = 5
"""Shorter lines are not made."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Place of every node, in cells. `levels` is the level of each node."""

    x: list[float]
    y: list[float]
    levels: list[int]
    width: float
    height: float


def layout(parents: Sequence[Sequence[int]], levels: Sequence[int] | None = None) -> Layout:
    """Lay out an acyclic graph.

    Args:
        parents: Row numbers of the parents of each node.
        levels: Level of each node where it is given by the caller; edges may then also lie inside a level.
    """
    children = successors(parents)
    level_of = list(levels) if levels is not None else _levels(parents, children)
    rows = _by_level(level_of)
    neighbours = ([*parents], children)
    _order(rows, neighbours)
    x, height, folded = _fold(rows, len(level_of))
    y = _heights(rows, folded, neighbours, len(level_of), height)
    top = min(y, default=0.0)
    y = [value - top for value in y]
    _wrap(x, y, rows)
    return Layout(x, y, level_of, max(x, default=0.0) + 1, max(y, default=0.0) + 1)


def _levels(parents: Sequence[Sequence[int]], children: Sequence[Sequence[int]]) -> list[int]:
    level = [0] * len(parents)
    order = topological(parents)
    for node in order:
        if parents[node]:
            level[node] = max(level[parent] for parent in parents[node]) + 1
    for node in order:
        if not parents[node] and children[node]:
            level[node] = min(level[child] for child in children[node]) - 1
    return level


def _by_level(level_of: Sequence[int]) -> list[list[int]]:
    rows: list[list[int]] = [[] for _ in range(max(level_of, default=-1) + 1)]
    for node, level in enumerate(level_of):
        rows[level].append(node)
    return [row for row in rows if row]


def _order(rows: list[list[int]], neighbours: tuple[Sequence[Sequence[int]], Sequence[Sequence[int]]]) -> None:
    """Sort each level in place by the mean relative position of the neighbours on one side, sweep after sweep."""
    place = [0.0] * sum(map(len, rows))

    def settle(row: list[int]) -> None:
        for index, node in enumerate(row):
            place[node] = (index + 0.5) / len(row)

    for row in rows:
        settle(row)
    for sweep in range(SWEEPS):
        side = neighbours[sweep % 2]
        for row in rows if sweep % 2 == 0 else reversed(rows):
            wish = {n: sum(place[o] for o in side[n]) / len(side[n]) if side[n] else place[n] for n in row}
            row.sort(key=wish.__getitem__)
            settle(row)


def _fold(rows: list[list[int]], size: int) -> tuple[list[float], int, list[int]]:
    """Column of each node, the number of rows, and into how many columns each level is folded."""
    height = _rows_for_screen(rows)
    x = [0.0] * size
    folded = []
    at = 0.0
    for row in rows:
        columns = -(-len(row) // height)
        folded.append(columns)
        for index, node in enumerate(row):
            x[node] = at + index % columns
        at += columns + COLUMN_GAP
    return x, height, folded


def _rows_for_screen(rows: list[list[int]]) -> int:
    """The number of rows at which width / height is nearest to `ASPECT`."""
    widest = max(map(len, rows), default=0)
    best, best_miss = 1, math.inf
    height = 1
    while height <= widest:
        width = sum(-(-len(row) // height) + COLUMN_GAP for row in rows)
        miss = abs(math.log(CELL_RATIO * width / height / ASPECT))
        if miss <= best_miss:
            best, best_miss = height, miss
        height = height + max(1, height // 16)
    return best if best * 1.3 < widest else max(widest, 1)


def _heights(
    rows: list[list[int]],
    folded: list[int],
    neighbours: tuple[Sequence[Sequence[int]], Sequence[Sequence[int]]],
    size: int,
    height: int,
) -> list[float]:
    y = [0.0] * size
    for row, columns in zip(rows, folded, strict=True):
        lines = -(-len(row) // columns)
        for index, node in enumerate(row):
            y[node] = (height - lines) / 2 + index // columns
    for sweep in range(SWEEPS):
        side = neighbours[sweep % 2]
        pairs = list(zip(rows, folded, strict=True))
        for row, columns in pairs if sweep % 2 == 0 else reversed(pairs):
            if columns == 1:
                wishes = [sum(y[o] for o in side[n]) / len(side[n]) if side[n] else y[n] for n in row]
                for node, value in zip(row, spread(wishes), strict=True):
                    y[node] = value
    return y


def _wrap(x: list[float], y: list[float], rows: list[list[int]]) -> None:
    """Break a long graph into lines, every second one from right to left, so that neighbouring levels stay near."""
    length = max(x, default=0.0) + 1
    height = max(y, default=0.0) + 1 + LINE_GAP
    lines = round(math.sqrt(CELL_RATIO * length / (ASPECT * height)))
    if lines < 2 or length / lines < LINE_COLUMNS_MIN:
        return
    room = length / lines
    edges: list[float] = []
    line_of = [int(min(x[node] for node in row) / room) for row in rows]
    start = [
        min((x[n] for row, at in zip(rows, line_of, strict=True) if at == line for n in row), default=0.0)
        for line in range(lines)
    ]
    for row, line in zip(rows, line_of, strict=True):
        for node in row:
            x[node] -= start[line]
    edges = [
        max((x[n] for row, at in zip(rows, line_of, strict=True) if at == line for n in row), default=0.0)
        for line in range(lines)
    ]
    right = max(edges)
    for row, line in zip(rows, line_of, strict=True):
        for node in row:
            y[node] += line * height
            if line % 2:
                x[node] = right - x[node]


def spread(wishes: Sequence[float]) -> list[float]:
    """Values that keep the order and lie at least 1 apart, as near to the wishes as possible (least squares)."""
    blocks: list[tuple[float, int]] = []
    for index, wish in enumerate(wishes):
        total, count = wish - index, 1
        while blocks and blocks[-1][0] / blocks[-1][1] >= total / count:
            more, others = blocks.pop()
            total, count = total + more, count + others
        blocks.append((total, count))
    found: list[float] = []
    for total, count in blocks:
        found += [total / count + len(found) + step for step in range(count)]
    return found
