"""Restart intensity: a sliding window, not a bucket that empties at once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.policy.restart import RestartIntensity
from actors.protocol import limits
from actors.protocol.errors import ConfigurationError


def test_one_more_than_allowed_within_the_window_escalates() -> None:
    intensity = RestartIntensity(3, 100)
    assert [intensity.failed(now) for now in (0, 10, 20, 30)] == [True, True, True, False]


def test_the_window_slides() -> None:
    intensity = RestartIntensity(2, 100)
    assert [intensity.failed(now) for now in (0, 50, 100, 149, 150)] == [True, True, True, False, False]
    assert intensity.count(150) == 3
    assert intensity.count(250) == 0
    assert intensity.failed(250)


def test_a_failure_as_old_as_the_window_no_longer_counts() -> None:
    intensity = RestartIntensity(1, 100)
    assert intensity.failed(0)
    assert intensity.failed(100)
    assert not intensity.failed(199)


def test_no_restart_allowed() -> None:
    assert not RestartIntensity(0, 100).failed(0)


def test_clear_forgets() -> None:
    intensity = RestartIntensity(1, 100)
    intensity.failed(0)
    intensity.clear()
    assert intensity.failed(1)


def test_a_clock_that_steps_back_does_no_harm() -> None:
    intensity = RestartIntensity(2, 100)
    assert [intensity.failed(now) for now in (1000, 10, 20)] == [True, True, False]
    assert intensity.failed(1200)


def test_defaults_come_from_the_limits() -> None:
    intensity = RestartIntensity()
    assert (intensity.restarts_max, intensity.window_ns) == (limits.RESTARTS_MAX, limits.RESTART_WINDOW_NS)


@pytest.mark.parametrize(("restarts_max", "window_ns"), [(-1, 1), (1, 0), (1, -5)])
def test_senseless_bounds_are_refused(restarts_max: int, window_ns: int) -> None:
    with pytest.raises(ConfigurationError):
        RestartIntensity(restarts_max, window_ns)


@given(st.lists(st.integers(0, 50)), st.integers(0, 4), st.integers(1, 100))
def test_it_agrees_with_counting_by_hand(steps: list[int], restarts_max: int, window_ns: int) -> None:
    intensity, now, times = RestartIntensity(restarts_max, window_ns), 0, list[int]()
    for step in steps:
        now += step
        times.append(now)
        recent = [time for time in times if time > now - window_ns]
        assert intensity.failed(now) == (len(recent) <= restarts_max)
