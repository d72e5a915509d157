"""What the object pools of a node type hold, over workers that live and workers that ended."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from actors.policy.object_pool import PoolCounts
from actors.pool_things import PoolThings, let_go
from actors.protocol import effects as fx
from actors.protocol import limits
from actors.protocol.states import WorkerEvent, WorkerState


def counts(**given: Any) -> list[Any]:
    """A row of a pool called "db"."""
    return ["db", *PoolCounts(**{**dict.fromkeys(PoolCounts._fields, 0), "closed": {}, **given})]


def test_counts_of_now_end_with_a_worker_and_counts_of_all_time_stay() -> None:
    things = PoolThings()
    things.told(1, [counts(size=2, idle=1, lent=1, made=3, closed={"aged": 1})])
    things.told(2, [counts(size=1, lent=1, made=1)])
    (row,) = things.rows()
    assert (row["pool"], row["workers"], row["size"], row["lent"], row["made"]) == ("db", 2, 3, 2, 4)
    things.told(1, [counts(size=0, made=3, closed={"aged": 1, "drained": 2})])
    things.gone(1)
    things.gone(1)
    (row,) = things.rows()
    assert (row["workers"], row["size"], row["made"], row["closed"]) == (1, 1, 4, {"aged": 1, "drained": 2})
    things.gone(2)
    (row,) = things.rows()
    assert (row["workers"], row["size"], row["lent"], row["made"]) == (0, 0, 0, 4)


class Worker:
    """As much of a worker as is asked for."""

    def __init__(self, number: int) -> None:
        self.id = number
        self.state = WorkerState.READY

    def move(self, event: WorkerEvent) -> None:
        assert event is WorkerEvent.DRAIN
        self.state = WorkerState.DRAINING


def test_an_engine_that_ends_waits_for_those_that_have_things_and_not_for_ever() -> None:
    pool: Any = SimpleNamespace(things=PoolThings(), workers={1: Worker(1), 2: Worker(2)})
    assert let_go([pool], 10) is None
    pool.things.told(1, [counts(size=1)])
    assert let_go([pool], 10) == [fx.WakeAt(10 + limits.THINGS_CLOSE_NS), fx.DrainWorker(1)]
    assert let_go([pool], 11) == []
    assert let_go([pool], 10 + limits.THINGS_CLOSE_NS) is None
    pool.workers.pop(1)
    pool.things.gone(1)
    assert let_go([pool], 12) is None
