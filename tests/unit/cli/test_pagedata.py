"""The data of the page: lanes without overlap, bounds kept, groups that add up."""

from __future__ import annotations

import pytest

from runtime.cli import pagedata
from runtime.cli.pagedata import page_data
from runtime.cli.report import analyse
from tests.unit.cli.traces import diamond, layers, trace_of


def test_bars_of_one_lane_do_not_overlap() -> None:
    trace = layers(6, 30)
    trace.pids = [7] * len(trace)
    data = page_data(trace, analyse(trace))
    assert data["workers"]["pids"] == [7]
    assert data["workers"]["lanes"] == [4]
    rows: dict[int, list[tuple[float, float]]] = {}
    for lane, start, length in zip(
        data["workers"]["lane"], data["nodes"]["start"], data["nodes"]["length"], strict=True
    ):
        rows.setdefault(lane, []).append((start, start + length))
    for spans in rows.values():
        spans.sort()
        assert all(end <= start for (_, end), (start, _) in zip(spans, spans[1:], strict=False))


def test_nodes_that_follow_each_other_do_not_overlap_by_rounding() -> None:
    trace = trace_of([[row - 1] if row else [] for row in range(200)], [1] * 200, 1)
    ends = [trace.starts[0] + 333 * (row + 1) + row % 7 for row in range(200)]
    trace.starts, trace.ends = [trace.starts[0], *ends[:-1]], ends
    nodes = page_data(trace, analyse(trace))["nodes"]
    ended = [round((start + length) * 10) for start, length in zip(nodes["start"], nodes["length"], strict=True)]
    assert ended[:-1] == [round(start * 10) for start in nodes["start"][1:]]


def test_groups_count_every_node_and_edge() -> None:
    trace = layers(6, 30)
    data = page_data(trace, analyse(trace))
    assert sum(data["grouped"]["count"]) == 180
    assert sum(times for _, _, times in data["grouped"]["edges"]) == 5 * 30 * 3
    assert data["whole"]
    assert data["nodes"]["offsets"][-1] == len(data["nodes"]["parents"]) == 450


def test_many_levels_are_merged() -> None:
    trace = trace_of([[row - 1] if row else [] for row in range(300)], [1] * 300, 1)
    grouped = page_data(trace, analyse(trace))["grouped"]
    assert grouped["merged"]
    assert len(grouped["count"]) == pagedata.LEVELS_GROUPED_MAX
    assert sum(grouped["count"]) == 300


def test_a_large_run_is_cut_to_what_is_notable(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"GRAPH_NODES_MAX": 50, "BARS_MAX": 100, "NOTABLE_MAX": 40, "LOAD_BINS": 10}.items():
        monkeypatch.setattr(pagedata, name, value)
    trace = layers(10, 20)
    trace.states[77], trace.attempts[99] = "failed", 3
    figures = analyse(trace)
    data = page_data(trace, figures)
    assert not data["whole"]
    assert data["graph"] is None
    assert data["total"] == 200
    assert len(data["nodes"]["id"]) == 40
    assert {"77", "99"} <= set(data["nodes"]["id"])
    assert len(data["path"]) == len(figures.path)
    assert len(data["load"]) == 10
    busy = sum(data["load"]) / 10 * -(-figures.makespan_ns // 10) * 10
    assert busy == pytest.approx(figures.work_ns, rel=0.01)
    assert sum(data["grouped"]["count"]) == 200


def test_nodes_that_did_not_run_have_no_bar() -> None:
    trace = diamond()
    trace.states[3], trace.starts[3], trace.ends[3] = "cancelled", 0, 0
    data = page_data(trace, analyse(trace))
    assert data["nodes"]["start"][3] == -1
    assert data["workers"]["of"][3] == -1
