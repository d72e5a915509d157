"""Reports: both histories beside each other, and nothing that a name could do to a page."""

from __future__ import annotations

import json
from dataclasses import replace

from runtime.planning.figures import recorded_figures
from runtime.planning.report import TENANTS_SHOWN_MAX, PlanReport, page, text_lines
from tests.unit.planning.histories import History, node_type


def report(*tenants: str, fit: float | None = 0.99) -> PlanReport:
    history = History(node_type("<b>"))
    for tenant in tenants:
        no = history.tasks(0, 1, tenant=tenant, node_type="<b>")
        history.ran(no, 0, 0, 100)
    figures = recorded_figures(history.recording())
    return PlanReport("/state", ["workers 3"], figures, figures, fit, ["a <thing>"])


def test_text() -> None:
    lines = text_lines(report("a", "b"))
    assert "changed        workers 3" in lines
    assert "makespan       100 ms recorded, 100 ms simulated (+0.0%)" in lines
    assert "model          with nothing changed it takes 99.0% of what was recorded" in lines
    assert any(line.startswith("tenant") for line in lines)
    assert lines[-1] == "- a <thing>"
    assert not any(line.startswith(("tenant", "model")) for line in text_lines(report("a", fit=None)))


def test_what_comes_of_the_change_stands_beside_the_model() -> None:
    """The model's own error is no effect."""
    history = History(node_type(workers=20_000))
    history.ran(history.tasks(0, 1), 0, 0, 100)
    recorded = recorded_figures(history.recording())
    model = replace(recorded, makespan_ns=recorded.makespan_ns // 2)
    lines = text_lines(PlanReport("/state", ["workers 3"], recorded, model, 0.5, [], model))
    assert "effect         50.0 ms with nothing changed, 50.0 ms simulated (+0.0%)" in lines
    header = next(line for line in lines if line.startswith("class"))
    assert header.split()[2:6] == ["wait", "p50", "model", "→"]
    assert any("20,000" in line for line in lines), "slots are numbers to be read"
    assert not any(line.startswith("effect") for line in text_lines(report("a")))


def test_what_had_not_ended_is_said() -> None:
    recorded = report("a").recorded
    lines = text_lines(PlanReport("/state", [], recorded, replace(recorded, tasks=3), 2.0, []))
    assert (
        "tasks          1 recorded, 3 simulated; 2 of them had not ended in the log, and are simulated to their end"
        in lines
    )


def test_many_tenants_are_cut() -> None:
    lines = text_lines(report(*(f"t{number}" for number in range(TENANTS_SHOWN_MAX + 5))))
    assert any("and 5 more" in line for line in lines)


def test_a_page_shows_names_as_text() -> None:
    text = page(report("<script>alert(1)</script>", "ok")).decode()
    assert "<script" not in text
    assert "&lt;b&gt;" in text
    assert "a &lt;thing&gt;" in text
    assert "default-src 'none'" in text


def test_json() -> None:
    found = json.loads(json.dumps(report("a").to_json()))
    assert found["recorded"] == found["simulated"]
    assert (found["fit"], found["changes"]) == (0.99, ["workers 3"])
