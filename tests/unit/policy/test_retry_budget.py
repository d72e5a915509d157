"""Retry budget: a share of the work, a few besides, and the rest spread over time."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.policy.retry_budget import SLICES, RetryMeter
from actors.protocol import limits
from actors.protocol.errors import ConfigurationError, ProtocolError
from actors.protocol.moments import NS_PER_S

S = NS_PER_S


def test_a_share_of_first_attempts_and_then_a_few_a_second() -> None:
    budget = RetryMeter(0.2, 2, 10 * S)
    budget.first(0, 10)
    assert budget.left(0) == 2
    assert [budget.retry(5) for _ in range(7)] == [5, 5, 5, 5, 5 + S // 2, 5 + S, 5 + 3 * S // 2]


def test_first_attempts_count_for_the_window() -> None:
    budget = RetryMeter(1.0, 0.1, 10 * S)
    budget.first(0, 3)
    budget.first(5 * S, 1)
    assert budget.left(9 * S) == 4
    assert budget.left(10 * S) == 1
    assert budget.left(15 * S) == 0


def test_the_oldest_are_spent_first() -> None:
    budget = RetryMeter(0.5, 1, 10 * S)
    for second in range(4):
        budget.first(second * S, 1)
    assert budget.retry(3 * S) == 3 * S
    assert budget.left(11 * S) == 1
    assert budget.left(12 * S) == 0.5


def test_shares_of_several_slices_make_one_retry() -> None:
    budget = RetryMeter(0.1, 1, 10 * S)
    budget.retry(0)
    for tenth in range(10):
        budget.first(tenth * S // 2, 1)
    assert budget.left(9 * S // 2) == 1
    assert budget.retry(9 * S // 2) == 9 * S // 2
    assert budget.left(9 * S // 2) == 0


def test_without_first_attempts_retries_are_spread() -> None:
    budget = RetryMeter(0.2, 10)
    due = [budget.retry(0) for _ in range(20_000)]
    assert due[:10] == [0] * 10
    assert all(late - early == S // 10 for early, late in zip(due[9:], due[10:], strict=False))
    assert len(budget._deposits) == 0


def test_memory_is_a_few_slices_whatever_happens() -> None:
    budget = RetryMeter(0.2, 10, 10 * S)
    for number in range(2_000):
        budget.first(number * S // 50, 7)
        assert len(budget._deposits) <= SLICES
    budget.first(0, 0)


def test_no_share_leaves_the_few_a_second() -> None:
    budget = RetryMeter(0, 1)
    budget.first(0, 1_000_000)
    assert [budget.retry(0) for _ in range(3)] == [0, S, 2 * S]


def test_a_clock_that_is_set_back_takes_no_time() -> None:
    budget = RetryMeter(1, 1, 10 * S)
    budget.first(100 * S, 1)
    assert [budget.retry(100 * S) for _ in range(3)] == [100 * S, 100 * S, 101 * S]
    assert budget.retry(7 * S) == 9 * S
    budget.first(7 * S)
    assert budget.left(16 * S) == 1
    assert budget.left(17 * S) == 0


def test_a_restart_keeps_what_was_spent() -> None:
    budget, after = RetryMeter(1, 1), RetryMeter(1, 1)
    assert budget.to_json(0, 0) is None
    budget.first(0, 50)
    for _ in range(55):
        budget.retry(0)
    state = orjson.loads(orjson.dumps(budget.to_json(S, 70 * S)))
    assert state == {"wall_ns": 70 * S, "busy_ns": 4 * S}
    after.restore(state, 500, 72 * S)
    after.restore(None, 500, 72 * S)
    assert after.retry(500) == 500 + 2 * S
    back = RetryMeter(1, 1)
    back.restore(state, 0, 0)
    assert back.retry(0) == 4 * S


@pytest.mark.parametrize("state", [{}, {"wall_ns": 1, "busy_ns": 1.5}])
def test_a_malformed_state_changes_nothing(state: dict[str, Any]) -> None:
    budget = RetryMeter()
    with pytest.raises(ProtocolError):
        budget.restore(state, 0, 0)
    assert budget.retry(0) == 0


@pytest.mark.parametrize(
    ("ratio", "min_per_s", "window_ns"),
    [(-0.1, 1, S), (math.inf, 1, S), (math.nan, 1, S), (0.2, 0, S), (0.2, -1, S), (0.2, math.nan, S), (0.2, 1, 9)],
)
def test_senseless_settings_are_refused(ratio: float, min_per_s: float, window_ns: int) -> None:
    with pytest.raises(ConfigurationError):
        RetryMeter(ratio, min_per_s, window_ns)


def test_defaults_come_from_the_limits() -> None:
    budget = RetryMeter()
    budget.first(0)
    assert budget.left(0) == limits.RETRY_RATIO
    assert budget.slice_ns * SLICES == limits.RETRY_WINDOW_NS
    assert [budget.retry(0) for _ in range(11)][-2:] == [0, int(S / limits.RETRY_MIN_PER_S)]


class Books:
    """Each first attempt is a deposit of its own; the few a second are exact tokens that may be owed."""

    def __init__(self, ratio: Fraction, min_per_s: Fraction, slice_ns: int) -> None:
        self.ratio, self.min_per_s, self.slice_ns = ratio, min_per_s, slice_ns
        self.deposits: list[tuple[int, Fraction]] = []
        self.burst = max(min_per_s, Fraction(1))
        self.tokens, self.then = self.burst, 0

    def first(self, now: int) -> None:
        self.deposits.append((now // self.slice_ns, self.ratio))

    def retry(self, now: int) -> int:
        self.deposits = [(at, left) for at, left in self.deposits if at > now // self.slice_ns - SLICES]
        if sum(left for _, left in self.deposits) >= 1:
            wanted = Fraction(1)
            for index, (at, left) in enumerate(self.deposits):
                taken = min(left, wanted)
                self.deposits[index] = (at, left - taken)
                wanted -= taken
            return now
        self.tokens, self.then = min(self.burst, self.tokens + self.min_per_s * (now - self.then) / S), now
        lacking = max(1 - self.tokens, Fraction(0))
        self.tokens -= 1
        return math.ceil(now + lacking / self.min_per_s * S)


STEPS = st.lists(
    st.tuples(st.one_of(st.integers(0, 10**8), st.integers(0, 4 * S)), st.integers(0, 15), st.integers(0, 8)),
    max_size=25,
)


@pytest.mark.slow
@given(
    st.integers(0, 30),
    st.one_of(st.integers(1, 20).map(Fraction), st.sampled_from([Fraction(1, 2), Fraction(5, 4)])),
    st.sampled_from([S, 5 * S, 10 * S]),
    STEPS,
)
def test_it_agrees_with_exact_books_and_keeps_within_its_bound(
    tenths: int, min_per_s: Fraction, window_ns: int, steps: list[tuple[int, int, int]]
) -> None:
    budget = RetryMeter(tenths / 10, float(min_per_s), window_ns)
    books = Books(Fraction(tenths, 10), min_per_s, window_ns // SLICES)
    now, firsts, due = 0, list[int](), list[int]()
    for step, count, retries in steps:
        now += step
        budget.first(now, count)
        for _ in range(count):
            books.first(now)
        firsts += [now] * count
        for _ in range(retries):
            due.append(budget.retry(now))
            assert due[-1] == books.retry(now) >= now
    due.sort()
    for first, start in enumerate(due):
        for last in range(first, len(due)):
            counted = sum(start - window_ns < time <= due[last] for time in firsts)
            few = books.burst + min_per_s * (due[last] - start + 1) / S
            assert last - first + 1 <= Fraction(tenths, 10) * counted + few
