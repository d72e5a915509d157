"""What better work does at workers that are full, and which leases go from one worker to another.

A worker holds work ahead, so that it never waits; it claims the best class first (`actors.worker`). Work of a better
class therefore need not wait in the engine until a worker has room: it goes to one that is full as well, and overtakes
there. That costs the worker a bounded amount more to hold: `PREFETCH_OVER` leases of each better class for each of its
slots. It goes there before anything is given to workers with room: the one that has most room has just begun a task,
and the one that ends soonest may be full.

Concurrency: functions of a pool. Known limit: a lease cannot overtake what runs. Where a worker is stuck in a long
task, an idle one takes what waits behind it (`pool_size`), the best class included.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from actors.pool_worker import PoolWorker
from actors.protocol import messages as msg
from actors.protocol.states import WorkerState

if TYPE_CHECKING:
    from actors.pool import WorkerPool

PREFETCH_OVER: Final = 1
"""Leases of a better class, for each slot of a worker, beyond what it holds otherwise. One follows the one that runs;
where more wait, room comes as the worker ends what it holds, and what waits is given best class first anyway."""


def offer_over(pool: WorkerPool, best: int, now_ns: int) -> msg.Offer | None:
    """Room at full workers for tasks of the class `best`, the best that waits; None when there is none.

    A worker has it while it holds fewer tasks of that class or a better one than `PREFETCH_OVER` allows, so that what
    is worse is overtaken and equals wait in the engine, in order. First come those that are likely to end soonest what
    they run, whatever they hold behind it. While a worker has a free place and may be given work, nothing
    need be overtaken.
    """
    over = pool.slots * PREFETCH_OVER
    if pool.draining or pool.holds_max <= pool.slots:  # nothing is held ahead that could be overtaken
        return None
    shares: list[tuple[float, int, int]] = []
    for worker in pool.workers.values():
        book = worker.book
        fits = over - sum(book.held_of[: best + 1])
        if fits > 0 and worker.state is WorkerState.READY and not (worker.stops or worker.stuck):
            held = book.held - book.surplus
            fits = min(fits, pool.tasks_max - worker.tasks - held, worker.window)
            if fits > 0 and held < pool.slots:
                return None
            if fits > 0:
                shares.append((_remaining_ns(worker, pool, now_ns), worker.id, fits))
    if not shares:
        return None
    return msg.Offer(pool.name, tuple((worker, fits) for _, worker, fits in sorted(shares)), best)


def _remaining_ns(worker: PoolWorker, pool: WorkerPool, now_ns: int) -> float:
    """How long what a worker runs is likely to take yet.

    It began when the worker last answered, about, and takes as long as the tasks of its class do on average. What is
    late by some time stays so by as much again: not knowing better, the future is as long as the past (J. R. Gott,
    "Implications of the Copernican principle", Nature 363, 1993).
    """
    oldest = worker.book.oldest
    usual_ns = pool.average_ns if oldest is None else pool.average_of[oldest.lane]
    return abs(usual_ns - (now_ns - worker.progress_ns))


def with_places(pool: WorkerPool, offer: msg.Offer) -> msg.Offer:
    """The offer, with what shares of the classes are reckoned by."""
    workers = pool.workers.values()
    slots = pool.slots * sum(worker.state is WorkerState.READY for worker in workers)
    return offer._replace(slots=slots, held=tuple(map(sum, zip(*(w.book.units_of() for w in workers), strict=True))))


def with_windows(pool: WorkerPool, offer: msg.Offer) -> msg.Offer:
    """The offer, with how many leases the workers have room for, since a batch is many and counts as one."""
    return offer._replace(windows=tuple(pool.workers[worker].window for worker, _ in offer.shares))


def serials_to_take(worker: PoolWorker, slots: int) -> list[int]:
    """The half of what a worker holds ahead that an idle one may take: of each class the later half.

    The best class too, because it waits behind what runs. That is of the class with the lowest serial, as a rule;
    asking for what runs does no harm.
    """
    lanes: dict[int, list[int]] = {}
    for group in worker.book.groups():
        open_here = [group.base + i for i, flag in enumerate(group.open) if flag]
        lanes.setdefault(group.lane, []).extend(open_here)
    oldest = min(lanes, key=lambda lane: lanes[lane][0])
    lanes[oldest] = lanes[oldest][slots:]
    return sorted(serial for serials in lanes.values() for serial in serials[len(serials) // 2 :])
