"""The search for the minimum effective task granularity, on made-up machines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from runtime.bench.figures import BenchError, Sample
from runtime.bench.workloads import metg
from runtime.bench.workloads.base import Setup


def overhead(overhead_ns: float) -> Callable[[int], float]:
    """A machine on which every task costs this much besides its work."""
    return lambda duration_ns: duration_ns / (duration_ns + overhead_ns)


@pytest.mark.parametrize("overhead_ns", [1_500, 5_000, 15_999, 16_001, 120_000, 3_000_000])
def test_half_is_useful_where_work_equals_overhead(overhead_ns: int) -> None:
    found = metg.shortest_effective(overhead(overhead_ns), 1.05)
    assert found.efficiency >= metg.TARGET
    assert overhead_ns <= found.duration_ns <= overhead_ns * 1.06


def test_the_result_was_measured() -> None:
    asked: list[int] = []

    def efficiency(duration_ns: int) -> float:
        asked.append(duration_ns)
        return overhead(7_000)(duration_ns)

    found = metg.shortest_effective(efficiency, 1.1)
    assert found.duration_ns in asked
    assert len(asked) < 10


def test_a_machine_without_overhead_ends_at_the_shortest() -> None:
    assert metg.shortest_effective(lambda duration_ns: 1.0, 1.1).duration_ns == metg.SHORTEST_NS


def test_a_machine_that_wastes_everything_ends_at_the_longest() -> None:
    assert metg.shortest_effective(lambda duration_ns: 0.1, 1.1) == (metg.LONGEST_NS, 0.1)


def test_a_busy_machine_is_an_error_unless_only_the_smoke_counts(tmp_path: Path) -> None:
    def probe(duration_ns: int) -> Sample:
        return Sample(tasks=1, elapsed_ns=duration_ns * 100)

    setup = Setup(tasks=640, workers=1, durability="os", folder=tmp_path)
    with pytest.raises(BenchError, match="get 1% of the core time"):
        metg._search(setup, probe)
    sample = metg._search(replace(setup, smoke=True), probe)
    assert sample.extra["metg_us"] == metg.LONGEST_SMOKE_NS / 1e3
