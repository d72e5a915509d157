"""Figures: medians over samples, ratios over neighbouring pairs, and the JSON that comes out."""

from __future__ import annotations

import json

import pytest

from runtime.bench.figures import Ratio, Sample, ScenarioResult, figures_of


def sample(elapsed_ns: int, tasks: int = 10, **more: float) -> Sample:
    return Sample(tasks, elapsed_ns, {"face": 1000, "workers": 3000}, 5_000_000, extra=more)


def test_figures_are_medians_each_by_itself() -> None:
    figures = figures_of([sample(3_000, depth=1.0), sample(1_000, depth=9.0), sample(2_000, depth=5.0)])
    assert figures["tasks"] == 10
    assert figures["seconds"] == 2e-6
    assert figures["tasks_per_second"] == 5e6
    assert figures["cpu_us_per_task"] == {"face": 0.1, "workers": 0.3, "total": 0.4}
    assert figures["rss_bytes"] == 5_000_000
    assert figures["p50_us"] is None
    assert figures["depth"] == 5.0


def test_latencies_become_microseconds() -> None:
    figures = figures_of([Sample(1, 1000, p50_ns=40_000, p99_ns=90_000)])
    assert (figures["p50_us"], figures["p99_us"]) == (40.0, 90.0)


def test_a_ratio_above_one_means_we_are_faster() -> None:
    ratio = Ratio.of([sample(10), sample(20)], [sample(30), sample(20)], lambda s: s.ns_per_task)
    assert ratio == Ratio(2.0, 1.0, 3.0)


def test_no_ratio_without_the_figure_on_both_sides() -> None:
    timed = Sample(1, 10, p50_ns=5.0)
    assert Ratio.of([timed], [sample(10)], lambda s: s.p50_ns) is None
    assert Ratio.of([], [], lambda s: s.ns_per_task) is None


def test_sides_of_different_length_are_a_mistake() -> None:
    with pytest.raises(ValueError):
        Ratio.of([sample(1)], [], lambda s: s.ns_per_task)


def test_json_has_what_reports_are_promised() -> None:
    ours, theirs = Sample(4, 100, p50_ns=10.0, p99_ns=20.0), Sample(4, 300, p50_ns=40.0, p99_ns=20.0)
    result = ScenarioResult("chain", {"workers": 2}, "fsync", (ours,), "pool", {"workers": 2}, (theirs,))
    row = result.to_json()
    assert json.loads(json.dumps(row)) == row
    for name in ("scenario", "params", "tasks", "seconds", "tasks_per_second", "p50_us", "p99_us"):
        assert row[name] is not None
    assert row["durability"] == "fsync"
    assert row["baseline"]["name"] == "pool"
    assert row["baseline"]["durability"] == "none"
    assert (row["ratio"], row["ratio_p50"], row["ratio_p99"]) == (3.0, 4.0, 1.0)
    assert row["ratio_spread"] == [3.0, 3.0]


def test_without_a_baseline_there_is_no_ratio() -> None:
    row = ScenarioResult("chain", {}, "os", (sample(10),)).to_json()
    assert row["baseline"] is None
    assert row["ratio"] is None
    assert "ratio_p50" not in row


def test_a_failed_scenario_has_an_error_and_no_figures() -> None:
    row = ScenarioResult("chain", {}, "os", error="BenchError: wrong").to_json()
    assert row == {"scenario": "chain", "params": {}, "durability": "os", "error": "BenchError: wrong"}
