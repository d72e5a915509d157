"""What the scenario reports, and what it refuses to report."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime.bench import polled
from runtime.bench.figures import BenchError
from runtime.bench.workloads import polling
from runtime.bench.workloads.base import Setup


class Table(polled.PolledTable):
    """Says what it is told to say."""

    def __init__(self, ended: list[polled.Ended]) -> None:
        self._ended = ended

    def ended(self, tenant: str) -> list[polled.Ended]:
        return self._ended


def tasks(*values: int) -> list[polled.Ended]:
    return [polled.Ended(value, value + 1, 1, 10, 20) for value in values]


def test_depths_follow_from_the_size() -> None:
    setup = Setup(tasks=100_000, workers=2, durability="os", folder=Path("."))
    assert polling._depths(setup) == [100, 5_000, 100_000]


def test_figures_of_each_depth_and_the_latencies_of_the_deepest() -> None:
    depths = [
        polling.Depth(waiting, [waiting * 1_000_000, 0], 1.0, waiting, 2_000_000_000, {"engine": 3_000}, 1)
        for waiting in (1, 10)
    ]
    sample = polling._together(depths)
    assert (sample.tasks, sample.p99_ns) == (10, 10_000_000)
    assert sample.extra["per_second_1"] == 0.5
    assert sample.extra["start_p99_ms_10"] == 10.0
    assert sample.extra["cpu_us_10"] == 0.3


def test_a_table_that_was_stopped_may_lack_what_its_workers_had() -> None:
    assert len(polling._checked(Table(tasks(0, 1, 3)), "t", 100, unfinished=1)) == 3
    with pytest.raises(BenchError, match="lost 2 of 5"):
        polling._checked(Table(tasks(0, 1, 4)), "t", 100, unfinished=1)


@pytest.mark.parametrize("wrong", [tasks(0, 2), tasks(0), [polled.Ended(0, 1, 1, 1, 2), polled.Ended(1, 2, 2, 1, 2)]])
def test_a_wrong_result_is_no_figure(wrong: list[polled.Ended]) -> None:
    with pytest.raises(BenchError):
        polling._checked(Table(wrong), "t", 2)
