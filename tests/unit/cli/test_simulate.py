"""`simulate` as a command: its options, and what it says it does not know."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from runtime.cli import main
from runtime.cli.exits import Exit
from tests.unit.planning.histories import History, node_type
from tests.unit.storage.test_history import folder_of


@pytest.fixture
def state(tmp_path: Path) -> Path:
    history = History(node_type(workers=2), told=False)
    no = history.tasks(0, 6, rate_key="api", tenant="a", priority="low")
    for node in range(5):
        history.ran(no, node, 0.1 * node, 0.1)
    history.open(1000)
    return folder_of(tmp_path / "state", history.records)


def test_all_options_reach_the_setting(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--workers", "3", "--prefetch", "default=0", "--quota", "low=2", "--weight", "a=2", "--rate", "api=10:2"]
    assert main(["simulate", str(state), *options, "--share", "low=0.1:0.5", "--json"]) == Exit.OK
    found = json.loads(capsys.readouterr().out)
    assert found["changes"] == [
        "workers 3",
        "prefetch 0 of default",
        "share of low [0.1, 0.5]",
        "weight of a 2",
        "quota of class:low 2",
        "rate of api [10, 2]",
    ]
    assert found["simulated"]["makespan_ns"] > 390_000_000, "ten a second"


def test_what_it_cannot_know_is_said(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", str(state)]) == Exit.OK
    text = capsys.readouterr().out
    for part in ("how long 1 task would have taken", "how many workers 'default' had", "in which no engine ran"):
        assert part in text
    assert "tasks are short" in text
    assert "would find cores" not in text
    assert main(["simulate", str(state), "--workers", "7"]) == Exit.OK
    assert "whether 7 workers would find cores, memory and what else they share, as 1 did" in capsys.readouterr().out


@pytest.mark.parametrize("option", ["--quota=low=", "--rate=api=1:2:3", "--weight=a=1:2", "--workers=-1", "--share=x"])
def test_what_is_malformed_is_refused(state: Path, option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", str(state), option]) == Exit.USAGE
    assert "[MS101]" in capsys.readouterr().err
