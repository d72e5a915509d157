"""Taking leases back and stopping attempts: by compare-and-set what is not claimed, by escalation what runs.

Functions of a pool, in a file of their own. An attempt is stopped because its run was cancelled, its timeout passed, or
the deadline of its task did: it is asked, then its worker gets SIGTERM, then SIGKILL for its whole group, `grace_ns`
apart. Who runs too long is seen by looking at the worker from outside, as often as the shortest timeout needs.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from actors.batching import is_behind, to_stop
from actors.pool_worker import CANCEL, DEADLINE, TIMEOUT, Escalation, PoolWorker
from actors.protocol import effects as fx
from actors.protocol import messages as msg
from actors.protocol.states import WorkerEvent, WorkerState
from actors.run import Run
from actors.state_column import CANCELLING

if TYPE_CHECKING:
    from actors.pool import WorkerPool

WATCH_NS: Final = 1_000_000_000
"""How often busy workers are looked at when no timeout asks for more."""
WATCH_NS_MIN: Final = 5_000_000


def stop_leases(pool: WorkerPool, message: msg.StopLeases) -> None:
    """Take the leases of these nodes back; what cannot be taken runs, and is stopped (`revoked`)."""
    nodes = set(message.nodes)
    for worker in pool.workers.values():
        serials = tuple(
            group.base + i
            for group in worker.book.groups()
            if group.run is message.run
            for i, node in enumerate(group.nodes)
            if group.open[i] and node in nodes
        )
        if serials:
            pool.put(fx.Revoke(worker.id, serials))


def revoked(pool: WorkerPool, message: msg.LeasesRevoked) -> None:
    """A worker was asked for leases: what was won goes back, what was not and shall not run is asked to stop."""
    worker = pool.workers.get(message.worker)
    if worker is None:
        return
    worker.revoking = False
    won = set(message.won)
    cause = "taken back"
    if worker.gives_way and worker.gives_way[1] == message.asked:  # else it is the answer to a cancel, or a drain
        worker.refused.update(serial for serial in message.asked if serial not in won)
        worker.refused_now = len(won) < len(message.asked)
        (cause, _), worker.gives_way = worker.gives_way, None
    give_back(pool, worker, message.won, cause)
    late: dict[int, list[int]] = {CANCEL: [], DEADLINE: []}
    for serial in message.asked:
        group = worker.book.find(serial) if serial not in won else None
        if group is None:
            continue
        node = group.nodes[serial - group.base]
        if group.run.state[node] == CANCELLING:
            late[CANCEL].append(serial)
        elif node in group.run.rare.overdue:
            late[DEADLINE].append(serial)
    for reason, serials in late.items():
        _stop(pool, worker, to_stop(worker, serials) if worker.book.surplus else serials, reason)


def give_back(pool: WorkerPool, worker: PoolWorker, serials: Iterable[int], cause: str) -> None:
    """These leases end untouched: their nodes go back to the scheduler, the last given first."""
    back: dict[int, tuple[Run, list[int]]] = {}
    for serial in serials:
        group = worker.book.finish(serial, 1)
        if group is not None:
            back.setdefault(id(group), (group.run, []))[1].append(group.nodes[serial - group.base])
    for run, nodes in reversed(back.values()):
        pool.put(msg.Returned(run, nodes, cause))


def _stop(pool: WorkerPool, worker: PoolWorker, serials: list[int], reason: int) -> None:
    """Begin to stop attempts: ask them, and take back what is held behind the first, once.

    Thousands come together when a map is left: what ended and was not heard of yet is among them.
    """
    if worker.state in (WorkerState.KILLING, WorkerState.DEAD):
        return
    fresh = [serial for serial in serials if serial not in worker.stops]
    for serial in fresh:
        worker.stops[serial] = Escalation(serial, reason, pool.now_ns + pool.grace_ns)
        pool.put(fx.AskCancel(worker.id, serial, reason))
    if fresh and not pool.is_async:
        take_back(pool, worker, [s for s in worker.book.open_serials() if s != fresh[0]])


def take_back(pool: WorkerPool, worker: PoolWorker, serials: list[int]) -> None:
    """Ask a worker for leases, unless it is being asked already."""
    if serials and not worker.revoking:
        worker.revoking = True
        pool.put(fx.Revoke(worker.id, tuple(serials)))


def escalate_due(pool: WorkerPool) -> None:
    """Go a step further with attempts that did not stop in time: SIGTERM, then SIGKILL."""
    for worker in pool.workers.values():
        for escalation in list(worker.stops.values()):
            if escalation.due_ns > pool.now_ns:
                continue
            escalation.due_ns = pool.now_ns + pool.grace_ns
            if not pool.is_async and worker.current and worker.current != escalation.serial:
                continue
            escalation.stage += 1
            if worker.state is not WorkerState.KILLING:
                worker.move(WorkerEvent.KILL)
            pool.put(fx.SignalWorker(worker.id, "TERM" if escalation.stage == 2 else "KILL"))


def observed(pool: WorkerPool, message: msg.WorkerObserved) -> None:
    """A worker was looked at: stop what runs for too long, give it up if frozen, replace it if it is too large."""
    worker = pool.workers.get(message.worker)
    if worker is None:
        return
    worker.current = message.serial
    worker.running = message.running or (((message.serial, message.started_ns),) if message.serial else ())
    worker.passed = max(worker.passed, message.passed)
    for serial, started_ns in worker.running:
        group = worker.book.find(serial)
        if group is None or serial in worker.stops or not started_ns:  # it is just starting
            continue
        timeout = group.kind.timeout_ns
        if group.batch is not None and is_behind(group, serial):  # its call is stopped for all of it
            continue
        if timeout and pool.now_ns - started_ns >= timeout:
            _stop(pool, worker, [serial], TIMEOUT)
        elif timeout:
            pool.put(fx.WakeAt(started_ns + timeout))
    if message.stopped is not None:
        _look_frozen(pool, worker, stopped=message.stopped)
    if pool.recycle_rss is not None and message.rss_bytes > pool.recycle_rss and worker.state is WorkerState.READY:
        pool.replace(worker, f"resident memory of {message.rss_bytes} bytes")


def _look_frozen(pool: WorkerPool, worker: PoolWorker, *, stopped: bool) -> None:
    """A worker that is stopped at two looks in a row is given up; a debugger stops it for a moment only."""
    if not (stopped and worker.book.held and worker.state in (WorkerState.READY, WorkerState.DRAINING)):
        worker.frozen_ns = 0
    elif not worker.frozen_ns:
        worker.frozen_ns = pool.now_ns
    else:
        worker.drain_reason = "frozen"
        worker.move(WorkerEvent.KILL)
        pool.put(fx.SignalWorker(worker.id, "KILL"))


def plan_watch(pool: WorkerPool) -> None:
    """Ask to be woken for the next look at workers, and for the next step of what is being stopped."""
    pool.replan = False
    if not any(pool.is_watched(w) for w in pool.workers.values()):
        pool.timeout_min_ns = 0
        pool.watch_due_ns = 0
        return
    for worker in pool.workers.values():
        for escalation in worker.stops.values():
            pool.put(fx.WakeAt(escalation.due_ns))
    if pool.watch_due_ns <= pool.now_ns:
        every = min(WATCH_NS, max(WATCH_NS_MIN, pool.timeout_min_ns // 10)) if pool.timeout_min_ns else WATCH_NS
        pool.watch_due_ns = pool.now_ns + every
    pool.put(fx.WakeAt(pool.watch_due_ns))
