"""Pairs of windows: turns, and an interval that has what it shall have."""

from __future__ import annotations

import random

import pytest

from runtime.bench.paired import KEPT, MISSED, OPEN, Interval, abba, difference, quantile_difference, undisturbed


def test_which_of_a_pair_comes_first_takes_turns() -> None:
    order: list[bool] = []

    def window(on: bool) -> str:
        order.append(on)
        return f"{on} {len(order)}"

    assert abba(3, window) == [("False 1", "True 2"), ("False 4", "True 3"), ("False 5", "True 6")]
    assert order == [False, True, True, False, False, True]


def test_a_difference_that_is_always_the_same_is_sure() -> None:
    found = difference([(100.0, 103.0)] * 30)
    assert found == pytest.approx((3.0, 3.0, 3.0))
    assert found.verdict(3.5) == KEPT
    assert found.verdict(2.5) == MISSED


def test_what_is_seldom_counts() -> None:
    """A median of ratios would say 0 %."""
    assert difference([(100.0, 100.0)] * 27 + [(100.0, 120.0)] * 3).value == pytest.approx(2.0)


def test_noise_makes_it_unsure_and_not_wrong() -> None:
    chance = random.Random(7)
    inside = 0
    for _ in range(60):
        pairs = [(chance.gauss(100.0, 5.0), chance.gauss(101.0, 5.0)) for _ in range(30)]
        found = difference(pairs, draws=200)
        assert found.low < found.value < found.high
        inside += found.low <= 1.0 <= found.high
    assert inside >= 50


def test_a_pair_that_something_else_disturbed_is_left_out() -> None:
    assert undisturbed([(100.0, 101.0), (100.0, 160.0), (99.0, 112.0), (70.0, 100.0)]) == [
        (100.0, 101.0),
        (99.0, 112.0),
    ]
    assert undisturbed([(1.0, 100.0)]) == [(1.0, 100.0)]


def test_between_both_is_not_sure() -> None:
    assert Interval(1.0, -1.0, 3.0).verdict(2.0) == OPEN


def test_a_percentile_is_that_of_all_values() -> None:
    before, after = list(range(1, 101)), [2 * value for value in range(1, 101)]
    found = quantile_difference([(before, after)] * 30, 0.99)
    assert found == pytest.approx((100.0, 100.0, 100.0))
