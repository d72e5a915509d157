"""The command line: every command is there, wrong usage is said, and errors become codes."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from runtime.profile.cli import main
from runtime.profile.cli.app import ProfileExit, parser
from runtime.profile.model import CPU, NANOSECONDS, Frame, Profile, StackSample

COMMANDS = "ps tree dump top cpu await flight leaks watch convert diff py-spy doctor serve".split()


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_has_help_and_a_function(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name, "--help"]) == ProfileExit.OK
    assert "exit codes: 0 success, or clean" in capsys.readouterr().out
    places = ["a.json", "b.json"] if name in ("convert", "diff") else []
    module, _, function = parser().parse_args([name, *places]).command.partition(":")
    assert callable(getattr(import_module(f"runtime.profile.cli.{module}"), function))


@pytest.mark.parametrize("argv", [[], ["nothing"], ["cpu", "-d", "0"], ["ps", "-n", "x"], ["cpu", "-o", "a.xyz"]])
def test_wrong_usage_is_code_2(argv: list[str]) -> None:
    assert main(argv) == ProfileExit.USAGE


def test_without_a_command_all_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == ProfileExit.USAGE
    said = capsys.readouterr().err
    assert [name for name in COMMANDS if f"    {name} " not in said] == []


def test_a_folder_that_nobody_has_open_is_code_5(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ps", str(tmp_path)]) in (ProfileExit.ENVIRONMENT, ProfileExit.USAGE)
    assert "[MS" in capsys.readouterr().err


def profile_of(*weights: int) -> Profile:
    made = Profile(CPU, NANOSECONDS, 1, 10**9, 99)
    for name, weight in zip(("parse", "render"), weights, strict=True):
        made.add(StackSample((Frame("main", "a.py", 1), Frame(name, "a.py", 2))), weight * 10**7, weight)
    return made


def test_files_are_converted_and_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before, after = tmp_path / "before.json", tmp_path / "after.json"
    before.write_bytes(profile_of(900, 100).to_json())
    after.write_bytes(profile_of(500, 500).to_json())
    assert main(["convert", str(before), str(tmp_path / "b.pb.gz")]) == ProfileExit.OK
    assert main(["convert", str(tmp_path / "b.pb.gz"), str(tmp_path / "b.folded")]) == ProfileExit.OK
    assert "render (a.py:2)" in (tmp_path / "b.folded").read_text()
    capsys.readouterr()
    assert main(["diff", str(tmp_path / "b.pb.gz"), str(after), "--fail"]) == ProfileExit.CHANGED
    shown = capsys.readouterr().out
    assert "grew" in shown
    assert "render" in shown
    assert main(["diff", str(before), str(before), "--fail"]) == ProfileExit.OK
    assert main(["diff", str(before), str(tmp_path / "none.json")]) == ProfileExit.ENVIRONMENT
    assert main(["convert", str(after), str(tmp_path / "c.html"), "-f", "nonsense"]) == ProfileExit.USAGE
