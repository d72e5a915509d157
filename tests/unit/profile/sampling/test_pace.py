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
    pace.adapt(S - 1, cost_ns, 0, 0)
    assert pace.hz == HZ, "it is judged by a second"
    pace.adapt(S, cost_ns, 0, 0)
    assert (pace.hz, pace.halved) == (HZ / 2, 1)
    pace.adapt(2 * S, cost_ns, 0, 0)
    assert (pace.hz, pace.halved) == (HZ, 1)


def test_a_capture_may_cost_more(pace: Pace) -> None:
    pace.rates["capture"] = 99.0
    pace.adapt(S, int(BUDGET * 2 * S), 0, 0)
    assert pace.hz == 99.0


def test_where_the_kernel_lags_more_is_asked_for(pace: Pace) -> None:
    pace.rates["test"] = 100.0
    pace.adapt(0, 0, S, 31)
    assert pace._catch_up == 1, "too few to tell"
    pace.adapt(0, 0, S, 50)
    assert pace._catch_up > 1
    pace.adapt(0, 0, 2 * S, 350)
    assert pace._catch_up == pytest.approx(1)


def test_gaps_are_exponential(pace: Pace) -> None:
    pace.rates["test"] = 50.0
    gaps = [pace.gap_s() for _ in range(20_000)]
    assert sum(gaps) / len(gaps) == pytest.approx(0.02, rel=0.05)
    assert sum(gap > 0.02 for gap in gaps) / len(gaps) == pytest.approx(0.368, abs=0.03)
    assert min(gaps) > 0


def test_gaps_drawn_ahead_are_of_the_rate_when_they_are_taken(pace: Pace) -> None:
    """A capture must not begin with what was drawn for 19 a second, and what is held down is held down at once."""
    pace.gap_s()
    pace.rates["capture"] = HZ * 1_000
    assert sum(pace.gap_s() for _ in range(50)) < 0.1
    pace.gap_s()
    pace.slowdown = 1_000.0
    assert sum(pace.gap_s() for _ in range(50)) > 0.5


def test_what_was_before_is_not_judged(pace: Pace) -> None:
    pace.begin(100 * S, 50 * S, 100 * S, 10_000)
    pace.adapt(101 * S, 50 * S, 101 * S, 10_019)
    assert (pace.hz, pace.halved, pace._catch_up) == (HZ, 0, 1.0)


def test_there_is_an_end_to_slowing_down_and_to_catching_up(pace: Pace) -> None:
    for second in range(1, 21):
        pace.adapt(second * S, second * S, 0, 0)
        pace.adapt(second * S, second * S, second * 1_000 * S, second * 32)
    assert pace.hz == HZ / 64
    assert 1.0 <= pace._catch_up <= 4.0
