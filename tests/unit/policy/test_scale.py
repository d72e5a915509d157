"""ScalePolicy: what makes a pool grow, what holds it back, when it shrinks, and what it says of that."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.policy.machine import Machine, room
from actors.policy.scale import Load, ScalePolicy, Step
from actors.protocol import limits
from runtime.bench.workloads.pretended_pool import PretendedPool, square_wave
from runtime.bench.workloads.scale import HIGH_PER_S, LOW_PER_S

MS = 1_000_000
COOLDOWN_NS = 1_000 * MS
STEADY = 13
"""Workers for 1,000 tasks of 10 ms a second at the utilization that is aimed at."""


def load(**more: Any) -> Load:
    given: dict[str, Any] = {"waiting": 0, "oldest_ns": 0, "held": 0, "arrived": 0, "service_ns": 10.0 * MS, "size": 1}
    return Load(**{**given, **more})


def policy(smallest: int = 1, largest: int = 8, slots: int = 1) -> ScalePolicy:
    return ScalePolicy(smallest, largest, slots, COOLDOWN_NS)


def roomy(now_ns: int = 0) -> Machine:
    return Machine(now_ns, 0.5, 0.5, 2)


# --- growth ---------------------------------------------------------------------------------------------------


def test_what_is_soon_done_changes_nothing() -> None:
    assert policy().decide(load(waiting=2, held=1), 1) == Step(1, "", 0)


def test_much_waiting_work_is_answered_by_one_step_that_empties_the_queue_soon() -> None:
    step = policy().decide(load(waiting=20, held=1), 1)
    assert (step.target, step.reason) == (5, "20 tasks wait, 200 ms of work for each worker")


def test_an_empty_pool_starts_a_worker_at_once_for_one_task() -> None:
    step = policy(smallest=0).decide(load(waiting=1, size=0, service_ns=0), 1)
    assert (step.target, step.reason) == (1, "1 task waits and there is no worker")


def test_a_task_behind_one_that_takes_long_gets_a_worker() -> None:
    asked = policy()
    early = load(waiting=1, oldest_ns=limits.POOL_WAIT_NS - 1, held=2, service_ns=1000)
    assert asked.decide(early, 1).target == 1
    late = asked.decide(early._replace(oldest_ns=25 * MS), 2)
    assert (late.target, late.reason) == (2, "1 task waits, for 25 ms behind ones that take long")


def test_places_of_one_worker_count() -> None:
    tasks = load(waiting=20, held=100, service_ns=100.0 * MS)
    assert policy(slots=100).decide(tasks, 1).target == 1
    assert policy(slots=1).decide(tasks, 1).target == 8


def test_no_more_than_wait() -> None:
    assert policy().decide(load(waiting=2, held=1, service_ns=5000.0 * MS), 1).target == 3


def test_without_a_look_at_the_machine_a_step_is_bounded() -> None:
    asked = policy(largest=500)
    assert asked.decide(load(waiting=1000, held=1), 1).target == 1 + limits.POOL_UNSEEN_MAX
    assert asked.wants_machine


def test_the_next_step_waits_for_the_workers_of_the_last_one() -> None:
    asked = policy()
    asked.machine = roomy()
    first = asked.decide(load(waiting=5, held=1), 1)
    assert first.target == 2
    starting = load(waiting=50, held=1, size=2, starting=1)
    assert asked.decide(starting, 2).target == 2
    hanging = asked.decide(starting, 1 + limits.POOL_START_NS)
    assert hanging.target == 8, "a start that hangs holds nothing up for long"


def test_a_queue_that_gets_shorter_soon_needs_no_other_step() -> None:
    asked = policy(largest=64)
    asked.machine = roomy()
    assert asked.decide(load(waiting=50, held=1), 1).target == 11
    assert asked.decide(load(waiting=100, held=11, size=11), 2).target == 11
    later = 2 + limits.POOL_DRAIN_NS
    assert asked.decide(load(waiting=60, held=11, size=11), later).target == 11
    longer = asked.decide(load(waiting=61, held=11, size=11), later + limits.POOL_DRAIN_NS)
    assert longer.target > 11


def test_while_workers_start_the_rate_of_what_comes_asks_for_more() -> None:
    asked = policy(largest=64)
    asked.machine = roomy()
    assert asked.decide(load(waiting=3, held=1, arrived=4), 1).target == 2
    early = asked.decide(load(waiting=6, held=1, arrived=7, size=2, starting=1), 3 * MS)
    assert (early.target, early.look_ns) == (2, 3 * MS + limits.POOL_SURGE_NS), "too early to know a rate"
    known = asked.decide(load(waiting=13, held=1, arrived=14, size=2, starting=1), 10 * MS)
    assert known.target == STEADY, "1,000 a second"


def test_a_burst_is_no_rate() -> None:
    asked = policy(largest=64)
    asked.machine = roomy()
    asked.decide(load(), 1)
    first = asked.decide(load(waiting=30, held=1, arrived=31), 2)
    assert first.target == 7
    assert asked.decide(load(waiting=30, held=1, arrived=31, size=7, starting=6), 20 * MS).target == 7


def test_a_rate_needs_no_more_workers_than_work_waits_for() -> None:
    asked = policy(largest=64)
    asked.machine = roomy()
    assert asked.decide(load(waiting=3, held=1, arrived=4), 1).target == 2
    fast = load(waiting=10, held=1, arrived=104, size=2, starting=1)
    assert asked.decide(fast._replace(service_ns=5.0 * MS), 10 * MS).target < 30


def test_growth_that_did_its_work_delays_no_other() -> None:
    asked = policy(smallest=0)
    asked.machine = roomy()
    assert asked.decide(load(waiting=1, size=0), 1).target == 1
    asked.decide(load(arrived=1), 300 * MS)
    assert asked.decide(load(waiting=20, held=1, arrived=22), 400 * MS).target > 1


# --- the machine ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("machine", "target", "held_back"),
    [
        (Machine(0, 0.97, 0.5, 4), 4, "the machine's 4 processors are busy to 97%"),
        (Machine(0, 0.97, 0.5, 4, 1), 3, "there is memory for 1 worker more as large as the largest"),
        (Machine(0, 0.97, 0.5, 4, 3), 4, "the machine's 4 processors are busy to 97%"),
        (Machine(0, 0.50, 0.5, 4, 0), 2, "there is memory for 0 workers more as large as the largest"),
        (Machine(0, 0.50, 0.5, 4, 9), 8, ""),
        (Machine(0, 0.90, 0.5, 4), 8, ""),
        (Machine(0, None, 0.5, 4), 8, ""),
        (Machine(0, 0.5, 0.03, 4), 2, "3% of the machine's memory is free"),
        (Machine(-limits.MACHINE_STALE_NS, 0.97, 0.03, 4), 8, ""),
    ],
)
def test_a_busy_machine_holds_growth_back(machine: Machine, target: int, held_back: str) -> None:
    asked = policy()
    asked.machine = machine
    assert asked.decide(load(waiting=900, held=2, size=2), 1).target == target
    assert asked.held_back == held_back


def test_what_has_waited_long_is_not_held_back_for_processors() -> None:
    asked = policy()
    asked.machine = Machine(0, 1.0, 0.5, 1)
    waiting = load(waiting=1, held=2, oldest_ns=limits.POOL_PATIENCE_NS - 1)
    held = asked.decide(waiting, 1)
    assert (held.target, held.look_ns) == (1, 1 + limits.MACHINE_LOOK_NS)
    assert asked.decide(waiting._replace(oldest_ns=limits.POOL_PATIENCE_NS), 2).target == 2


def test_workers_that_start_have_not_taken_their_memory_yet() -> None:
    found = room(Machine(0, 0.5, 0.5, 4, 3), 1, size=4, starting=2, oldest_ns=0, largest=8)
    assert found.size == 5


def test_an_empty_pool_starts_whatever_the_machine_does() -> None:
    asked = policy(smallest=0)
    asked.machine = Machine(0, 1.0, 0.0, 1)
    assert asked.decide(load(waiting=1, size=0), 1).target == 1


# --- shrinking ------------------------------------------------------------------------------------------------


def test_a_worker_that_was_not_needed_for_two_cooldowns_goes() -> None:
    asked = policy(smallest=0)
    first = asked.decide(load(), 1)
    assert first == Step(1, "", 1 + 2 * COOLDOWN_NS)
    assert asked.decide(load(), 2 * COOLDOWN_NS).target == 1
    step = asked.decide(load(), 1 + 2 * COOLDOWN_NS)
    assert step.target == 0
    assert step.reason == "idle: not needed for 2 s; 0.0 tasks a second of 10 ms"


def test_a_task_that_runs_keeps_the_last_worker() -> None:
    asked = policy(smallest=0)
    assert [asked.decide(load(held=1), n * COOLDOWN_NS).target for n in range(8)] == [1] * 8


def test_workers_in_long_tasks_are_needed_though_nothing_comes() -> None:
    asked = policy(largest=8)
    busy = load(size=8, held=6, long=6)
    assert [asked.decide(busy, n * COOLDOWN_NS).target for n in range(3)] == [8, 8, 6]


def test_a_pool_that_shrank_too_soon_waits_longer_the_next_time() -> None:
    asked = policy(smallest=0)
    assert [asked.decide(load(), n * COOLDOWN_NS).target for n in range(3)] == [1, 1, 0]
    assert asked.decide(load(waiting=1, size=0), 3 * COOLDOWN_NS).target == 1
    sizes = [asked.decide(load(), n * COOLDOWN_NS).target for n in range(4, 20)]
    assert sizes == [*([1] * 15), 0], "sixteen cooldowns after it was needed"
    assert asked.decide(load(waiting=1, size=0), 60 * COOLDOWN_NS).target == 1
    assert [asked.decide(load(), n * COOLDOWN_NS).target for n in (61, 62)] == [1, 0], "it was right that time"


def test_little_surplus_is_kept() -> None:
    asked = policy(largest=64)
    assert [asked.decide(load(size=20, held=19, long=19), n * COOLDOWN_NS).target for n in range(4)] == [20] * 4
    asked = policy(largest=64)
    assert asked.decide(load(size=20, held=18, long=18), 0).target == 20
    assert asked.decide(load(size=20, held=18, long=18), 2 * COOLDOWN_NS).target == 18


# --- over time, on a virtual clock ----------------------------------------------------------------------------


def pool(smallest: int = 1, largest: int = 64, cooldown_ns: int = COOLDOWN_NS, **more: Any) -> PretendedPool:
    return PretendedPool(ScalePolicy(smallest, largest, 1, cooldown_ns), machine=roomy, **more)


@pytest.mark.slow
@pytest.mark.parametrize("cooldown_ns", [COOLDOWN_NS, 5 * COOLDOWN_NS])
def test_after_a_step_it_is_steady_within_three_cooldowns(cooldown_ns: int) -> None:
    stepping = pool(cooldown_ns=cooldown_ns)
    stepping.run(lambda _: LOW_PER_S, cooldown_ns)
    assert stepping.size == 1
    stepping.run(lambda _: HIGH_PER_S, 8 * cooldown_ns)
    assert stepping.size == STEADY
    assert stepping.steps[-1][0] <= 4 * cooldown_ns
    assert sum(after > STEADY for _, before, after, _ in stepping.steps if after > before) <= 1
    assert max(stepping.waits_ns) < stepping.boot_ns + 10 * MS, (
        "hardly longer than until a worker asked for at once serves"
    )


def directions(stepping: PretendedPool) -> list[bool]:
    """Whether it grew, for each step."""
    return [after > before for _, before, after, _ in stepping.steps]


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(
    period=st.floats(0.1, 1.95),
    low=st.floats(0, 200),
    high=st.floats(200, 2_000),
    service_ms=st.integers(1, 25),
    smallest=st.integers(0, 2),
)
def test_a_square_wave_below_two_cooldowns_does_not_flap(
    period: float, low: float, high: float, service_ms: int, smallest: int
) -> None:
    """It grows to its size, may correct it once, and may take that back: no edge of the wave does so again."""
    waving = pool(smallest=smallest, service_ns=service_ms * MS, tick_ns=5 * MS)
    waving.run(square_wave(low, high, period * COOLDOWN_NS), 14 * COOLDOWN_NS)
    grew = directions(waving)
    turns = sum(one != other for one, other in zip(grew, grew[1:], strict=False))
    assert turns <= 2, waving.steps


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(
    rates=st.lists(st.floats(0, 3_000), min_size=1, max_size=6),
    service_ms=st.integers(1, 200),
    smallest=st.integers(0, 3),
    more=st.integers(0, 20),
)
def test_it_is_never_outside_its_bounds(rates: list[float], service_ms: int, smallest: int, more: int) -> None:
    largest = max(1, smallest + more)
    bounded = pool(smallest, largest, service_ns=service_ms * MS, tick_ns=10 * MS)
    for rate in rates:
        bounded.run(lambda _, rate=rate: rate, bounded.now_ns + COOLDOWN_NS)  # type: ignore[misc]
    assert all(smallest <= after <= largest for _, _, after, _ in bounded.steps)
    assert all(reason for *_, reason in bounded.steps)


def test_an_idle_pool_is_empty_after_two_cooldowns_and_starts_again_at_once() -> None:
    resting = pool(smallest=0)
    resting.run(lambda now_ns: 200.0 if now_ns < 50 * MS else 0.0, 4 * COOLDOWN_NS)
    assert resting.size == 0
    at_ns, *_ = resting.steps[-1]
    assert 2 * COOLDOWN_NS < at_ns <= 2.6 * COOLDOWN_NS, "what the rate takes to die away comes on top"
    resting.run(lambda _: 100.0, 4 * COOLDOWN_NS + 20 * MS)
    assert [step[1:3] for step in resting.steps[-1:]] == [(0, 1)]
    assert resting.steps[-1][0] - 4 * COOLDOWN_NS <= 11 * MS
