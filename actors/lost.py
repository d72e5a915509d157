"""Runs that nothing will move any more: lost wake-ups, the counterpart of what `why` says of runs that wait.

An open run goes on by what one of its nodes is: ready, leased, waiting for its time, for a handler or for a stop; or
because what follows from an end is still being worked out (`Scheduler.waves`, `stirred`). A run with none of these has
lost its waker, and so has a lease that no worker holds. Either is a bug of the engine's, never of its user's.

Only reads. Asked between two turns it is exact; from beside, ask twice and believe what both say.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
from typing import TYPE_CHECKING, Final

from actors.at_workers import holder_of
from actors.protocol.words import counted
from actors.run import Run
from actors.state_column import BACKOFF, CANCELLING, LEASED, PARKED, PENDING, READY
from actors.timetable import NO_RUN

if TYPE_CHECKING:
    from actors.core import EngineCore

_MOVING: Final = (READY, BACKOFF, PARKED, CANCELLING)


def lost_runs(core: EngineCore, most: int) -> Iterator[tuple[Run, int, str]]:
    """Runs that nothing will move, one of their nodes, and why that is so, among the `most` submitted first."""
    for at, run in enumerate(list(core.scheduler.book.live.values())):
        if at >= most:
            return
        why = lost(core, run)
        if why:
            yield run, max(0, run.state.find(LEASED), run.state.find(PENDING)), why


def lost_timers(core: EngineCore, most: int) -> Iterator[tuple[str, Run | None, int, str]]:
    """Timers of nodes of runs that have ended, among the first `most`: name, run if it is still known, node, why."""
    scheduler = core.scheduler
    book, deadlines = scheduler.book, scheduler.deadlines
    there = chain(scheduler.timers, scheduler.appointments, deadlines.intervals, deadlines.moments)
    for no, node in islice(there, most):
        if no == NO_RUN or no in book.live:
            continue
        run = book.finished.get(no)
        name = f"run {no}, node {node}" if run is None else f"{run.key}/{run.node_id(node)}"
        yield name, run, node, "its run has ended, and it is still armed"


def lost(core: EngineCore, run: Run) -> str:
    """Why nothing will move a run; "" where something will, or may."""
    scheduler = core.scheduler
    if not run.open or run.no in scheduler.waves or run.stirred or run.wave or scheduler.draining:
        return ""
    state = run.state
    if any(state.find(moving) >= 0 for moving in _MOVING):
        return ""
    node = state.find(LEASED)
    if node >= 0:
        return _of_lease(core, run, node)
    if state.find(PENDING) < 0:
        return "it is open, and all of its nodes have ended"
    waiting = counted(state.count(PENDING), "node waits", "nodes wait")
    return f"{waiting}, and none is ready, leased, or has a time: no command, timer, message or call is pending for it"


def _of_lease(core: EngineCore, run: Run, node: int) -> str:
    pool = core.pools.get(run.kind(node).node_type)
    if pool is None or not pool.workers or holder_of(core.pools, run, node) is not None:
        return ""
    return f"node {run.node_id(node)} is leased, and no worker that lives holds the lease"
