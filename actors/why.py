"""Why something is not running, in words: the answer to the question that a stalled run raises first.

Only reads. Each sentence stands alone, says what is waited for, and names it: parents, a time, a worker, a handler.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from actors import calls, timetable
from actors.at_workers import holder_of, split_counts
from actors.inversion import holders_text
from actors.protocol.kinds import PRIORITIES
from actors.protocol.moments import moment
from actors.protocol.states import NodeState
from actors.protocol.words import counted
from actors.run import Run
from actors.state_column import (
    BACKOFF,
    CANCELLING,
    LEASED,
    PARKED,
    PENDING,
    READY,
    SKIPPED,
    SUCCEEDED,
)

if TYPE_CHECKING:
    from actors.core import EngineCore

PARENTS_SHOWN_MAX: Final = 5


class Reasons:
    """Reads one core at one moment: `now_ns` on the monotonic clock, `wall_ns` on the wall clock."""

    def __init__(self, core: EngineCore, now_ns: int, wall_ns: int) -> None:
        self._core = core
        self._now_ns = now_ns
        self._wall_ns = wall_ns

    def of_run(self, run: Run) -> str:
        """Of a run as a whole, and of the first node that has no handler."""
        if not run.open:
            return f"it ended: {run.run_state()}"
        runs = sum(found.run is run for found in self._core.running_nodes())
        pending, ready, running, *_ = split_counts(run.counts(), runs)
        text = (
            f"it is under way: {counted(running, 'node runs', 'nodes run')}, {counted(ready, 'waits', 'wait')} for a "
            f"worker, a retry or their time, {counted(pending, 'waits', 'wait')} for parents"
        )
        text += self._class(run, -1)
        parked = run.state.find(PARKED)
        return text + (f"; node {run.node_id(parked)}: {self.of_node(run, parked)}" if parked >= 0 else "")

    def of_node(self, run: Run, node: int) -> str:
        """Of one node."""
        state = run.state[node]
        if state == PENDING:
            return self._of_pending(run, node)
        if state == READY:
            return self._of_ready(run, node) + self._class(run, node) + self._expiry(run, node)
        if state == BACKOFF:
            return self._of_waiting(run, node)
        if state == PARKED:
            return f"no handler: {run.rare.parked.get(node, '')}{self._expiry(run, node)}"
        if state in (LEASED, CANCELLING):
            return self._of_held(run, node)
        failure = run.failure(node)
        detail = f": {failure.get('message', '')}" if failure else ""
        return f"it ended: {NodeState(state).name.lower()}{detail}"

    def _of_waiting(self, run: Run, node: int) -> str:
        scheduler = self._core.scheduler
        if timetable.has_expired(scheduler, run, node):
            return "it has expired; its end is being recorded"
        wait_ns = timetable.wait_ns(scheduler, run, node)
        if node in run.rare.backoff_until:
            failed = f"attempt {run.rare.attempts.get(node, 0)} failed; the next starts in {wait_ns / 1e9:.3f} s"
            return failed + self._expiry(run, node)
        when = f"{moment(self._wall_ns + wait_ns)} (in {wait_ns / 1e9:.1f} s)"
        return f"it waits for its time: {when}{self._expiry(run, node)}"

    @staticmethod
    def _class(run: Run, node: int) -> str:
        """The class, if it is not the one that it was submitted with."""
        classes = run.rare.classes
        class_ = classes.get(node, classes.get(-1))
        return "" if class_ is None else f"; its priority was set to {PRIORITIES[class_]}"

    def _expiry(self, run: Run, node: int) -> str:
        expires_ns = run.rare.expires.get(node)
        if expires_ns is None:
            return ""
        return f"; it expires in {max(0, abs(expires_ns) - self._now_ns) / 1e9:.1f} s unless it starts before"

    def _of_pending(self, run: Run, node: int) -> str:
        called = calls.why(run, node)
        if called is not None:
            return called
        waits = [p for p in run.parents(node) if not SUCCEEDED <= run.state[p] <= SKIPPED]
        if not waits:
            return "its parents ended; what follows from that is being worked out"
        shown = [f"{run.node_id(p)} ({NodeState(run.state[p]).name.lower()})" for p in waits[:PARENTS_SHOWN_MAX]]
        more = ["..."] if len(waits) > PARENTS_SHOWN_MAX else []
        return f"it waits for {counted(len(waits), 'parent')}: {', '.join(shown + more)}"

    def _of_ready(self, run: Run, node: int) -> str:
        kind = run.kind(node)
        pool = self._core.pools.get(kind.node_type)
        if pool is None:
            return f"no worker: this runtime has no node type {kind.node_type!r}"
        if pool.trouble:
            return f"no worker of node type {kind.node_type!r} can start: {pool.trouble}"
        if pool.draining:
            return "the engine is draining; it runs after the next start"
        giving = self._core.scheduler.giving
        place = giving.position(run, node, self._now_ns)
        if place is not None and place.blocked_by:
            holders = holders_text(self._core, place.blocked_by) if place.blocked_by in giving.policy.quotas else ""
            return f"it is held back: {giving.reason(place.blocked_by, self._now_ns)}{holders}"
        waiting = counted(len(giving.ready[kind.node_type]), "task waits", "tasks wait")
        busy = sum(1 for worker in pool.workers.values() if worker.book.held)
        return f"it is ready: {waiting} for node type {kind.node_type!r}; busy workers: {busy} of {len(pool.workers)}"

    def _of_held(self, run: Run, node: int) -> str:
        """What is leased is held by a worker; inline, where there are none, it is only known what runs."""
        runs = next((r for r in self._core.running_nodes() if r.run is run and r.node == node), None)
        holder = holder_of(self._core.pools, run, node)
        at = runs or holder
        where = "a worker" if at is None else f"worker {at.worker} (pid {at.pid})"
        if run.state[node] == CANCELLING:
            return f"it is being stopped at {where}"
        if runs is not None:
            since_s = (self._now_ns - runs.started_ns) / 1e9 if runs.started_ns else 0.0
            return f"it runs at {where}, for {max(0.0, since_s):.3f} s"
        ahead = 0 if holder is None else holder.ahead
        return f"it waits at {where} behind {counted(ahead, 'task')}" if ahead else f"it is next at {where}"
