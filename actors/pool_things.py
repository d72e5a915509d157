"""What the object pools of a node type hold, over all its workers: what they said last, and what ended ones did."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from actors.policy.object_pool import PoolCounts
from actors.protocol import effects as fx
from actors.protocol import limits
from actors.protocol import messages as msg
from actors.protocol.states import WorkerEvent, WorkerState

if TYPE_CHECKING:
    from actors.pool import WorkerPool

_NOW: Final = PoolCounts._fields.index("made")
"""Counts before this are of now, those from here on of all time."""


class PoolThings:
    """See the module."""

    def __init__(self) -> None:
        self._said: dict[int, dict[str, Sequence[Any]]] = {}
        self._before: dict[str, Sequence[Any]] = {}
        self.until_ns = 0
        """How long the engine that ends waits for workers to close what they have; 0: it does not yet."""

    def told(self, worker: int, rows: Sequence[Sequence[Any]]) -> None:
        """A worker says how its pools stand."""
        self._said[worker] = {row[0]: row[1:] for row in rows}

    def holds(self, worker: int) -> bool:
        """Whether it has any pool, and so something to close before it ends."""
        return worker in self._said

    def gone(self, worker: int) -> None:
        """It ended, and all that it held with it."""
        for name, counts in self._said.pop(worker, {}).items():
            ended = [*[0] * _NOW, *counts[_NOW:]]
            self._before[name] = _sum(self._before[name], ended) if name in self._before else ended

    def rows(self) -> list[dict[str, Any]]:
        """Each pool: `pool`, in how many `workers` it is, and the counts of `PoolCounts`."""
        total, workers = dict(self._before), dict.fromkeys(self._before, 0)
        for said in self._said.values():
            for name, counts in said.items():
                total[name] = _sum(total[name], counts) if name in total else counts
                workers[name] = workers.get(name, 0) + 1
        return [
            {"pool": name, "workers": workers[name], **PoolCounts(*counts)._asdict()}
            for name, counts in sorted(total.items())
        ]


def told(pool: WorkerPool, message: msg.WorkerPools) -> None:
    """A worker of a pool says how its object pools stand."""
    if message.worker in pool.workers:
        pool.things.told(message.worker, message.rows)


def let_go(pools: Iterable[WorkerPool], now_ns: int) -> list[Any] | None:
    """The engine has nothing to do any more, and ends: workers that have things close them first.

    Returns:
        Effects; None: it waits for none of them any more, because they ended, or took too long.
    """
    effects: list[Any] = []
    waits = False
    for pool in pools:
        things = pool.things
        for worker in pool.workers.values():
            if not things.holds(worker.id) or worker.state not in (WorkerState.READY, WorkerState.DRAINING):
                continue
            if not things.until_ns:
                things.until_ns = now_ns + limits.THINGS_CLOSE_NS
                effects.append(fx.WakeAt(things.until_ns))
            if worker.state is WorkerState.READY:
                worker.move(WorkerEvent.DRAIN)
                effects.append(fx.DrainWorker(worker.id))
            waits = waits or now_ns < things.until_ns
    return effects if waits else None


def _sum(one: Sequence[Any], other: Sequence[Any]) -> list[Any]:
    """Counts of both; the last is by reason."""
    reasons = {name: one[-1].get(name, 0) + other[-1].get(name, 0) for name in {**one[-1], **other[-1]}}
    return [*(a + b for a, b in zip(one[:-1], other[:-1], strict=True)), reasons]
