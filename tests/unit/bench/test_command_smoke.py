"""Every scenario in its smallest size through the command line, with its baseline and its JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from runtime.bench import command
from runtime.bench.catalogue import SCENARIOS
from runtime.bench.workloads.base import Scenario

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_smoke(scenario: Scenario, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name, baseline = scenario.name, scenario.baseline_name
    target = tmp_path / "out.json"
    code = command.main([name, "--smoke", "--against", "--repeat", "1", "--workers", "2", "--json", str(target)])
    (row,) = json.loads(target.read_text())["results"]
    assert code == 0, row
    assert row["scenario"] == name
    assert row["seconds"] > 0
    assert (row["ratio"] is None) == (baseline is None)
    assert name in capsys.readouterr().out
