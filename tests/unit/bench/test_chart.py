"""Charts, and the slope of what they show."""

from __future__ import annotations

from random import Random

import pytest

from runtime.bench.chart import BLOCKS, chart, slope_of


def noisy(per_step: float, count: int = 400) -> list[float]:
    draw = Random(3)
    return [100 + per_step * at + draw.gauss(0, 5) + 20 * (at % 25) / 25 for at in range(count)]


def test_what_stays_is_flat_and_what_grows_is_not() -> None:
    times = [at / 10 for at in range(400)]
    assert slope_of(times, noisy(0)).flat
    grows = slope_of(times, noisy(0.2))
    assert not grows.flat
    assert grows.per_second == pytest.approx(2.0, abs=0.5)
    assert not slope_of(times, noisy(-0.2)).flat


def test_as_few_readings_as_there_are_stretches_will_do() -> None:
    times = [float(at) for at in range(BLOCKS)]
    assert slope_of(times, [7.0] * BLOCKS) == (0.0, 0.0)


def test_a_chart_has_the_shape_of_its_values() -> None:
    assert chart([0, 1, 2, 4], height=2) == ["   █", " ▄██"]
    rows = chart([float(at) for at in range(1000)], width=10, height=3)
    assert len(rows) == 3
    assert max(map(len, rows)) == 10
    assert chart([0.0, 0.0], height=1) == [""]
