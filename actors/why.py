"""Why something is not running, in words: the answer to the question that a stalled run raises first.

Only reads. Each sentence stands alone, says what is waited for, and names it: parents, a time, a worker, a handler.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from actors import batching, calls, deadline, timetable
from actors.at_workers import holder_of, split_counts
from actors.hindrance import hindrance, pause, reason
from actors.policy.position import Position
from actors.policy.scopes import RATE
from actors.pool_size import held_back
from actors.protocol.kinds import PRIORITIES
from actors.protocol.moments import moment
from actors.protocol.states import NodeState, WorkerState, state_word
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
    from actors.pool import WorkerPool

PARENTS_SHOWN_MAX: Final = 5


class Reasons:
    """Reads one core at one moment: `now_ns` on the monotonic clock, `wall_ns` on the wall clock."""

    def __init__(self, core: EngineCore, now_ns: int, wall_ns: int) -> None:
        self._core = core
        self._now_ns = now_ns
        self._wall_ns = wall_ns

    def of_run(self, run: Run) -> str:
        """Of a run as a whole, of the first node that has no handler and, where nothing runs, the first that waits."""
        if not run.open:
            return f"it ended: {run.run_state()}"
        if run.size == 1 or (run.base_size == 1 and not SUCCEEDED <= run.state[0] <= SKIPPED):
            return self.of_node(run, 0)
        runs = sum(found.run is run for found in self._core.running_nodes())
        pending, ready, running, *_ = split_counts(run.counts(), runs)
        text = (
            f"it is under way: {counted(running, 'node runs', 'nodes run')}, {counted(ready, 'waits', 'wait')} for a "
            f"worker, a retry or their time, {counted(pending, 'waits', 'wait')} for parents"
        )
        text += self._class(run, -1)
        states = (PARKED,) if running else (PARKED, LEASED, READY, BACKOFF)
        shown = next((node for state in states if (node := run.state.find(state)) >= 0), -1)
        return text + (f"; node {run.node_id(shown)}: {self.of_node(run, shown)}" if shown >= 0 else "")

    def of_node(self, run: Run, node: int) -> str:
        """Of one node."""
        state = run.state[node]
        tell = self._of_state.get(state)
        if tell is not None:
            return tell(self, run, node) + self._class(run, node)
        failure = run.failure(node)
        detail = f": {failure.get('message', '')}" if failure else ""
        return f"it ended: {NodeState(state).name.lower()}{detail}"

    def _of_parked(self, run: Run, node: int) -> str:
        return f"no handler: {run.rare.parked.get(node, '')}{self._expiry(run, node)}"

    def _of_waiting(self, run: Run, node: int) -> str:
        scheduler = self._core.scheduler
        if timetable.has_expired(scheduler, run, node):
            return "it has expired; its end is being recorded"
        if deadline.passed(scheduler, run, node):
            return "its deadline has passed; its end is being recorded"
        wait_ns = timetable.wait_ns(scheduler, run, node)
        if node in run.rare.backoff_until:
            failed = f"attempt {run.rare.attempts.get(node, 0)} failed; the next starts in {wait_ns / 1e9:.3f} s"
            return failed + self._class(run, node) + self._expiry(run, node)
        when = f"{moment(self._wall_ns + wait_ns)} (in {wait_ns / 1e9:.1f} s)"
        debounce = run.rare.debounce
        if debounce is not None and not run.rare.attempts:
            calls, latest = counted(debounce.calls, "call"), self._wall_ns + debounce.until_ns - self._now_ns
            return (
                f"it waits until nobody has called for {debounce.wait_ns / 1e9:.3f} s, {calls} so far: {when}, at the "
                f"latest {moment(latest)}{self._class(run, node)}{self._expiry(run, node)}"
            )
        return f"it waits for its time: {when}{self._expiry(run, node)}"

    @staticmethod
    def _class(run: Run, node: int) -> str:
        """The class, if it is not the one that it was submitted with."""
        classes, lowered = run.rare.classes, run.rare.lowered.get(node)
        class_ = classes.get(node, classes.get(-1))
        text = "" if class_ is None else f"; its priority was set to {PRIORITIES[class_]}"
        return text if lowered is None else f"{text}; its retries lowered it to {PRIORITIES[lowered]}"

    def _expiry(self, run: Run, node: int) -> str:
        expires_ns = run.rare.expires.get(node)
        text = ""
        if expires_ns is not None:
            text = f"; it expires in {max(0, abs(expires_ns) - self._now_ns) / 1e9:.1f} s unless it starts before"
        return text + self._deadline(run, node)

    def _deadline(self, run: Run, node: int) -> str:
        left_ns = deadline.left_ns(self._core.scheduler, run, node)
        return "" if left_ns is None else f"; it must have ended in {max(0, left_ns) / 1e9:.1f} s"

    def _of_pending(self, run: Run, node: int) -> str:
        called = calls.why(run, node)
        if called is not None:
            return called + self._deadline(run, node)
        waits = [p for p in run.parents(node) if not SUCCEEDED <= run.state[p] <= SKIPPED]
        if not waits:
            return "its parents ended; what follows from that is being worked out"
        shown = [f"{run.node_id(p)} ({state_word(run.state[p])})" for p in waits[:PARENTS_SHOWN_MAX]]
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
        place = giving.position(run, node)
        blocked_by = "" if place is None else place.blocked_by
        obstacle = pause(self._core, kind, self._now_ns)
        if not obstacle and (gathers := batching.gathers(giving, blocked_by, self._now_ns, self._wall_ns)):
            return gathers + self._expiry(run, node)
        if not obstacle and (not blocked_by or blocked_by.startswith(RATE)):
            obstacle = hindrance(self._core, kind, self._now_ns)
        if blocked_by and not obstacle:
            obstacle = reason(self._core, blocked_by, self._now_ns)
        if obstacle:
            return f"it is held back: {obstacle}{self._expiry(run, node)}"
        waiting = counted(giving.ready[kind.node_type].size, "task waits", "tasks wait")
        busy = sum(1 for worker in pool.workers.values() if worker.book.held)
        text = (
            f"it is ready: {waiting} for node type {kind.node_type!r}{_place(place)}; "
            f"busy workers: {busy} of {len(pool.workers)}{self._start(pool, place)}"
        )
        if pool.wanted:
            text += f"; {counted(pool.wanted, 'worker starts', 'workers start')}"
        elif kept := held_back(pool):
            text += f"; no worker is added: {kept}"
        return text + self._expiry(run, node)

    def _start(self, pool: WorkerPool, place: Position | None) -> str:
        """When it is likely to start: what comes before it, by the usual duration of the pool's tasks.

        Before it come better classes, and of its own class as many turns of others as tasks of its own. What is
        submitted later, and overtakes, is not foreseen; nor are workers that are yet to be added.
        """
        slots = pool.slots * sum(worker.state is WorkerState.READY for worker in pool.workers.values())
        if place is None or not slots or not pool.average_ns:
            return ""
        counts = self._core.scheduler.ready[pool.name].counts()
        turns = place.ahead_in_flow * (place.flows_before + 1) + place.flows_before
        before = sum(counts[: place.class_]) + min(counts[place.class_] - 1, turns) + pool.held()
        seconds = before * pool.average_ns / slots / 1e9
        return f"; it is likely to start {f'in {seconds:,.0f} s' if seconds >= 1 else 'within a second'}"

    def _of_held(self, run: Run, node: int) -> str:
        """What is leased is held by a worker; inline, where there are none, it is only known what runs."""
        runs = next((r for r in self._core.running_nodes() if r.run is run and r.node == node), None)
        holder = holder_of(self._core.pools, run, node)
        at = runs or holder
        where = "a worker" if at is None else f"worker {at.worker} (pid {at.pid})"
        if run.state[node] == CANCELLING:
            together = 0 if runs is None else runs.together
            if together > 1:
                return f"its cancel was asked while its batch of {together} runs at {where}; it ends with the batch"
            return f"it is being stopped at {where}"
        if runs is not None:
            since_s = (self._now_ns - runs.started_ns) / 1e9 if runs.started_ns else 0.0
            batch = f" in a batch of {runs.together}" if runs.together > 1 else ""
            return f"it runs at {where}{batch}, for {max(0.0, since_s):.3f} s{self._deadline(run, node)}"
        ahead = 0 if holder is None else holder.ahead
        text = f"it waits at {where} behind {counted(ahead, 'task')}" if ahead else f"it is next at {where}"
        return text + self._deadline(run, node)

    _of_state: Final[dict[int, Callable[[Any, Run, int], str]]] = {
        PENDING: _of_pending,
        READY: _of_ready,
        BACKOFF: _of_waiting,
        PARKED: _of_parked,
        LEASED: _of_held,
        CANCELLING: _of_held,
    }


def _place(place: Position | None) -> str:
    """Where it stands among others, if there is something to say of that."""
    if place is None:
        return ""
    before = f", {place.ahead_in_flow:,} of its own run or session before it" if place.ahead_in_flow else ""
    tenant = f" of tenant {place.tenant!r}" if place.tenant else ""
    class_ = PRIORITIES[place.class_]
    return f"; it is of class {class_}{tenant}{before}" if before or tenant or class_ != "normal" else ""
