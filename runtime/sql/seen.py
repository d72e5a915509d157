"""One run while a query looks at it: what its columns are worked out from, and when its nodes ran.

A bundle of single tasks is one run inside the engine, and a run each to whoever submitted them: so it is to the views,
as it is to events (`actors.event_names`). Nodes that tasks of a bundle add belong to the first of its runs.

When nodes ran stands in frames of results (`actors.timing`). They are read for some nodes at a time, when the first of
them is asked for, so that a run of a million nodes takes no more room than a part of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from actors.event_names import is_single
from actors.protocol.states import NodeState
from actors.run import Run
from actors.state_column import LEASED, PARKED
from actors.timing import Timing, end_ns, read_timing
from runtime.sql.sources import StoredRun

TIMES_AT_ONCE: Final = 16_384
"""Nodes whose times are read in one go."""
STATE_NAMES: Final = tuple(
    NodeState.READY.name.lower() if state in (LEASED, PARKED) else state.name.lower() for state in NodeState
)
"""What the views call each state. The log does not tell who runs, or waits for its handler: that is `ready`."""
COUNTED: Final = tuple(dict.fromkeys(STATE_NAMES))
"""States that a task can have, each of which has a column in `runs`."""
STATES_OF: Final = {name: tuple(s for s in NodeState if STATE_NAMES[s] == name) for name in COUNTED}


class SeenRun:
    """See the module.

    Args:
        stored: The run, which is read now.
        alone: A single node of it is looked at, so that no times are read beyond its own.
    """

    __slots__ = ("_times", "_times_from", "_times_to", "alone", "run", "stored")

    def __init__(self, stored: StoredRun, *, alone: bool = False) -> None:
        self.stored = stored
        self.run: Run = stored.run
        self.alone = alone
        self._times: dict[int, Timing] = {}
        self._times_from = self._times_to = 0

    @property
    def is_bundle(self) -> bool:
        """Whether it is of single tasks."""
        return not (self.run.is_graph or self.run.is_map)

    def timing(self, node: int) -> Timing | None:
        """Start and end (wall clock, ns) of the latest attempt that ended, and the pid of its worker."""
        if not self._times_from <= node < self._times_to:
            first = node if self.alone else node - node % TIMES_AT_ONCE
            after = node + 1 if self.alone else min(self.run.size, first + TIMES_AT_ONCE)
            self._times = read_timing(self.run, range(first, after))
            self._times_from, self._times_to = first, after
        return self._times.get(node)

    def ended_ns(self, node: int) -> int | None:
        """When a node ended; None: it has not, or it was skipped without a start."""
        if not NodeState.SUCCEEDED <= self.run.state[node] <= NodeState.SKIPPED:
            return None
        return end_ns(self.run, node, self.timing(node))

    def nodes_of(self, single: int | None) -> Sequence[int]:
        """The nodes of a row of `runs`: all, or those that count as the run of a single task."""
        run = self.run
        if single is None:
            return range(run.size)
        return [single, *range(run.base_size, run.size)] if single == 0 else [single]

    def counts(self, single: int | None) -> dict[str, int]:
        """How many of these nodes are in each state."""
        state = self.run.state
        if single is not None:
            state = bytearray(state[node] for node in self.nodes_of(single))
        return {name: sum(map(state.count, numbers)) for name, numbers in STATES_OF.items()}

    def number_of(self, node: int) -> int:
        """What a node is called: a single task is node 0 of its run."""
        return 0 if is_single(self.run, node) else node

    def nodes_numbered(self, number: int) -> Iterable[int]:
        """The nodes that are called by this number."""
        run = self.run
        if self.is_bundle and number < run.base_size:
            return range(run.base_size) if number == 0 else ()
        return (number,) if 0 <= number < run.size else ()
