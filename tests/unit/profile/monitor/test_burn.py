"""A burning budget is told from a bad moment, and from one that is over."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.errors import ConfigurationError
from runtime.profile.monitor.burn import Burning, Slo, SloMeter

S = 1_000_000_000


def burning(bad_by_second: list[int], per_second: int = 100) -> Burning:
    made = Burning(Slo("orders", lambda: (0, 0), target=0.99, fast=5.0, slow=60.0, burn=14.4))
    total = bad = 0
    for second, more in enumerate(bad_by_second):
        made.add(second * S, total, bad)
        total, bad = total + per_second, bad + more
    made.add(len(bad_by_second) * S, total, bad)
    return made


def test_a_good_service_burns_nothing() -> None:
    assert burning([0] * 100).rates() == (0.0, 0.0)


def test_the_rate_is_the_share_of_bad_ones_by_the_budget() -> None:
    assert burning([1] * 100).rates() == (pytest.approx(1.0), pytest.approx(1.0))
    assert burning([20] * 100).rates() == (pytest.approx(20.0), pytest.approx(20.0))
    assert burning([20] * 100).breached()


def test_a_bad_moment_is_no_breach() -> None:
    made = burning([0] * 100 + [50] * 3)
    assert made.rates()[0] > 14.4
    assert not made.breached()


def test_what_is_over_is_no_breach() -> None:
    made = burning([100] * 60 + [0] * 6)
    assert made.rates()[1] > 14.4
    assert not made.breached()


def test_counts_that_begin_anew_are_no_breach() -> None:
    made = burning([100] * 60)
    made.add(61 * S, 5, 0)
    assert made.rates() == (0.0, 0.0)


@given(st.lists(st.integers(0, 100), max_size=80))
def test_rates_are_never_beyond_what_is_possible(bad: list[int]) -> None:
    for rate in burning(bad).rates():
        assert 0.0 <= rate <= 100.0 + 1e-9


def test_a_meter_counts_what_took_too_long() -> None:
    meter = SloMeter(within=0.5)
    meter.add(0.1)
    meter.add(0.6)
    meter.add(0.1, ok=False)
    assert meter() == (3, 2)


@pytest.mark.parametrize("wrong", [{"target": 1.0}, {"fast": 0.0}, {"fast": 700.0}, {"burn": 101.0}])
def test_an_objective_that_cannot_be_breached_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ConfigurationError, match="MS101"):
        Slo("orders", lambda: (0, 0), **wrong)
