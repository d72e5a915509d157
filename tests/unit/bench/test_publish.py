"""Tables of scenarios in documents."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime.bench.figures import BenchError, Sample, ScenarioResult
from runtime.bench.publish import publish

PLACE = "before\n<!-- compress: begin -->\nold\n<!-- compress: end -->\nafter\n"


def result(name: str = "compress", error: str = "") -> ScenarioResult:
    return ScenarioResult(name, {}, None, (Sample(1, 1, lines=("| a |", "|---|")),), error=error)


def test_the_table_stands_in_its_place_again_and_again(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text(PLACE)
    publish(path, result(), "a machine")
    once = path.read_text()
    assert "old" not in once
    assert once.startswith("before\n<!-- compress: begin -->\nPrinted by `python -m runtime.bench compress`")
    assert once.endswith("| a |\n|---|\n<!-- compress: end -->\nafter\n")
    publish(path, result(), "a machine")
    assert path.read_text() == once
    assert [each.name for each in tmp_path.iterdir()] == ["page.md"]


@pytest.mark.parametrize("nothing", [result(error="it failed"), result("soak")])
def test_what_failed_or_has_no_place_changes_nothing(tmp_path: Path, nothing: ScenarioResult) -> None:
    path = tmp_path / "page.md"
    path.write_text(PLACE)
    publish(path, nothing, "a machine")
    assert path.read_text() == PLACE


def test_a_place_without_an_end_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text("<!-- compress: begin -->")
    with pytest.raises(BenchError, match="no <!-- compress: end -->"):
        publish(path, result(), "a machine")
