"""Runs as events need them: without what tasks were given and returned, and without edges as long as all goes well.

Whoever reads events does so in a user's process, whose collector of cycles looks through every list that lives there.
So what is as long as a run is no list here. And where nothing failed, nothing is skipped: then which nodes have ended
is all that there is to know, and no edge is looked at, not even to see whether it leads outside the graph. What nodes
wait for is worked out when a record makes it matter (`with_edges`), once for a run.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import Any, Final, cast

from actors.protocol.graph import Beginning, GraphColumns, check_edges, decode_lean, ended
from actors.run import Run
from actors.state_column import PENDING, READY, SUCCEEDED, where

LATER: Final = cast("list[int]", array("i"))
"""In the place of a run's `waits` until they matter. Empty, so that results reach nobody."""


class Unread(bytearray):
    """Stands for the results of a run: a place for each, and nothing in it."""

    def extend(self, values: Iterable[Any]) -> None:
        """A run got more nodes."""
        super().extend(0 for _ in values)


def no_values(count: int) -> list[Any]:
    """What so many nodes of such a run returned."""
    return cast("list[Any]", bytes(count))


def without_values(run: Run) -> Run:
    """The run, without what its tasks were given and returned."""
    run.results = cast("list[Any]", Unread(run.size))
    run.items = None
    if run.columns is not None:
        run.columns.items = None
    return run


def lean_graph(body: bytes | memoryview) -> tuple[dict[str, Any], GraphColumns]:
    """Header and columns of a graph, and a beginning without edges. Raises ProtocolError: it is malformed."""
    header, columns = decode_lean(body)
    columns.beginning = Beginning(LATER, bytearray(columns.size), (), 0)
    return header, columns


def made_lean(run: Run) -> Run:
    """The run, which was just submitted."""
    without_values(run)
    return with_edges(run) if run.special else run


def with_edges(run: Run) -> Run:
    """The run, with what its nodes wait for. Raises ProtocolError: edges lead outside the graph."""
    columns = run.columns
    if run.waits is not LATER or columns is None:
        return run
    ended(check_edges(columns))
    beginning, state = ended(columns.begin()), run.state
    for root in beginning.roots:
        if state[root] == PENDING:
            state[root] = READY
    waits, off, succ = beginning.waits, columns.succ_off, columns.succ
    for node in where(state, SUCCEEDED):
        for child in succ[off[node] : off[node + 1]]:
            waits[child] -= 1
            if not waits[child] and state[child] == PENDING:
                state[child] = READY
    run.waits, run.fan, run.tally = waits, beginning.fan, None
    return run
