"""The data of a report page, as one plain object that the page's scripts read.

Columns instead of an object per node; times in microseconds from the first start. What a page can hold is bounded:

- up to `GRAPH_NODES_MAX` nodes the graph is drawn node by node, beyond only as groups;
- up to `BARS_MAX` nodes every node has a bar and a line in the table, beyond only `NOTABLE_MAX` of them: failed ones,
  those that ran more than once, the critical path, then the longest. The page says so.

The grouped graph merges nodes of the same node type on the same level (or neighbouring levels where there are many).
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from runtime.cli.layout import Layout, layout
from runtime.cli.report import Figures, group_word
from runtime.cli.trace import Trace

GRAPH_NODES_MAX: Final = 10_000
BARS_MAX: Final = 50_000
NOTABLE_MAX: Final = 20_000
LEVELS_GROUPED_MAX: Final = 48
"""Levels of the grouped graph; more are merged with their neighbours."""
LOAD_BINS: Final = 1_200
"""Steps of the load curve of a page that does not hold every node; about one per pixel."""


def page_data(trace: Trace, figures: Figures) -> dict[str, Any]:
    """Everything that the scripts of the page need, as plain JSON."""
    size = len(trace)
    whole = size <= BARS_MAX
    kept = list(range(size)) if whole else _notable(trace, figures)
    place = layout(trace.parents)
    names = [group.name for group in figures.groups]
    return {
        "whole": whole,
        "total": size,
        "span": round(figures.makespan_ns / 1000, 1),
        "groups": names,
        "word": group_word(trace),
        "slots": trace.slots,
        "nodes": _node_columns(trace, figures, kept, names),
        "path": _renumbered(figures.path, kept),
        "workers": _workers(trace, kept),
        "load": None if whole else _load(trace, figures.makespan_ns),
        "graph": _graph(place) if size <= GRAPH_NODES_MAX else None,
        "grouped": _grouped(trace, place, names),
    }


def _notable(trace: Trace, figures: Figures) -> list[int]:
    on_path = set(figures.path)

    def rank(row: int) -> tuple[bool, bool, bool, int]:
        return trace.states[row] == "failed", trace.attempts[row] > 1, row in on_path, trace.duration(row)

    return sorted(heapq.nlargest(NOTABLE_MAX, range(len(trace)), key=rank))


def _renumbered(rows: Sequence[int], kept: list[int]) -> list[int]:
    number = {row: index for index, row in enumerate(kept)}
    return [number[row] for row in rows if row in number]


def _node_columns(trace: Trace, figures: Figures, kept: list[int], names: list[str]) -> dict[str, Any]:
    number = {row: index for index, row in enumerate(kept)}
    group_of = {name: index for index, name in enumerate(names)}
    states = sorted(set(trace.states))
    state_of = {name: index for index, name in enumerate(states)}
    origin = trace.origin()
    offsets = [0]
    parents: list[int] = []
    for row in kept:
        parents += [number[parent] for parent in trace.parents[row] if parent in number]
        offsets.append(len(parents))
    return {
        "states": states,
        "id": [trace.ids[row] for row in kept],
        "group": [group_of[trace.groups[row]] for row in kept],
        "state": [state_of[trace.states[row]] for row in kept],
        "attempts": [trace.attempts[row] for row in kept],
        "start": [_us(trace.starts[row] - origin) if trace.ran(row) else -1 for row in kept],
        "length": [_length_us(trace, row, origin) for row in kept],
        "wait": [_us(figures.waits[row]) if figures.waits[row] >= 0 else -1 for row in kept],
        "offsets": offsets,
        "parents": parents,
        "errors": {number[row]: text[:400] for row, text in trace.errors.items() if row in number},
    }


def _length_us(trace: Trace, row: int, origin: int) -> float:
    """From the rounded start to the rounded end: nodes that follow each other must not overlap by rounding."""
    if not trace.duration(row):
        return 0
    return _from_tenths(_tenths(trace.ends[row] - origin) - _tenths(trace.starts[row] - origin))


def _us(ns: int) -> float:
    return _from_tenths(_tenths(ns))


def _tenths(ns: int) -> int:
    """Tenths of a microsecond, to which the page rounds."""
    return round(ns / 100)


def _from_tenths(tenths: int) -> float:
    return tenths / 10 if tenths % 10 else tenths // 10


def _workers(trace: Trace, kept: list[int]) -> dict[str, Any]:
    """Worker processes by first start, and for each kept node its worker and lane.

    Nodes that ran at the same time in one worker are put on different lanes, each on the lowest that is free.
    """
    rows_of: dict[int, list[int]] = {}
    for index, row in enumerate(kept):
        if trace.ran(row):
            rows_of.setdefault(trace.pids[row], []).append(index)
    lane = [-1] * len(kept)
    worker = [-1] * len(kept)
    pids: list[int] = []
    lanes: list[int] = []
    first = {pid: min(trace.starts[kept[index]] for index in rows) for pid, rows in rows_of.items()}
    for pid in sorted(first, key=lambda p: (first[p], p)):
        rows = sorted(rows_of[pid], key=lambda index: (trace.starts[kept[index]], trace.ends[kept[index]]))
        count = _pack([(trace.starts[kept[i]], trace.ends[kept[i]]) for i in rows], rows, lane)
        for index in rows:
            worker[index] = len(pids)
        pids.append(pid)
        lanes.append(count)
    return {"pids": pids, "lanes": lanes, "of": worker, "lane": lane}


def _pack(spans: list[tuple[int, int]], rows: list[int], lane: list[int]) -> int:
    """Fill `lane` for spans that ascend by start; returns how many lanes they take."""
    busy: list[tuple[int, int]] = []
    free: list[int] = []
    count = 0
    for (start, end), index in zip(spans, rows, strict=True):
        while busy and busy[0][0] <= start:
            heapq.heappush(free, heapq.heappop(busy)[1])
        if not free:
            free.append(count)
            count += 1
        lane[index] = heapq.heappop(free)
        heapq.heappush(busy, (end, lane[index]))
    return count


def _load(trace: Trace, makespan_ns: int) -> list[float]:
    """Mean number of running nodes in `LOAD_BINS` equal parts of the run."""
    step = max(1, -(-makespan_ns // LOAD_BINS))
    area = [0.0] * (LOAD_BINS + 1)
    change = [0] * (LOAD_BINS + 2)
    origin = trace.origin()
    for row in range(len(trace)):
        if not trace.ran(row):
            continue
        start, end = trace.starts[row] - origin, trace.ends[row] - origin
        a, b = start // step, end // step
        if a == b:
            area[a] += end - start
        else:
            area[a] += (a + 1) * step - start
            area[b] += end - b * step
            change[a + 1] += 1
            change[b] -= 1
    running = 0
    found = []
    for index in range(LOAD_BINS):
        running += change[index]
        found.append(round(running + area[index] / step, 2))
    return found


def _graph(place: Layout) -> dict[str, Any]:
    return {
        "x": [round(v, 2) for v in place.x],
        "y": [round(v, 2) for v in place.y],
        "width": place.width,
        "height": place.height,
    }


def _grouped(trace: Trace, place: Layout, names: list[str]) -> dict[str, Any]:
    """One node per (band of levels, node type), one edge per pair of them with the number of edges it stands for."""
    levels = max(place.levels, default=0) + 1
    bands = min(levels, LEVELS_GROUPED_MAX)
    group_of = {name: index for index, name in enumerate(names)}
    key_of = [
        (level * bands // levels, group_of[group]) for level, group in zip(place.levels, trace.groups, strict=True)
    ]
    keys = sorted(set(key_of))
    number = {key: index for index, key in enumerate(keys)}
    member = [number[key] for key in key_of]
    edges: Counter[tuple[int, int]] = Counter()
    for child, parents in enumerate(trace.parents):
        for parent in parents:
            edges[member[parent], member[child]] += 1
    rows: list[list[int]] = [[] for _ in keys]
    for before, after in edges:
        if keys[before][0] < keys[after][0]:
            rows[after].append(before)
    used = sorted({band for band, _ in keys})
    dense = {band: index for index, band in enumerate(used)}
    drawn = layout(rows, [dense[band] for band, _ in keys])
    count = Counter(member)
    failed = Counter(number[key_of[row]] for row, state in enumerate(trace.states) if state == "failed")
    work: Counter[int] = Counter()
    for row, group in enumerate(member):
        work[group] += trace.duration(row)
    return {
        **_graph(drawn),
        "group": [key[1] for key in keys],
        "count": [count[index] for index in range(len(keys))],
        "failed": [failed[index] for index in range(len(keys))],
        "work": [_us(work[index]) for index in range(len(keys))],
        "edges": [[before, after, times] for (before, after), times in edges.items() if before != after],
        "merged": bands < levels,
        "member": member if len(trace) <= BARS_MAX else [],
    }
