"""How often there are ticks."""

from __future__ import annotations

import pytest

from runtime.profile.sampling.pace import BUDGET, HZ, Pace

S = 1_000_000_000


@pytest.fixture
def pace() -> Pace:
    made = Pace()
    made.rates["test"] = HZ
    return made


def test_the_fastest_of_several_decides(pace: Pace) -> None:
    pace.rates["other"] = 99.0
    assert pace.hz == 99.0
    pace.rates.clear()
    assert pace.hz == 0.0


def test_the_rate_is_halved_where_ticks_cost_too_much_and_doubled_again(pace: Pace) -> None:
    cost_ns = int(BUDGET * 2 * S)
    pace.judge(S - 1, cost_ns)
    assert pace.hz == HZ, "it is judged by a second"
    pace.judge(S, cost_ns)
    assert (pace.hz, pace.halved) == (HZ / 2, 1)
    pace.judge(2 * S, cost_ns)
    assert (pace.hz, pace.halved) == (HZ, 1)


def test_a_capture_may_cost_more(pace: Pace) -> None:
    pace.rates["capture"] = 99.0
    pace.judge(S, int(BUDGET * 2 * S))
    assert pace.hz == 99.0


def test_where_the_kernel_lags_more_is_asked_for(pace: Pace) -> None:
    pace.rates["test"] = 100.0
    pace.keep_pace(S, 31)
    assert pace._catch_up == 1, "too few to tell"
    pace.keep_pace(S, 50)
    assert pace._catch_up > 1
    pace.keep_pace(2 * S, 350)
    assert pace._catch_up == pytest.approx(1)


def test_gaps_are_exponential(pace: Pace) -> None:
    pace.rates["test"] = 50.0
    gaps = [pace.gap_s() for _ in range(20_000)]
    assert sum(gaps) / len(gaps) == pytest.approx(0.02, rel=0.05)
    assert sum(gap > 0.02 for gap in gaps) / len(gaps) == pytest.approx(0.368, abs=0.03)
    assert min(gaps) > 0
