"""What events call a run and its nodes, and which nodes of it changed.

A bundle of single tasks is one run inside the engine and a run each to whoever submitted them: so it is to events, in
which each of them is node 0 of its own run. Nodes that tasks of a bundle add keep their number in the bundle, under the
id of its first run.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from actors.run import Run

STEP_NODES: Final = 4096
"""States that are compared at a time to find those that changed: 1 us."""


def is_single(run: Run, node: int) -> bool:
    """Whether a node is a single task, which is a run to whoever submitted it."""
    return not (run.is_graph or run.is_map) and node < run.base_size


def key_of(run: Run, node: int) -> str:
    """The public id of the run that a node belongs to."""
    return f"{run.session}-{run.seq + node}" if is_single(run, node) else run.key


def name_of(run: Run, node: int) -> str:
    """The name of a node's task; "" where it is not known."""
    return run.kind(node).name if node < run.size and run.kinds else ""


def title_of(run: Run) -> str:
    """The name of a run: of its flow, or of its first task."""
    return run.name or (run.kinds[0].name if run.kinds else "")


def changed(before: bytes, after: bytearray) -> Iterator[int]:
    """Nodes whose state is another one. Nodes that came later count as changed from state 0."""
    size = len(after)
    if len(before) < size:
        before = before.ljust(size, b"\0")
    for first in range(0, size, STEP_NODES):
        old, new = before[first : first + STEP_NODES], after[first : first + STEP_NODES]
        if old != new:
            for node, (one, other) in enumerate(zip(old, new, strict=True), first):
                if one != other:
                    yield node
