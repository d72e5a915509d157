"""A clock that only goes forward."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.policy.forward import ForwardClock


def test_a_step_back_takes_no_time() -> None:
    clock = ForwardClock()
    assert [clock.at(now) for now in (100, 150, 50, 60, 60, 70)] == [100, 150, 150, 160, 160, 170]
    assert clock.inside_ns == 170
    assert clock.outside(180) == 80


@pytest.mark.slow
@given(st.lists(st.integers(0, 1000), min_size=1))
def test_time_is_the_sum_of_the_steps_forward(readings: list[int]) -> None:
    clock, inside = ForwardClock(), readings[0]
    assert clock.at(readings[0]) == inside
    for before, now in zip(readings, readings[1:], strict=False):
        inside += max(now - before, 0)
        assert clock.at(now) == inside
        assert clock.outside(inside) == now
