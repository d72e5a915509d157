"""Archived runs on the command line: their story is shown, and what does not look at the archive names what does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from runtime import export_runs
from runtime.cli import main
from runtime.cli.exits import Exit
from runtime.errors import UnknownRun
from tests.scenarios.test_log_archive import a_flow, opened, until_archived

pytestmark = pytest.mark.slow


@pytest.fixture
def state(state_dir: Path) -> Path:
    """A folder whose run "mine" is in the archive only."""
    with opened(state_dir) as rt:
        rt.submit(a_flow(), run_id="mine").wait(30)
        until_archived(rt, "mine")
    return state_dir


def test_an_archived_run_is_pointed_to_and_its_story_shown(
    state: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["replay", str(state), "--run", "mine"]) == Exit.OK
    shown = capsys.readouterr()
    assert "in the archive only" in shown.err
    assert "submitted" in shown.out
    assert shown.out.count("attempt 1 in process") == 2, "the end of each node"
    assert main(["replay", str(state), "--run", "mine", "--json"]) == Exit.OK
    found = json.loads(capsys.readouterr().out)
    assert found["archived"]
    last = str(found["log"]["last_lsn"])
    assert main(["replay", str(state), "--run", "mine", "--until", last]) == Exit.USAGE
    assert "leave --until and --diff out" in capsys.readouterr().err
    assert main(["export", str(state), "--run", "mine"]) == Exit.USAGE
    assert "--archived" in capsys.readouterr().err
    assert main(["events", str(state), "--run", "mine", "--since", last]) == Exit.OK
    assert f"replay {state} --run mine" in capsys.readouterr().err
    with pytest.raises(UnknownRun, match="archived=True"), (tmp_path / "out").open("wb") as out:
        export_runs(state, out, ["mine"])
    for command in ("replay", "export"):
        assert main([command, str(state), "--run", "nix"]) == Exit.USAGE
        assert "no run 'nix'" in capsys.readouterr().err
    assert main(["events", str(state), "--run", "nix"]) == Exit.OK
    assert "no such event" in capsys.readouterr().err
