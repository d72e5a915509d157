"""`replay` as a command: moments, stories and differences, from a folder that no engine has open."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from runtime.cli import main
from runtime.cli.exits import Exit
from tests.unit.storage.test_history import busy_log, folder_of


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return folder_of(tmp_path / "state", busy_log())


def test_the_state_of_now(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", str(state)]) == Exit.OK
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "log            LSN 1 to 7"
    assert lines[2].startswith("as of          LSN 7, 2001-09-09 ")
    assert lines[3].endswith("; folding the log twice gives the same")
    assert lines[4] == "runs           0 unfinished, 1 finished"
    assert lines[-1].split()[:5] == ["s-1", "graph", "succeeded", "4", "4"]


def test_an_earlier_moment_of_one_run_with_its_story(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", str(state), "--run", "s-1", "--until", "3"]) == Exit.OK
    lines = capsys.readouterr().out.splitlines()
    assert "as of          LSN 3" in lines[2]
    story = lines[lines.index("") :]
    assert any("submitted" in line for line in story)
    assert sum("succeeded" in line for line in story) == 1, "the first node, and not what came later"
    assert main(["replay", str(state), "--run", "s-1", "--limit", "2"]) == Exit.OK
    assert capsys.readouterr().out.splitlines()[-1] == "… and 4 more; --limit shows them"


def test_the_first_moment_there_is(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", str(state), "--until", "begin"]) == Exit.OK
    assert "as of          LSN 1" in capsys.readouterr().out.splitlines()[2]


def test_a_difference(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", str(state), "--until", "2", "--diff"]) == Exit.OK
    lines = capsys.readouterr().out.splitlines()
    assert "~ s-1: running to succeeded, 3 nodes pending to succeeded, 1 node ready to succeeded" in lines
    assert '~ weights: {} to {"acme": 2.0}' in lines
    assert main(["replay", str(state), "--until", "1", "--diff", "2", "--json"]) == Exit.OK
    found = json.loads(capsys.readouterr().out)
    assert found["diff"]["came"] == ["s-1"]
    assert (found["diff"]["from"]["lsn"], found["diff"]["to"]["lsn"]) == (1, 2)
    assert main(["replay", str(state), "--until", "2", "--diff", "2"]) == Exit.OK
    assert capsys.readouterr().out.splitlines()[-1] == "nothing is different"


def test_one_run_as_json(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", str(state), "--run", "s-1", "--json"]) == Exit.OK
    found = json.loads(capsys.readouterr().out)
    (run,) = found["runs"]
    assert (run["run_id"], run["counts"]["succeeded"], run["nodes"]) == ("s-1", 4, 4)
    assert [event["event"] for event in found["story"]].count("succeeded") == 4
    assert found["folded_twice"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--until", "yesterday"], "neither an LSN, an age"),
        (["--until", "2999-01-01"], "has not come; the log ends with LSN 7"),
        (["--until", "99"], "beyond the end of the log, which is LSN 7"),
        (["--until", "1h", "--diff", "0"], "before the log begins"),
        (["--run", "nix"], "no run 'nix' was known"),
        (["--diff"], "name one by --until"),
        (["--all", "--until", "3"], "say redrive"),
    ],
)
def test_what_cannot_be_shown_is_said(
    state: Path, options: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["replay", str(state), *options]) == Exit.USAGE
    assert words in capsys.readouterr().err


def test_letters_are_redriven_by_either_name(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in (["redrive", str(state), "--all"], ["replay", str(state), "--all"], ["replay", str(state), "s-1/0"]):
        assert main(command) == Exit.ENVIRONMENT
        assert "no engine runs" in capsys.readouterr().err
    assert main(["redrive", str(state)]) == Exit.USAGE, "nothing is named"
