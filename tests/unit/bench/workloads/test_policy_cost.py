"""The queue alone, as the scenario takes from it."""

from __future__ import annotations

from pathlib import Path

from runtime.bench.workloads import policy_cost
from runtime.bench.workloads.base import Setup


def test_taking_from_the_queue_loses_nothing_and_takes_time(tmp_path: Path) -> None:
    setup = Setup(tasks=1, workers=1, durability=None, folder=tmp_path, smoke=True)
    assert policy_cost.pop_ns(policy_cost.FEW, setup) > 0
