"""Workers of a pool that do not start: what they said, what delays the next, and which one hangs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.protocol import effects as fx
from actors.protocol import limits
from actors.protocol import messages as msg
from actors.protocol.moments import NS_PER_S
from actors.protocol.states import WorkerEvent, WorkerState

if TYPE_CHECKING:
    from actors.pool import WorkerPool


def cannot_boot(pool: WorkerPool, message: msg.WorkerCannotBoot) -> None:
    """It said why."""
    worker = pool.workers.get(message.worker)
    if worker is not None:
        worker.boot_error = message.text
        pool.trouble = message.text


def delayed(pool: WorkerPool, message: msg.PoolDelayed) -> None:
    """The next start waits."""
    pool.trouble = message.reason


def look_at_starts(pool: WorkerPool) -> None:
    """Replace a worker that hangs while it starts."""
    for worker in pool.workers.values():
        if worker.state is not WorkerState.STARTING:
            continue
        due = worker.idle_since_ns + limits.WORKER_START_NS
        if due > pool.now_ns:
            pool.put(fx.WakeAt(due))
            continue
        worker.boot_error = pool.trouble = f"it said nothing for {limits.WORKER_START_NS // NS_PER_S} s"
        pool.wanted = max(0, pool.wanted - 1)
        worker.move(WorkerEvent.KILL)
        pool.put(fx.SignalWorker(worker.id, "KILL"))
