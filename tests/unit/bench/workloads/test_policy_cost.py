"""What the scenario reports of the queue alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime.bench.workloads import policy_cost
from runtime.bench.workloads.base import Setup


def test_the_queue_is_measured_and_loses_nothing() -> None:
    setup = Setup(tasks=10, workers=1, durability="none", folder=Path("."), smoke=True)
    figures = policy_cost.pop_figures(2_000, setup)
    assert list(figures) == ["pop_1k_us", "pop_2k_us", "pop_ratio", "pop_one_1k_us", "pop_one_2k_us", "pop_one_ratio"]
    assert all(figure > 0 for figure in figures.values())
    assert figures["pop_ratio"] == pytest.approx(figures["pop_2k_us"] / figures["pop_1k_us"])
