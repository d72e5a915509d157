"""Surge: the rate of what comes since it presses, of the last tenths of a second at most."""

from __future__ import annotations

from actors.policy.surge import Surge
from actors.protocol import limits

MS = 1_000_000


def test_what_pressed_first_does_not_count() -> None:
    surge = Surge()
    surge.follow(True, 50, 0)
    assert surge.rate(50, 10 * MS) == 0
    assert surge.rate(60, 10 * MS) == 10 / (10 * MS)


def test_it_says_nothing_too_early_or_without_pressure() -> None:
    surge = Surge()
    assert surge.rate(9, 9 * MS) == 0
    surge.follow(True, 0, 0)
    assert surge.rate(9, limits.POOL_SURGE_NS - 1) == 0
    surge.follow(False, 9, 10 * MS)
    assert surge.rate(90, 20 * MS) == 0
    assert surge.arrived(90) == 0


def test_a_window_that_gets_long_is_cut_to_its_younger_half() -> None:
    surge = Surge()
    for at_ms in range(0, 1_001, 10):
        surge.follow(True, at_ms if at_ms < 500 else 500 + (at_ms - 500) * 10, at_ms * MS)
    ended = 500 + 500 * 10
    assert surge.rate(ended, 1_000 * MS) == 10 / MS, "one in a millisecond was long ago"
    assert surge.arrived(ended) <= limits.POOL_SURGE_MAX_NS // MS * 10
