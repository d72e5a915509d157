"""Scenarios by name, simulated: the same actors as in `tests/scenarios`, where each has a test with real processes.

| here | for real |
|---|---|
| S08 | `test_time.py::test_s08_moving_due_tasks_to_the_queue_loses_none_of_them` |
| S37 | `test_time.py::test_s37_*` |
| S39 | `test_time.py::test_s39_a_hundred_thousand_tasks_of_tomorrow` |
| S40 | `test_next_flood.py` |
| S41 | `test_next_starving.py` |
| S42 | `test_next_slots.py` |
| S43 | `test_next_storm.py` |

Each runs with several seeds, which decide the delays of mail and the durations of tasks.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any, Final

import pytest

from actors.policy.fair import LOOKS_PER_AGEING
from tests.sim.scripted import MS, Planned, S, Scripted
from tests.sim.workers import FakeWorker, Lease

pytestmark = [pytest.mark.slow, pytest.mark.parametrize("seed", range(3))]

HOUR_NS: Final = 3600 * S
WORKERS: Final = 2
PRINTER: Final = {"concurrency_key": "printer"}


def attempts(world: Scripted) -> Counter[int]:
    return Counter(began.number for began in world.began)


def first_began_ns(world: Scripted, number: int) -> int:
    return next(began.now_ns for began in world.began if began.number == number)


# --- S08 ----------------------------------------------------------------------------------------------------------


def test_s08_moving_due_tasks_to_the_queue_loses_none_of_them(seed: int) -> None:
    count = 203
    world = Scripted(seed, [Planned(delay_ns=60 * MS + number * MS // 10) for number in range(count)])

    def kill_soon() -> None:
        """As soon as there is an engine again: while it moves what is due by then."""
        if world.core is None:
            world.at(MS, kill_soon)
        world.kill_engine()

    for offset_ns in (65 * MS, 66 * MS):
        world.at(offset_ns, kill_soon)
    world.run()
    assert world.incarnation == 3
    assert set(attempts(world)) == set(range(count))
    assert {state for state, _ in world.user.final.values()} == {"succeeded"}


# --- S37 ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("jump_ns", [-HOUR_NS, 24 * HOUR_NS], ids=["an-hour-back", "a-day-on"])
def test_s37_intervals_take_their_time_and_appointments_are_looked_at_again(seed: int, jump_ns: int) -> None:
    intervals = [Planned(delay_ns=5 * S + number * MS) for number in range(20)]
    appointment = Planned(delay_ns=2 * HOUR_NS, appointed=True)
    world = Scripted(seed, [*intervals, appointment])

    def jump() -> None:
        world.jumps = True
        world.user.note_due()
        world.clock.wall_offset_ns += jump_ns

    jumped_ns = world.clock.now_ns + S
    world.at(S, jump)
    world.run()
    for number, planned in enumerate(intervals):
        took_ns = first_began_ns(world, number) - world.script.sent_ns[number]
        assert planned.delay_ns <= took_ns <= planned.delay_ns + 100 * MS, "an interval follows the wall clock"
    came_ns = first_began_ns(world, len(intervals)) - jumped_ns
    late_ns = came_ns - max(0, 2 * HOUR_NS - S - jump_ns)
    assert -10 * MS <= late_ns <= 31 * S, "the appointment is not at its time of day"
    assert set(attempts(world).values()) == {1}
    assert len(world.workers_started) == WORKERS, "a worker was taken for dead"


def test_s37_after_an_hour_of_sleep_all_goes_on_without_a_storm(seed: int) -> None:
    count = 20
    world = Scripted(seed, [Planned(delay_ns=S + number * MS) for number in range(count)], workers=1)

    def sleep() -> None:
        world.clock.now_ns += HOUR_NS

    world.at(S // 2, sleep)
    world.run()
    assert [began.number for began in world.began] == list(range(count))
    assert len(world.workers_started) == 1


# --- S39 ----------------------------------------------------------------------------------------------------------


def test_s39_tasks_of_tomorrow_cost_no_worker_and_keep_their_order_over_a_restart(seed: int) -> None:
    count = 120
    seconds = Random(seed).sample(range(10_000), count)
    world = Scripted(seed, [Planned(delay_ns=24 * HOUR_NS + second * S) for second in seconds], workers=1)
    held: list[int] = []

    def look() -> None:
        assert world.core is not None
        held.append(world.core.held() + sum(len(worker.table) for worker in world.workers.values()))

    world.at(HOUR_NS, world.kill_engine)
    world.at(23 * HOUR_NS, look)
    world.run()
    assert held == [0]
    assert [began.number for began in world.began] == sorted(range(count), key=seconds.__getitem__)


# --- S40 ----------------------------------------------------------------------------------------------------------


def flood(world: Scripted, few: range) -> int:
    """How many began up to the last of the few."""
    order = [began.number for began in world.began]
    return max(order.index(number) for number in few) + 1


def test_s40_a_flood_of_one_tenant_delays_another_by_a_few_slots(seed: int) -> None:
    many, few = 300, 10
    plan = [Planned(options={"tenant": "a"})] * many + [Planned(options={"tenant": "b"})] * few
    world = Scripted(seed, plan, workers=WORKERS)
    world.run()
    assert len(world.began) == many + few
    assert flood(world, range(many, many + few)) <= 2 * few + 2 * WORKERS


def test_s40_weights_hold(seed: int) -> None:
    each = 120
    plan = [Planned(options={"tenant": tenant}) for tenant in "ab" for _ in range(each)]
    world = Scripted(seed, plan, policy={"weights": {"b": 3.0}})
    world.run()
    looked_at = each + each // 3
    of_b = sum(began.number >= each for began in world.began[:looked_at])
    assert abs(of_b - looked_at * 3 / 4) <= looked_at * 0.05


# --- S41 ----------------------------------------------------------------------------------------------------------


def starving(seed: int, ageing_ns: int) -> tuple[Scripted, int]:
    """Endless high load, one low task in the middle of it; the number of the low one."""
    high, low = {"priority": "high"}, {"priority": "low"}
    plan = [Planned(options=high)] * 60 + [Planned(8 * MS, low)]
    plan += [Planned(8 * MS + number * MS // 3, options=high) for number in range(240)]
    return Scripted(seed, plan, policy={"ageing_ns": ageing_ns}), 60


def test_s41_the_low_task_runs_within_its_bound(seed: int) -> None:
    ageing_ns = 25 * MS
    world, low = starving(seed, ageing_ns)
    world.run()
    waited_ns = first_began_ns(world, low) - world.script.sent_ns[low]
    assert waited_ns <= ageing_ns + ageing_ns // LOOKS_PER_AGEING + 10 * MS
    place = [began.number for began in world.began].index(low)
    assert place < len(world.began) - 50, "nothing else was waiting"


def test_s41_without_ageing_it_is_the_last(seed: int) -> None:
    world, low = starving(seed, 0)
    world.run()
    assert [began.number for began in world.began].index(low) >= len(world.began) - 1 - 2 * WORKERS


# --- S42 ----------------------------------------------------------------------------------------------------------


class DiesOnce(FakeWorker):
    """The worker with number 1 dies at a chosen moment of its first task."""

    moment = ""

    def receive(self, effect: Any) -> None:
        if self._now("claimed"):
            return
        super().receive(effect)

    def _finish(self, lease: Lease, outcome: tuple[str, Any]) -> None:
        super()._finish(lease, outcome)
        self._now("finishing")

    def _go_on(self) -> None:
        super()._go_on()
        if self.current and not self._now("starting"):
            delay_ns = self._random.randrange(1, 1_000)
            self._clock.at(self._clock.now_ns + delay_ns, lambda: self._now("running"))

    def _now(self, moment: str) -> bool:
        if self.number == 1 and self.moment == moment and self.alive:
            self.die("killed by SIGKILL", 9)
            return True
        return False


def dying(moment: str) -> type[FakeWorker]:
    return type("Dying", (DiesOnce,), {"moment": moment})


@pytest.mark.parametrize("moment", ["claimed", "starting", "running", "finishing"])
def test_s42_the_slot_of_a_killed_holder_comes_back_in_every_state(seed: int, moment: str) -> None:
    count = 8
    world = Scripted(
        seed,
        [Planned(options={**PRINTER, "poison": 9})] * count,
        policy={"quotas": {"key:printer": 1}},
        worker=dying(moment),
    )
    until_ns = world.clock.now_ns + 500 * MS
    world.run()
    assert world.clock.now_ns < until_ns, "the slot came back late"
    assert len(world.workers_started) == WORKERS + 1, "the holder was not killed"
    assert set(attempts(world)) == set(range(count))
    assert world.core is not None
    assert world.core.scheduler.giving.quotas.held("key:printer") == 0


def test_s42_the_slot_is_whole_after_the_engine_was_killed(seed: int) -> None:
    count = 8
    world = Scripted(seed, [Planned(options=PRINTER)] * count, policy={"quotas": {"key:printer": 1}})
    world.at(8 * MS, world.kill_engine)
    world.run()
    assert world.incarnation == 2
    assert set(attempts(world)) == set(range(count))


# --- S43 ----------------------------------------------------------------------------------------------------------

RETRY: Final = {"max_attempts": 10_000, "base_ns": 5 * MS, "cap_ns": 5 * MS, "factor": 1.0, "jitter": True}
CALLS: Final = 100
OTHERS: Final = 10
DOWN_NS: Final = 100 * MS


def storm(seed: int, options: dict[str, Any], **more: Any) -> Scripted:
    """Calls of a service that is down for a while; others come meanwhile."""
    plan = [Planned(options={"retry": RETRY, **options})] * CALLS + [Planned(30 * MS, {"tenant": "other"})] * OTHERS
    world = Scripted(seed, plan, **more)
    up_ns = world.clock.now_ns + DOWN_NS
    world._down = lambda now_ns: now_ns < up_ns and world.began[-1].number < CALLS
    return world


def test_s43_retries_spread_out_and_hold_nobody_up(seed: int) -> None:
    world = storm(seed, {})
    world.run()
    tries: Counter[int] = Counter()
    third, overtaken = False, 0
    for began in world.began[: 4 * CALLS]:
        tries[began.number] += 1
        overtaken += third and tries[began.number] == 2
        third = third or tries[began.number] == 3
    assert overtaken, "all second tries came before any third: a wave"
    for number in range(CALLS, CALLS + OTHERS):
        assert first_began_ns(world, number) - world.script.sent_ns[number] <= 30 * MS


def test_s43_no_attempt_is_begun_above_the_rate(seed: int) -> None:
    per_s, burst = 2_000, 20
    world = storm(seed, {"rate_key": "api"}, policy={"rates": {"api": [per_s, burst]}})
    opened_ns = world.clock.now_ns
    world.run()
    calls = [began for began in world.began if began.number < CALLS]
    for number, began in enumerate(calls, 1):
        assert number <= burst + (began.now_ns - opened_ns) / S * per_s + 1
    assert len(calls) > CALLS
    for number in range(CALLS, CALLS + OTHERS):
        assert first_began_ns(world, number) - world.script.sent_ns[number] <= 20 * MS


def test_s43_no_retry_is_begun_above_the_budget(seed: int) -> None:
    ratio, per_s = 0.2, 200.0
    world = storm(seed, {}, guards={"retry_budget": {"ratio": ratio, "min_per_s": per_s}})
    opened_ns = world.clock.now_ns
    world.run()
    retries = [began for began in world.began if began.attempt > 1]
    assert retries
    for number, began in enumerate(retries, 1):
        allowed = ratio * (CALLS + OTHERS) + per_s * ((began.now_ns - opened_ns) / S + 1)
        assert number <= allowed + 1
