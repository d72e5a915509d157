"""How many workers a pool has, and who holds what: growing, shrinking, and what idle workers get from busy ones.

Called for a pool when work was given out; returns what it asks for. A worker that is idle, or soon will be, gets half
of what one that holds much, or is stuck, has not started; it is taken back by compare-and-set on the lease table, so a
task that was claimed meanwhile stays where it is. And it gets what the results of the others make ready, without
waiting until they have a batch full of them: those are asked to send soon (`ask_results`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from actors.policy.prefetch import HUNGRY_NS
from actors.pool_lanes import serials_to_take
from actors.pool_worker import PoolWorker
from actors.protocol import effects as fx
from actors.protocol import limits
from actors.protocol.states import WorkerEvent, WorkerState
from actors.protocol.words import counted

if TYPE_CHECKING:
    from actors.pool import WorkerPool

STUCK_NS: Final = 3_000_000
"""A worker without a result for so long does not need the tasks it holds ahead; idle ones may take them."""
STEAL_WORK_NS: Final = 400_000
"""Work ahead, by its usual duration, of which an idle worker may take half without waiting for that: three times what
the taking costs."""
STEAL_AFTER_NS: Final = 250_000
"""Between two tries: about what a worker claims at a time, and cannot be taken."""
GROW_NS: Final = 20_000_000
"""Waiting work per worker above which the pool grows."""
IDLE_NS: Final = 30_000_000_000
"""A worker above the minimum goes after being idle for so long."""


def balance(pool: WorkerPool, ready: int) -> list[Any]:
    """Called when work was given out: grow, shrink, or let idle workers take what stuck ones hold ahead."""
    out: list[Any] = []
    if pool.draining:
        return out
    able = [w for w in pool.workers.values() if w.state is WorkerState.READY]
    waiting = ready + sum(max(0, w.book.held - w.book.surplus - pool.slots) for w in able)
    total = len(able) + pool.wanted
    if waiting and total < pool.workers_max:
        out += _grow(pool, able, waiting, total)
    if not ready and any(_is_hungry(pool, w) for w in able):
        out += _steal(pool, able)
        out += _shrink(pool, [w for w in able if not w.book.held], len(able))
    return out


def _is_hungry(pool: WorkerPool, worker: PoolWorker) -> bool:
    held = worker.book.held - worker.book.surplus
    return not held or 0 < held * pool.average_ns < HUNGRY_NS


def _grow(pool: WorkerPool, able: list[PoolWorker], waiting: int, total: int) -> list[Any]:
    """One more worker when what waits is much by its usual duration, or when it has waited for long."""
    if waiting * (pool.average_ns or 1_000_000) > GROW_NS * max(1, total):
        return [pool.want(counted(waiting, "task waits", "tasks wait"))]
    due = min((w.progress_ns for w in able if w.book.held), default=pool.now_ns) + GROW_NS
    if due > pool.now_ns:
        return [fx.WakeAt(due)]
    return [pool.want(f"{counted(waiting, 'task waits', 'tasks wait')} behind one that takes long")]


def _steal(pool: WorkerPool, able: list[PoolWorker]) -> list[Any]:
    victims = [w for w in able if w.book.held - w.book.surplus > pool.slots and not w.revoking]
    if not victims:
        return []
    victim = max(victims, key=lambda w: w.book.held)
    much = pool.average_ns * (victim.book.held - victim.book.surplus - pool.slots) >= STEAL_WORK_NS
    due = victim.stolen_ns + STEAL_AFTER_NS if much else victim.progress_ns + STUCK_NS
    if due > pool.now_ns:
        return [fx.WakeAt(due)]
    serials = serials_to_take(victim, pool.slots)
    victim.revoking = victim.stuck = True
    victim.progress_ns = victim.stolen_ns = pool.now_ns
    return [fx.Revoke(victim.id, tuple(serials))]


def ask_results(pool: WorkerPool, ready: int) -> list[Any]:
    """While a worker is hungry and nothing is ready, busy ones send results of a graph soon."""
    hungry = not ready and any(w.state is WorkerState.READY and _is_hungry(pool, w) for w in pool.workers.values())
    out: list[Any] = []
    for worker in pool.workers.values():
        oldest = worker.book.oldest if hungry else None
        wanted = oldest is not None and bool(oldest.run.waits)
        if wanted is not worker.results_asked:
            worker.results_asked = wanted
            out.append(fx.AskResults(worker.id, wanted))
    return out


def _shrink(pool: WorkerPool, idle: list[PoolWorker], total: int) -> list[Any]:
    if total <= pool.workers_min or not idle:
        return []
    oldest = min(idle, key=lambda w: w.idle_since_ns)
    due = oldest.idle_since_ns + IDLE_NS
    if due > pool.now_ns:
        return [fx.WakeAt(due)]
    oldest.drain_reason = "idle"
    oldest.move(WorkerEvent.DRAIN)
    return [fx.DrainWorker(oldest.id)]


def look_at_starts(pool: WorkerPool) -> None:
    """Replace a worker that hangs while it starts."""
    for worker in pool.workers.values():
        if worker.state is not WorkerState.STARTING:
            continue
        due = worker.idle_since_ns + limits.WORKER_START_NS
        if due > pool.now_ns:
            pool.put(fx.WakeAt(due))
            continue
        worker.boot_error = pool.trouble = f"it said nothing for {limits.WORKER_START_NS // 1_000_000_000} s"
        pool.wanted = max(0, pool.wanted - 1)
        worker.move(WorkerEvent.KILL)
        pool.put(fx.SignalWorker(worker.id, "KILL"))
