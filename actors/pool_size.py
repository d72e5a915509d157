"""How many workers a pool has, and who holds what: growing, shrinking, and what idle workers get from busy ones.

Called for a pool when work was given out; returns what it asks for. The size is decided by `actors.policy.scale` and,
where the program wants to be asked, by that before anything happens (`actors.policy.scale_advice`).

A worker that is idle, or soon will be, gets half of what one that holds much, or is stuck, has not started; it is taken
back by compare-and-set on the lease table, so a task that was claimed meanwhile stays where it is. And it gets what the
results of the others make ready, without waiting until they have a batch full of them: those are asked to send soon
(`ask_results`).
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final

from actors.policy.machine import Machine
from actors.policy.prefetch import HUNGRY_NS
from actors.policy.scale import Load
from actors.policy.scale_advice import ScaleAdvice
from actors.pool_lanes import serials_to_take
from actors.pool_worker import PoolWorker
from actors.protocol import effects as fx
from actors.protocol import limits
from actors.protocol import messages as msg
from actors.protocol.states import WorkerEvent, WorkerState

if TYPE_CHECKING:
    from actors.pool import WorkerPool

STUCK_NS: Final = 3_000_000
"""A worker without a result for so long does not need the tasks it holds ahead; idle ones may take them."""
STEAL_WORK_NS: Final = 400_000
"""Work ahead, by its usual duration, of which an idle worker may take half without waiting for that: three times what
the taking costs."""
STEAL_AFTER_NS: Final = 250_000
"""Between two tries: about what a worker claims at a time, and cannot be taken."""
_COUNTED: Final = (WorkerState.READY, WorkerState.KILLING)
"""One that is killed keeps its place until it is gone: what it holds (a device, memory) is not free before."""


class SizeSteps:
    """What became of a pool's size: the latest steps, how many there were, and what the program says before each.

    Args:
        asks: Whether the program is asked.
    """

    __slots__ = ("advice", "grown", "latest", "shrunk")

    def __init__(self, *, asks: bool = False) -> None:
        self.advice = ScaleAdvice() if asks else None
        self.latest: deque[tuple[int, int, str, int]] = deque(maxlen=limits.SCALE_STEPS_KEPT)
        self.grown = self.shrunk = 0

    def note(self, before: int, after: int, reason: str, now_ns: int) -> None:
        """A step was taken."""
        self.latest.append((before, after, reason, now_ns))
        self.grown += after > before
        self.shrunk += after < before


def held_back(pool: WorkerPool) -> str:
    """Why a pool does not grow although it would; empty where nothing keeps it."""
    advice = pool.steps.advice
    return pool.scale.held_back or ("" if advice is None else advice.kept)


def balance(pool: WorkerPool, ready: int) -> list[Any]:
    """Called when work was given out: grow, shrink, or let idle workers take what stuck ones hold ahead."""
    out: list[Any] = []
    if pool.draining:
        return out
    able = [w for w in pool.workers.values() if w.state is WorkerState.READY]
    out += _resize(pool, able, ready)
    if not ready and any(_is_hungry(pool, w) for w in able):
        out += _steal(pool, able)
    return out


def _is_hungry(pool: WorkerPool, worker: PoolWorker) -> bool:
    held = worker.book.held - worker.book.surplus
    return not held or 0 < held * pool.average_ns < HUNGRY_NS


def _resize(pool: WorkerPool, able: list[PoolWorker], ready: int) -> list[Any]:
    """Ask the policy when something presses, and from time to time; see `actors.policy.scale`."""
    scale = pool.scale
    size = pool.wanted + sum(w.state in _COUNTED for w in pool.workers.values())
    if size >= scale.largest == scale.smallest:
        return []
    waiting = ready + sum(max(0, w.book.held - w.book.surplus - pool.slots) for w in able)
    oldest_ns = _oldest_ns(pool, able) if waiting else 0
    pressed = size < scale.largest and scale.pressed(waiting, oldest_ns, pool.average_ns, size)
    advice = pool.steps.advice
    if not pressed and not scale.due(pool.now_ns) and not (advice is not None and advice.due(pool.now_ns)):
        return [fx.WakeAt(scale.look_ns)] if scale.look_ns else []
    held = pool.held()
    arrived = pool.tasks_before + sum(w.tasks for w in pool.workers.values()) + held + ready
    long = sum(bool(w.book.held) and pool.now_ns - w.progress_ns > limits.POOL_LONG_NS for w in able)
    load = Load(waiting, oldest_ns, held, arrived, pool.average_ns, size, pool.wanted, long)
    step = scale.decide(load, pool.now_ns)
    out: list[Any] = [fx.WakeAt(step.look_ns)] if step.look_ns else []
    if advice is None:
        return out + _go(pool, able, size, step.target, step.reason)
    verdict = advice.judge(step, size, bool(waiting), pool.now_ns)
    if verdict.look_ns:
        out.append(fx.WakeAt(verdict.look_ns))
    if verdict.question is not None:
        number, before, after, reason = verdict.question
        out.append(fx.Scaled(pool.name, before, after, reason, number, _figures(pool, load)))
    return out + _go(pool, able, size, verdict.target, verdict.reason)


def _go(pool: WorkerPool, able: list[PoolWorker], size: int, target: int, reason: str) -> list[Any]:
    """To another size: more workers are asked for, of those that are idle some are let go."""
    target = min(pool.scale.largest, max(pool.scale.smallest, target))
    if target > size:
        pool.scale.grown(pool.now_ns)
        return [*(pool.want(reason) for _ in range(target - size)), _scaled(pool, size, target, reason)]
    idle = sorted((w for w in able if not w.book.held), key=lambda w: w.idle_since_ns)[: size - target]
    if not idle:
        return []
    return [*map(_let_go, idle), _scaled(pool, size, size - len(idle), reason)]


def _figures(pool: WorkerPool, load: Load) -> dict[str, Any]:
    """What a step was decided by, as the program is told."""
    machine = pool.scale.machine
    return {
        "waiting": load.waiting,
        "oldest_ns": load.oldest_ns,
        "held": load.held,
        "starting": load.starting,
        "service_ns": int(load.service_ns),
        "rate_per_s": pool.scale.rate_per_s,
        "cpu_busy": None if machine is None else machine.cpu_busy,
        "memory_free": None if machine is None else machine.memory_free,
        "workers_range": [pool.workers_min, pool.workers_max],
    }


def _oldest_ns(pool: WorkerPool, able: list[PoolWorker]) -> int:
    """For how long what waits has waited behind a task that takes long: 0 while a worker is idle, which takes it."""
    if not able or not all(w.book.held for w in able):
        return 0
    return max(1, pool.now_ns - min(w.progress_ns for w in able))


def _let_go(worker: PoolWorker) -> fx.DrainWorker:
    worker.drain_reason = "idle"
    worker.move(WorkerEvent.DRAIN)
    return fx.DrainWorker(worker.id)


def _scaled(pool: WorkerPool, before: int, after: int, reason: str) -> fx.Scaled:
    pool.steps.note(before, after, reason, pool.now_ns)
    return fx.Scaled(pool.name, before, after, reason)


def machine_seen(pool: WorkerPool, message: msg.MachineSeen) -> None:
    """The host looked at the machine."""
    pool.scale.machine = Machine(pool.now_ns, message.cpu_busy, message.memory_free, message.cores, message.fits)


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
