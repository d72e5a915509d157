"""What better work does at workers that are full, and which leases an idle one takes."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from actors.pool_lanes import serials_to_take
from actors.pool_worker import PoolWorker
from actors.protocol import effects as fx
from actors.protocol import limits
from actors.protocol import messages as msg
from actors.protocol.kinds import PRIORITIES
from tests.unit.actors.rig import Rig, kind, node_type


class Mixed(Rig):
    """A rig whose session may submit tasks of each class: kind numbers 1 to 4, best class first."""

    def __init__(self, *node_types: dict[str, Any], boot: bool = True) -> None:
        super().__init__(*node_types, boot=boot)
        self.seq = 0
        for number, priority in enumerate(PRIORITIES, 1):
            self.say(msg.KindDefined("s", number, kind(priority=priority)))

    def fill(self, priority: str, count: int) -> list[tuple[int, int]]:
        """Submit so many tasks of a class; (worker, serial) of the work given."""
        self.leases()
        first, number = self.seq + 1, PRIORITIES.index(priority) + 1
        self.seq += count
        rows = [[seq, number, seq] for seq in range(first, self.seq + 1)]
        self.say(msg.TasksSubmitted("s", rows, orjson.dumps(rows)))
        return self.given()

    def given(self) -> list[tuple[int, int]]:
        """(worker, serial) of the work given since the last call."""
        return [(worker, serial) for worker, serial, _ in self.leases()]

    @property
    def by_class(self) -> list[int]:
        """Leases held, all workers, by class."""
        books = [worker.book for worker in self.core.pools["default"].workers.values()]
        return [sum(column) for column in zip(*(book.held_of for book in books), strict=True)]


def test_a_full_worker_gets_better_work_and_not_more_of_it() -> None:
    rig = Mixed(node_type(prefetch=3))
    rig.fill("normal", 10)
    assert rig.by_class == [0, 0, 4, 0]
    assert rig.fill("low", 1) == rig.fill("normal", 1) == []
    assert len(rig.fill("realtime", 5)) == 1
    assert rig.fill("high", 1) == []
    assert rig.by_class == [1, 0, 4, 0]


def test_each_full_worker_gets_better_work() -> None:
    rig = Mixed(node_type(prefetch=2, workers_min=2, workers_max=2))
    rig.fill("low", 100)
    workers = [worker for worker, _ in rig.fill("high", 3)]
    assert sorted(workers) == sorted(rig.workers)
    assert len(rig.fill("realtime", 3)) == 2, "each class overtakes those below it"
    assert rig.by_class == [2, 2, 0, 6]
    assert rig.fill("high", 1) == rig.fill("normal", 1) == []


@pytest.mark.parametrize(
    ("past_us", "chosen"),
    [((900, 100), 0), ((100, 900), 1), ((3_000, 100), 1), ((9_000, 3_000), 1), ((1_050, 500), 0)],
)
def test_better_work_goes_where_it_can_start_soonest(past_us: tuple[int, int], chosen: int) -> None:
    """Tasks take a millisecond: what has run for 0.9 ends soon, what is a little late too, what has run for 3 is long.

    What the tasks of other classes take says nothing of that.
    """
    rig = Mixed(node_type(prefetch=2, workers_min=2, workers_max=2))
    rig.fill("low", 100)
    rig.now_ns += 20_000_000
    pool = rig.core.pools["default"]
    pool.average_of = [10.0, 20.0, 30.0, 1e6]
    for worker, past in zip(pool.workers.values(), past_us, strict=True):
        worker.progress_ns = rig.now_ns - past * 1000
    ((given_to, _),) = rig.fill("realtime", 1)
    assert given_to == list(pool.workers)[chosen]


def test_better_work_goes_to_a_full_worker_that_ends_sooner_than_one_with_room() -> None:
    rig = Mixed(node_type(prefetch=3, workers_min=2, workers_max=2))
    given = rig.fill("low", 5)
    full, roomy = rig.core.pools["default"].workers.values()
    if full.book.held < roomy.book.held:
        full, roomy = roomy, full
    assert (full.book.held, roomy.book.held, len(given)) == (3, 2, 5)
    rig.now_ns += 20_000_000
    rig.core.pools["default"].average_of[PRIORITIES.index("low")] = 1e6
    full.progress_ns, roomy.progress_ns = rig.now_ns - 900_000, rig.now_ns - 100_000
    ((worker, _),) = rig.fill("realtime", 1)
    assert worker == full.id


def test_a_free_place_comes_before_one_that_must_be_overtaken() -> None:
    rig = Mixed(node_type(prefetch=3, workers_min=2, workers_max=2), boot=False)
    busy, idle = rig.workers
    rig.say(msg.WorkerHello(busy, 1))
    rig.fill("low", 4)
    rig.say(msg.WorkerHello(idle, 2))
    assert [worker for worker, _ in rig.fill("realtime", 1)] == [idle]


def test_a_free_place_that_may_not_be_used_yet_keeps_nothing_from_full_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Mixed(node_type(prefetch=3, workers_min=2, workers_max=2), boot=False)
    busy, idle = rig.workers
    rig.say(msg.WorkerHello(busy, 1))
    rig.fill("low", 4)
    rig.say(msg.WorkerHello(idle, 2))
    window = PoolWorker.window.fget  # type: ignore[attr-defined]
    monkeypatch.setattr(PoolWorker, "window", property(lambda worker: 0 if worker.id == idle else window(worker)))
    assert [worker for worker, _ in rig.fill("realtime", 1)] == [busy]


def test_a_full_worker_of_coroutines_gets_better_work_for_each_of_its_slots() -> None:
    rig = Mixed(node_type(prefetch=5, slots=3, mode="asyncio"))
    rig.fill("normal", 100)
    assert len(rig.fill("realtime", 10)) == 3
    assert rig.by_class == [3, 0, 8, 0]


def test_what_is_let_through_makes_no_room_for_worse_work() -> None:
    rig = Mixed(node_type(prefetch=3))
    ((worker, serial), *_) = rig.fill("normal", 10)
    ((_, urgent),) = rig.fill("realtime", 1)
    rig.succeed(worker, urgent, 0, run=2)
    assert rig.given() == []
    rig.succeed(worker, serial, 0)
    assert len(rig.given()) == 1


def test_a_worker_near_its_number_of_tasks_is_not_given_better_work_on_top() -> None:
    rig = Mixed(node_type(recycle_tasks=4, prefetch=8))
    rig.fill("normal", 10)
    assert rig.by_class == [0, 0, 4, 0]
    assert rig.fill("realtime", 1) == []


def test_an_idle_worker_takes_the_urgent_task_behind_a_long_one() -> None:
    rig = Mixed(node_type(workers_min=2, workers_max=2), boot=False)
    first, second = rig.workers
    rig.say(msg.WorkerHello(first, 1))
    ((_, running),) = rig.fill("low", 1)
    ((_, urgent),) = rig.fill("realtime", 1)
    rig.observe(first, running, rig.now_ns)
    rig.say(msg.WorkerHello(second, 2))
    rig.later(10_000_000)
    assert rig.taken(fx.Revoke) == [fx.Revoke(first, (urgent,))]
    rig.say(msg.LeasesRevoked(first, (urgent,), (urgent,)))
    assert [worker for worker, _ in rig.given()] == [second]


def test_half_of_each_class_is_taken() -> None:
    rig = Mixed()
    rig.let_hold(5)
    low, normal, urgent = (
        [serial for _, serial in rig.fill(p, n)] for p, n in (("low", 3), ("normal", 2), ("realtime", 1))
    )
    (worker,) = rig.core.pools["default"].workers.values()
    assert serials_to_take(worker, 1) == [*low[2:], *normal[1:], *urgent]


def test_an_answer_for_urgent_work_does_not_free_the_slots_it_overtook(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LEASE_SLOTS", 2 * limits.CLAIM_MAX)
    rig = Mixed(node_type(prefetch=3))
    rig.fill("normal", 3)
    ((worker, urgent),) = rig.fill("realtime", 1)
    (held,) = rig.core.pools["default"].workers.values()
    before = held.window
    body = [[urgent, 2, [0], [1], rig.now_ns, [10]]]
    rig.say(msg.WorkerDone(worker, body, orjson.dumps([100 + worker, body])))
    assert (held.passed, held.window) == (0, before)
    rig.say(msg.WorkerFailed(worker, [], passed=3))
    assert (held.passed, held.window) == (3, before + 3)
    rig.observe(worker, 0, 0, passed=2)
    assert held.passed == 3, "an older look"
