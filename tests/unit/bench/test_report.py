"""Reports: every line says parameters and durability; the table keeps its columns."""

from __future__ import annotations

from pathlib import Path

from runtime.bench import machine, report
from runtime.bench.figures import Sample, ScenarioResult

OURS = Sample(100_000, 500_000_000, {"face": 10**8, "engine": 3 * 10**8}, 90_000_000, extra={"bytes_per_task": 151.2})
THEIRS = Sample(20_000, 1_000_000_000, {"face": 10**9, "workers": 10**8}, 60_000_000, extra={"bytes_per_task": 2100.0})


def result(*, against: bool) -> ScenarioResult:
    ours = ScenarioResult("dag", {"workers": 2, "layers": 1000}, "fsync", (OURS,))
    if not against:
        return ours
    return ScenarioResult("dag", ours.params, "fsync", (OURS,), "a pool", {"workers": 2}, (THEIRS,))


def test_a_line_says_parameters_and_durability() -> None:
    line, details = report.lines(result(against=False))
    for text in ("dag", "100,000", "0.5", "200,000", "fsync", "workers=2", "layers=1,000", "90"):
        assert text in line
    assert "face 1, engine 3" in details
    assert "bytes_per_task 151.2" in details


def test_the_baseline_stands_below_with_the_ratio() -> None:
    lines = report.lines(result(against=True))
    assert "none" in lines[2]
    assert "a pool: workers=2" in lines[2]
    assert "ratio 10 (10 to 10) over 1 pair; above 1 = we are faster" in lines[4]


def test_columns_stand_below_their_heads() -> None:
    head, line = report.header(), report.lines(result(against=False))[0]
    assert head.index("parameters") == line.index("workers=2")


def test_a_failure_is_one_clear_line() -> None:
    lines = report.lines(ScenarioResult("dag", {"workers": 2}, "fsync", error="BenchError: result 3 is wrong"))
    assert "failed: BenchError: result 3 is wrong" in lines[0]
    assert "workers=2 durability=fsync" in lines[1]


def test_the_machine_in_one_line(tmp_path: Path) -> None:
    line = report.machine_line(machine.facts(tmp_path))
    assert "cores" in line
    assert "\n" not in line


def test_the_document_is_one_object() -> None:
    document = report.document("1.2.3", {"cores": 2}, [result(against=True)])
    assert list(document) == ["version", "machine", "results"]
    assert document["results"][0]["scenario"] == "dag"
    assert document["results"][0]["bytes_per_task"] == 151.2
