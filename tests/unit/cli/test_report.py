"""Figures of a run against small cases that can be worked out by hand, and against a slow oracle."""

from __future__ import annotations

from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.cli.report import align, analyse, critical_path, duration_text, percentile, text_report, time_text
from runtime.cli.trace import Trace
from tests.unit.cli.traces import MS, diamond, layers, trace_of


def test_figures_of_a_diamond_on_two_slots() -> None:
    figures = analyse(diamond())
    assert figures.makespan_ns == 35 * MS
    assert figures.path == (0, 1, 3)
    assert figures.path_ns == 35 * MS
    assert figures.work_ns == 45 * MS
    assert figures.bound_ns == 35 * MS
    assert figures.efficiency == 1.0
    assert figures.peak == 2
    assert figures.waits == (0, 0, 0, 0)
    assert [(group.name, group.nodes, group.work_ns) for group in figures.groups] == [
        ("y", 2, 30 * MS),
        ("x", 2, 15 * MS),
    ]


def test_with_one_slot_the_work_is_the_bound() -> None:
    figures = analyse(diamond(slots=1))
    assert figures.makespan_ns == figures.bound_ns == 45 * MS
    assert figures.peak == 1
    assert max(figures.waits) == 20 * MS


def test_nodes_that_did_not_run_count_nothing() -> None:
    trace = diamond()
    trace.states[3], trace.starts[3], trace.ends[3], trace.attempts[3] = "skipped", 0, 0, 0
    figures = analyse(trace)
    assert figures.makespan_ns == 30 * MS
    assert figures.counts == {"succeeded": 3, "skipped": 1}
    assert figures.waits[3] == -1


def test_a_run_of_nothing_has_figures() -> None:
    for trace in (Trace("t", "r", "succeeded", "os", 1, 1), trace_of([[]], [0], 1)):
        figures = analyse(trace)
        assert (figures.makespan_ns, figures.efficiency) == (0, 1.0)
        assert text_report(trace, figures)


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    size = draw(st.integers(1, 9))
    parents = [draw(st.lists(st.integers(0, row - 1), max_size=3, unique=True)) if row else [] for row in range(size)]
    durations = draw(st.lists(st.integers(0, 9), min_size=size, max_size=size))
    return trace_of(parents, durations, draw(st.integers(1, 3)))


@given(traces())
def test_critical_path_is_the_heaviest_of_all_paths(trace: Trace) -> None:
    def heaviest(row: int) -> int:
        return trace.duration(row) + max(map(heaviest, trace.parents[row]), default=0)

    path, total = critical_path(trace)
    assert total == max(map(heaviest, range(len(trace)))) == sum(map(trace.duration, path))
    assert all(before in trace.parents[after] for before, after in zip(path, path[1:], strict=False))
    figures = analyse(trace)
    assert figures.bound_ns <= figures.makespan_ns
    assert figures.makespan_ns <= figures.bound_ns * 2 + figures.path_ns


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0 ns"),
        (999, "999 ns"),
        (1_500, "1.50 µs"),
        (9_996_000, "10.0 ms"),
        (12_300_000, "12.3 ms"),
        (999_499_999, "999 ms"),
        (999_600_000, "1.00 s"),
        (1_000_000_000, "1.00 s"),
        (99_400_000_000, "99.4 s"),
        (99_960_000_000, "1 min 40 s"),
        (100_000_000_000, "1 min 40 s"),
        (7_260_000_000_000, "2 h 01 min"),
    ],
)
def test_durations_are_short_to_read(ns: int, text: str) -> None:
    assert duration_text(ns) == text


def test_percentiles_are_nearest_rank() -> None:
    values = list(range(1, 101))
    assert [percentile(values, p) for p in (1, 50, 95, 100)] == [1, 50, 95, 100]
    assert percentile([7], 50) == 7
    assert percentile([], 50) == 0


def test_text_names_what_the_issue_asks_for() -> None:
    text = "\n".join(text_report(diamond(), analyse(diamond())))
    for part in ("made-up", "35.0 ms", "a → b → d", "100.0%", "lower bound", "fsync", "p50", "p95", "max", "node type"):
        assert part in text


def test_failures_are_listed_and_long_lists_are_cut() -> None:
    trace = trace_of([[]] * 60, [1] * 60, 4, groups=[f"g{row}" for row in range(60)], failed=range(10))
    lines = text_report(trace, analyse(trace))
    assert "  g0 0: ValueError: node 0" in lines
    assert "  … and 5 more" in lines
    assert "… and 20 more" in lines


def test_a_long_path_is_cut_in_the_middle() -> None:
    trace = trace_of([[row - 1] if row else [] for row in range(40)], [1] * 40, 1)
    assert any("… 28 more …" in line for line in text_report(trace, analyse(trace)))


def test_columns_are_aligned() -> None:
    assert align([("a", "b"), ("long", "10")]) == ["a      b", "long  10"]


def test_larger_runs_are_analysed() -> None:
    figures = analyse(layers(10, 40))
    assert sum(group.nodes for group in figures.groups) == 400
    assert figures.peak == 4


def test_node_types_are_told_apart_from_tasks_where_there_are_several() -> None:
    trace = diamond()
    trace.pools = {"x": "cpu", "y": "http"}
    figures = analyse(trace)
    assert [(pool.name, pool.nodes) for pool in figures.pools] == [("http", 2), ("cpu", 2)]
    text = text_report(trace, figures)
    assert any(line.startswith("node type") for line in text)
    assert any(line.startswith("task ") for line in text)


def test_the_first_failure_is_shown_with_its_traceback() -> None:
    trace = trace_of([[]] * 2, [1] * 2, 1, failed=[0, 1])
    frames = "\n".join(f"  line {number}" for number in range(30))
    trace.errors[0] = f"ValueError: no\nTraceback (most recent call last):\n{frames}\nValueError: no"
    lines = text_report(trace, analyse(trace))
    assert lines[-1] == "  ValueError: no"
    assert lines[-2] == "    line 29"
    assert "the first, task 0:" in lines
    assert len(lines) < 45


def test_a_time_is_told_in_the_zone_of_the_machine() -> None:
    when = datetime(2026, 11, 29, 21, 44, 12)
    assert time_text(int(when.timestamp()) * 1_000_000_000) == "2026-11-29 21:44:12"
    assert time_text(None) == "–"
