"""Wall clock: one offset, taken again only when somebody set the clock."""

from __future__ import annotations

import time

import pytest

from runtime.host.clock import STEP_NS, WallClock


def test_the_order_of_monotonic_times_is_kept() -> None:
    clock = WallClock()
    now = time.monotonic_ns()
    assert clock.wall_ns(now + 5) - clock.wall_ns(now) == 5
    assert abs(clock.wall_ns(now) - time.time_ns()) < STEP_NS


def test_a_clock_that_was_set_is_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = WallClock()
    now = time.monotonic_ns()
    before = clock.wall_ns(now)
    real = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: real() + 3_600_000_000_000)
    assert clock.wall_ns(now) - before > 3_599_000_000_000
