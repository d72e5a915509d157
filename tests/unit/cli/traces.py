"""Made-up traces: a list scheduler over slots, with times that are exact."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from runtime.cli.trace import Trace

MS = 1_000_000
EPOCH = 1_700_000_000_000_000_000


def trace_of(
    parents: Sequence[Sequence[int]],
    durations_ms: Sequence[int],
    slots: int,
    *,
    names: Sequence[str] | None = None,
    groups: Sequence[str] | None = None,
    failed: Sequence[int] = (),
) -> Trace:
    """A trace in which `slots` workers take ready nodes in order, each at once when it is free."""
    size = len(parents)
    waits = [len(row) for row in parents]
    trace = Trace("made-up", "made-up-1", "failed" if failed else "succeeded", "fsync", slots, slots, "processes")
    trace.ids = list(names or map(str, range(size)))
    trace.parents = [list(row) for row in parents]
    trace.groups = list(groups or ["task"] * size)
    trace.states = ["failed" if row in failed else "succeeded" for row in range(size)]
    trace.errors = {row: f"ValueError: node {row}" for row in failed}
    trace.attempts = [1] * size
    trace.starts, trace.ends, trace.pids = [0] * size, [0] * size, [0] * size
    ready = [row for row in range(size) if not waits[row]]
    free = list(range(slots))
    busy: list[tuple[int, int, int]] = []
    now = EPOCH
    while ready or busy:
        while ready and free:
            row, slot = heapq.heappop(ready), heapq.heappop(free)
            trace.starts[row], trace.ends[row], trace.pids[row] = now, now + durations_ms[row] * MS, 100 + slot
            heapq.heappush(busy, (trace.ends[row], row, slot))
        now, done, slot = heapq.heappop(busy)
        heapq.heappush(free, slot)
        for child, row_parents in enumerate(parents):
            waits[child] -= row_parents.count(done)
            if done in row_parents and not waits[child]:
                heapq.heappush(ready, child)
    trace.elapsed_ns = now - EPOCH + 5 * MS
    return trace


def diamond(slots: int = 2) -> Trace:
    """a, then b (20 ms) and c (10 ms), then d."""
    return trace_of(
        [[], [0], [0], [1, 2]], [10, 20, 10, 5], slots, names=["a", "b", "c", "d"], groups=["x", "y", "y", "x"]
    )


def layers(count: int, width: int) -> Trace:
    """Layers of equal width, three parents each, on 4 slots."""
    parents: list[list[int]] = []
    for layer in range(count):
        for place in range(width):
            above = (layer - 1) * width
            parents.append([above + (place + step) % width for step in range(min(3, width))] if layer else [])
    size = count * width
    return trace_of(
        parents, [1 + row % 5 for row in range(size)], 4, groups=[f"step{row // width}" for row in range(size)]
    )
