"""The generic cell rate algorithm against a bucket of tokens in exact fractions."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.policy.gcra import COST_PARTS, Gcra, cost_parts, rate_problem
from actors.protocol.errors import ConfigurationError
from actors.protocol.moments import NS_PER_S

S = NS_PER_S
ONE = COST_PARTS


class Tokens:
    """A bucket of tokens. What costs more than fits passes when the bucket is full, and leaves a debt."""

    def __init__(self, per_s: Fraction | float, burst: float) -> None:
        self.per_ns = Fraction(per_s) / S
        self.burst = Fraction(cost_parts(burst), ONE)
        self.tokens = self.burst
        self.then = Fraction(0)

    def at(self, now: Fraction | int) -> Fraction:
        return min(self.burst, self.tokens + (now - self.then) * self.per_ns)

    def take(self, wanted: int, cost: Fraction, now: int) -> int:
        self.tokens, self.then = self.at(now), Fraction(now)
        count = 0
        while count < wanted and self.tokens >= min(cost, self.burst):
            self.tokens -= cost
            count += 1
        return count

    def next_ns(self, cost: Fraction, now: int) -> int:
        lacking = min(cost, self.burst) - self.at(now)
        return now if lacking <= 0 else math.ceil(now + lacking / self.per_ns)

    def busy_ns(self, now: int) -> int:
        return math.ceil((self.burst - self.at(now)) / self.per_ns)


RATES = st.one_of(
    st.sampled_from([1, 3, 10, 0.1, 1 / 3, 7.3, 1e-3, 1e6, Fraction(1, 7)]),
    st.floats(1e-3, 1e6),
    st.fractions(Fraction(1, 100), 1000, max_denominator=1000),
)
BURSTS = st.one_of(st.integers(1, 50), st.floats(1, 50))
COSTS = st.one_of(st.just(1.0), st.sampled_from([0.1, 0.5, 2.0, 1e-6, 60.0]), st.floats(1e-3, 100))
STEPS = st.lists(
    st.tuples(st.one_of(st.integers(0, 3), st.integers(0, 10**7), st.integers(0, 10**11)), st.integers(0, 20), COSTS),
    max_size=30,
)


@pytest.mark.slow
@given(RATES, BURSTS, STEPS)
def test_it_agrees_with_a_bucket_of_exact_tokens(
    per_s: float | Fraction, burst: float, steps: list[tuple[int, int, float]]
) -> None:
    meter, tokens, now = Gcra(per_s, burst), Tokens(per_s, burst), 0
    for step, wanted, cost in steps:
        now += step
        exact = Fraction(cost_parts(cost), ONE)
        room = meter.room(cost_parts(cost), now)
        taken = meter.take(wanted, cost_parts(cost), now)
        assert taken == min(wanted, room) == tokens.take(wanted, exact, now)
        assert meter.next_ns(cost_parts(cost), now) == tokens.next_ns(exact, now)
        assert meter.busy_ns(now) == tokens.busy_ns(now)


@pytest.mark.slow
@given(RATES, BURSTS, STEPS)
def test_the_next_passes_at_its_time_and_not_a_nanosecond_before(
    per_s: float | Fraction, burst: float, steps: list[tuple[int, int, float]]
) -> None:
    meter, now = Gcra(per_s, burst), 0
    for step, wanted, cost in steps:
        now += step
        parts = cost_parts(cost)
        if meter.take(wanted, parts, now) < wanted:
            due = meter.next_ns(parts, now)
            assert due > now
            assert meter.take(1, parts, due - 1) == 0
            assert meter.take(1, parts, due) == 1
            now = due


def test_a_burst_then_one_at_a_time() -> None:
    meter = Gcra(10, 5)
    assert meter.take(8, ONE, 0) == 5
    assert meter.next_ns(ONE, 0) == S // 10
    assert meter.take(8, ONE, S // 10 - 1) == 0
    assert meter.take(8, ONE, S // 10) == 1
    assert meter.take(8, ONE, 10 * S) == 5


def test_a_thousand_million_takes_leave_no_drift() -> None:
    meter, now, taken = Gcra(3, 1_000_000), 0, 0
    while taken < 1_000_000_000:
        taken += meter.take(999_983, ONE, now)
        now = meter.next_ns(999_983 * ONE, now)
    assert meter.next_ns(1_000_000 * ONE, now) == math.ceil(Fraction(taken * S, 3))
    single = Gcra(3, 2)
    assert single.take(2, ONE, 0) == 2
    for number in range(1, 10_000):
        assert single.take(2, ONE, math.ceil(Fraction(number * S, 3))) == 1


def test_what_costs_more_than_the_burst_passes_alone_and_is_paid_before_the_next() -> None:
    meter = Gcra(1, 2)
    assert meter.take(3, 5 * ONE, 0) == 1
    assert meter.next_ns(5 * ONE, 0) == 5 * S
    assert meter.next_ns(ONE, 0) == 4 * S
    assert meter.take(1, ONE, 4 * S - 1) == 0
    assert meter.take(1, ONE, 4 * S) == 1


def test_what_costs_nothing_always_passes() -> None:
    meter = Gcra(1, 1)
    meter.take(1, ONE, 0)
    assert meter.take(7, 0, 0) == 7
    assert meter.next_ns(0, 0) == 0
    assert meter.take(1, ONE, S) == 1


@pytest.mark.parametrize(("cost", "parts"), [(1.0, ONE), (0.1, ONE // 10), (1e-12, 1), (0.0, 0), (2.5, 2_500_000)])
def test_costs_in_parts(cost: float, parts: int) -> None:
    assert cost_parts(cost) == parts


@pytest.mark.slow
@given(RATES, BURSTS, st.lists(st.integers(0, 10**9), min_size=1, max_size=30))
def test_reserved_ones_are_due_when_they_would_pass_and_none_is_refused(
    per_s: float | Fraction, burst: float, steps: list[int]
) -> None:
    meter, now, due, spacing = Gcra(per_s, burst), 0, list[int](), S / Fraction(per_s)
    for step in steps:
        now += step
        expected = meter.next_ns(ONE, now)
        due.append(meter.reserve(ONE, now))
        assert due[-1] == expected >= now
    assert due == sorted(due)
    depth = Fraction(cost_parts(burst), ONE)
    for first, start in enumerate(due):
        for last in range(first, len(due)):
            assert last - first + 1 <= depth + (due[last] - start + 1) / spacing


@pytest.mark.slow
@given(RATES, BURSTS, RATES, BURSTS, st.integers(0, 60), st.integers(0, 10**10))
def test_a_change_keeps_what_is_lacking(
    per_s: float | Fraction, burst: float, new_per_s: float | Fraction, new_burst: float, used: int, later: int
) -> None:
    meter = Gcra(per_s, burst)
    meter.take(used, ONE, 0)
    lacking = Fraction(min(used, cost_parts(burst) // ONE)) - Fraction(per_s) * later / S
    expected = max(lacking, 0) / Fraction(new_per_s) * S
    changed = meter.changed(new_per_s, new_burst, later).busy_ns(later)
    assert expected <= changed <= expected + 2


def test_resume_is_the_inverse_of_busy() -> None:
    meter, other = Gcra(3, 9), Gcra(3, 9)
    meter.take(7, ONE, 50)
    other.resume(meter.busy_ns(50), 1_000)
    assert other.busy_ns(1_000) == meter.busy_ns(50) == math.ceil(7 * S / 3)


@pytest.mark.parametrize(
    ("per_s", "burst"),
    [
        (0, 1),
        (-1, 1),
        (math.nan, 1),
        (math.inf, 1),
        (1e-10, 1),
        (10**400, 1),
        (1, 0),
        (1, 0.5),
        (1, math.nan),
        (1, math.inf),
        (True, 1),
        (1, True),
        ("1", 1),
        (1, None),
    ],
)
def test_senseless_rates_are_refused(per_s: float, burst: float) -> None:
    assert 0 < len(rate_problem(per_s, burst)) < 200
    with pytest.raises(ConfigurationError):
        Gcra(per_s, burst)
