"""What the scenario says of figures and limits; that it runs is shown by the smoke test of all."""

from __future__ import annotations

import time
from pathlib import Path

from runtime.bench.figures import Sample, ScenarioResult
from runtime.bench.limits import Limit, table
from runtime.bench.paired import Interval
from runtime.bench.profile_handlers import Pauses, ledger_cost
from runtime.bench.workloads.base import Setup
from runtime.bench.workloads.profile_cost import CostSizes, ProfileCostScenario


def test_there_are_as_many_pairs_as_are_asked_for() -> None:
    """PROFILER.md 4.6: at least 30 of them."""
    setup = Setup(tasks=1, workers=1, durability=None, folder=Path("."))
    assert CostSizes.of(setup).pairs >= 30
    assert ProfileCostScenario().params(setup)["pairs"] >= 30


def test_a_figure_stands_beside_what_it_may_be() -> None:
    limits = [
        Limit("CPU", Interval(0.4, -0.1, 0.9), 1.0, "%"),
        Limit("p99", Interval(1.0, -3.0, 5.0), 2.0, "%"),
        Limit("pause", Interval(4.0, 4.0, 4.0), 2.0, "ms"),
    ]
    head, *rows, last = table(limits)
    assert "asked" in head
    assert [row.split()[-1] for row in rows] == ["kept", "sure", "missed"]
    assert "-0.1 to 0.9" in rows[0]
    assert " to " not in rows[2]
    assert last.strip() == "1 of 3 kept"


def test_a_limit_is_missed_when_all_samples_say_so() -> None:
    def result(*missed: list[str]) -> ScenarioResult:
        return ScenarioResult("s", {}, None, tuple(Sample(1, 1, missed=names) for names in missed))

    assert result(["a", "b"], ["b"]).missed == ["b"]
    assert result(["a"], []).missed == []
    assert result().missed == []
    assert result(["a"]).to_json()["missed"] == ["a"]
    assert "missed" not in result([]).to_json()


def test_a_pause_is_what_the_process_itself_does() -> None:
    pauses = Pauses()
    until = time.thread_time_ns() + 20_000_000
    while time.thread_time_ns() < until:
        pass
    pauses.step()
    wall_ns, own_ns = pauses.longest()
    assert 10_000_000 <= own_ns <= wall_ns
    assert pauses.longest() == [wall_ns, own_ns]


def test_without_a_gap_there_is_no_pause() -> None:
    pauses = Pauses()
    for _ in range(100):
        pauses.step()
    wall_ns, own_ns = pauses.longest()
    assert 0 < own_ns <= wall_ns


def test_the_cost_of_an_entry_is_measured() -> None:
    found = ledger_cost(500)
    assert found["pair_ns"] > 0
    assert 50 < found["entry_bytes"] < 1_000
