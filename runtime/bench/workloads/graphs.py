"""Graphs for the scenarios, as plain lists: what both sides run, and what plain Python says the results are.

Every node calls one handler with its own arguments first and its parents' results after them. Nodes are numbered so
that parents come first. Sources of the shapes:

- `layered`: the random layered graph that the peers' table of this project uses (layers x width x parents).
- `stencil`: Task Bench's `stencil_1d` (Slaughter et al., "Task Bench: A Parameterized Benchmark for Evaluating Parallel
  Runtime Performance", SC20): node i of a step depends on i-1, i and i+1 of the step before, clipped at the edges.
- `montage`: the image mosaic workflow Montage as it is recorded in WfCommons (Coleman et al., "WfCommons: A framework
  for enabling scientific workflow research and development", FGCS 2022): its levels, its fan-in, and the mean runtime
  of each kind of task in the 2MASS 0.15 degree traces on Chameleon.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from runtime.bench.handlers import burn_level, burn_mix, increment, mix
from runtime.cli.wfformat import read_workflow

Handler = Callable[..., int]


@dataclass(frozen=True, slots=True)
class TaskGraph:
    """A graph with one handler.

    Args:
        handler: What every node calls.
        pure: The same result from the same arguments without the duration, and without burning it.
        parents: By node; all smaller than the node's own number, in argument order.
        seeds: By node; further arguments, before the parents' results.
        durations_ns: By node; CPU time to burn, the first argument. None when the handler has no such argument.
    """

    handler: Handler
    pure: Handler
    parents: list[tuple[int, ...]]
    seeds: list[tuple[int, ...]]
    durations_ns: list[int] | None = None
    _children: list[list[int]] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.parents)

    def arguments(self, node: int) -> tuple[int, ...]:
        """The node's own arguments; its parents' results follow them."""
        if self.durations_ns is None:
            return self.seeds[node]
        return (self.durations_ns[node], *self.seeds[node])

    def expected(self) -> list[int]:
        """All results, computed one after the other in this process."""
        pure = self.pure
        results: list[int] = []
        for seeds, parents in zip(self.seeds, self.parents, strict=True):
            results.append(pure(*seeds, *[results[p] for p in parents]))
        return results

    def children(self) -> list[list[int]]:
        """By node, the nodes that wait for it; computed once."""
        if not self._children:
            self._children.extend([] for _ in self.parents)
            for node, parents in enumerate(self.parents):
                for parent in parents:
                    self._children[parent].append(node)
        return self._children

    def sinks(self) -> list[int]:
        """Nodes that nobody waits for. Together they depend on every node."""
        return [node for node, children in enumerate(self.children()) if not children]

    def useful_ns(self) -> int:
        """CPU time that the nodes burn in all."""
        return sum(self.durations_ns or ())

    def lower_bound_ns(self, cores: int) -> float:
        """No schedule is shorter: all work spread evenly, or the longest path, whichever is longer."""
        durations = self.durations_ns or [0] * len(self)
        ends: list[int] = []
        for duration, parents in zip(durations, self.parents, strict=True):
            ends.append(duration + max((ends[p] for p in parents), default=0))
        return max(self.useful_ns() / cores, max(ends, default=0))


def level(*levels: int) -> int:
    """What `burn_level` returns, without burning."""
    return 1 + max(levels, default=0)


def chain(hops: int) -> TaskGraph:
    """Every node takes the previous result."""
    parents: list[tuple[int, ...]] = [(), *((node - 1,) for node in range(1, hops))]
    return TaskGraph(increment, increment, parents, [(0,), *[()] * (hops - 1)])


def layered(layers: int, width: int, parents_each: int, seed: int = 1) -> TaskGraph:
    """Every node has distinct random parents in the layer before; the first layer has its number as an argument."""
    draw = random.Random(seed)
    each = min(parents_each, width)
    parents: list[tuple[int, ...]] = [()] * width
    for layer in range(1, layers):
        row = range((layer - 1) * width, layer * width)
        parents.extend(tuple(draw.sample(row, each)) for _ in range(width))
    seeds: list[tuple[int, ...]] = [(node,) for node in range(width)]
    return TaskGraph(mix, mix, parents, seeds + [()] * (len(parents) - width))


def stencil(steps: int, width: int, duration_ns: int) -> TaskGraph:
    """Every node burns the same time and depends on its neighbourhood one step before."""
    parents: list[tuple[int, ...]] = [()] * width
    for step in range(1, steps):
        first = (step - 1) * width
        parents.extend(tuple(range(first + max(0, i - 1), first + min(width, i + 2))) for i in range(width))
    seeds: list[tuple[int, ...]] = [(node,) for node in range(width)]
    return TaskGraph(burn_mix, mix, parents, seeds + [()] * (len(parents) - width), [duration_ns] * len(parents))


_MONTAGE_MEAN_S: Final = {
    "mProject": 16.3,
    "mDiffFit": 0.168,
    "mConcatFit": 0.721,
    "mBgModel": 3.85,
    "mBackground": 0.416,
    "mImgtbl": 0.630,
    "mAdd": 0.334,
    "mViewer": 0.344,
}
_MONTAGE_TASKS_PER_IMAGE = 6
"""One projection, about four overlaps with neighbours, one background correction."""


def montage(tasks: int, mean_ns: int, seed: int = 1) -> TaskGraph:
    """A mosaic of about this many tasks, whose durations are scaled to this mean; each varies by a tenth of itself.

    Images lie on a square grid and overlap with their eight neighbours.
    """
    side = max(2, round((tasks / _MONTAGE_TASKS_PER_IMAGE) ** 0.5))
    parents: list[tuple[int, ...]] = []
    kinds: list[str] = []

    def add(kind: str, *rows: tuple[int, ...]) -> list[int]:
        first = len(parents)
        parents.extend(rows)
        kinds.extend([kind] * len(rows))
        return list(range(first, len(parents)))

    images = add("mProject", *[()] * (side * side))
    differences = add("mDiffFit", *_overlaps(side))
    model = add("mBgModel", *[(node,) for node in add("mConcatFit", tuple(differences))])
    corrected = add("mBackground", *[(image, model[0]) for image in images])
    table = add("mImgtbl", tuple(corrected))
    mosaic = add("mAdd", (table[0], *corrected))
    add("mViewer", (mosaic[0],))
    draw = random.Random(seed)
    recorded_s = [_MONTAGE_MEAN_S[kind] * draw.uniform(0.9, 1.1) for kind in kinds]
    return _replay(parents, recorded_s, mean_ns)


def _overlaps(side: int) -> list[tuple[int, int]]:
    """Pairs of neighbouring cells of a square grid, diagonals included, each pair once."""
    found: list[tuple[int, int]] = []
    for row in range(side):
        for column in range(side):
            here = row * side + column
            for down, right in ((0, 1), (1, -1), (1, 0), (1, 1)):
                if row + down < side and 0 <= column + right < side:
                    found.append((here, here + down * side + right))
    return found


def recorded(path: Path, mean_ns: int) -> TaskGraph:
    """A WfFormat file, its recorded runtimes scaled to this mean.

    Raises:
        MainspringError: The file cannot be read, or is not a valid workflow; the message names the place.
    """
    tasks = read_workflow(path).in_order()
    number = {task.id: node for node, task in enumerate(tasks)}
    parents = [tuple(number[parent] for parent in task.parents) for task in tasks]
    return _replay(parents, [task.runtime_s for task in tasks], mean_ns)


def _replay(parents: list[tuple[int, ...]], recorded_s: list[float], mean_ns: int) -> TaskGraph:
    scale = mean_ns * len(recorded_s) / (sum(recorded_s) or 1.0)
    durations = [round(seconds * scale) for seconds in recorded_s]
    return TaskGraph(burn_level, level, parents, [()] * len(parents), durations)
