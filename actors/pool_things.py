"""What the object pools of a node type hold, over all its workers: what they said last, and what ended ones did."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from actors.policy.object_pool import PoolCounts
from actors.protocol import messages as msg

if TYPE_CHECKING:
    from actors.pool import WorkerPool

_NOW: Final = PoolCounts._fields.index("made")
"""Counts before this are of now, those from here on of all time."""


class PoolThings:
    """See the module."""

    def __init__(self) -> None:
        self._said: dict[int, dict[str, Sequence[Any]]] = {}
        self._before: dict[str, Sequence[Any]] = {}

    def told(self, worker: int, rows: Sequence[Sequence[Any]]) -> None:
        """A worker says how its pools stand."""
        self._said[worker] = {row[0]: row[1:] for row in rows}

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


def _sum(one: Sequence[Any], other: Sequence[Any]) -> list[Any]:
    """Counts of both; the last is by reason."""
    reasons = {name: one[-1].get(name, 0) + other[-1].get(name, 0) for name in {**one[-1], **other[-1]}}
    return [*(a + b for a, b in zip(one[:-1], other[:-1], strict=True)), reasons]
