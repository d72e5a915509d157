"""Commands as a shell sees them: output, errors and exit codes, without an engine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from actors.protocol import limits
from runtime.cli import app, main
from runtime.cli.exits import Exit
from runtime.storage.files import DiskFiles
from runtime.storage.folder import StateFolder
from runtime.storage.reader import read_log
from runtime.storage.wal import LogWriter


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A state folder with an empty log."""
    path = tmp_path / "state"
    with StateFolder.open(path) as opened:
        reader = read_log(opened.log, DiskFiles())
        list(reader)
        LogWriter(opened.log, DiskFiles(), reader.report()).close()
    return path


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([], "required: COMMAND"),
        (["frob"], "invalid choice: 'frob'"),
        (["run"], "required: FILE"),
        (["run", "x.py", "--workers", "0"], "must be 1 to 512"),
        (["run", "x.py", "--workers", "two"], "'two' is not a number"),
        (["run", "x.json", "--scale", "-1"], "must be 0 or more"),
        (["run", "x.json", "--scale", "nan"], "must be 0 or more"),
        (["run", "x.json", "--durability", "maybe"], "invalid choice"),
    ],
)
def test_wrong_usage_is_exit_code_2(argv: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(argv) == Exit.USAGE
    assert message in capsys.readouterr().err


def test_help_tells_the_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == Exit.OK
    text = " ".join(capsys.readouterr().out.split())
    assert "130 interrupted" in text
    assert all(command in text for command in ("run", "status", "verify"))


@pytest.mark.parametrize("command", ["status", "verify"])
def test_help_tells_what_a_folder_keeps(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--help"]) == Exit.OK
    text = " ".join(capsys.readouterr().out.split())
    assert f"{limits.BYTES_FINISHED_MAX // 2**20} MiB of arguments and results" in text


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == Exit.OK
    assert capsys.readouterr().out.startswith("mainspring ")


@pytest.mark.parametrize(
    ("argv", "code", "message"),
    [
        (["run", "none.py"], Exit.USAGE, "none.py: no such file"),
        (["run", "none.json"], Exit.USAGE, "none.json: no such file"),
        (["run", "none"], Exit.USAGE, "none: no such file"),
        (["run", "."], Exit.USAGE, "a folder, not a file"),
        (["run", "text"], Exit.USAGE, "neither a Python file (.py) nor a JSON object"),
        (["run", "bad.json"], Exit.USAGE, "bad.json: line 1 column 2: not JSON"),
        (["run", "empty.py"], Exit.USAGE, "defines neither `flow`"),
        (["run", "empty.py", "--burn"], Exit.USAGE, "[MS101] --scale and --burn are for recorded workflows"),
        (["run", "empty.py", "--report", "none/x.html"], Exit.ENVIRONMENT, "does not exist"),
        (["verify", "none"], Exit.ENVIRONMENT, "it does not exist"),
        (["verify", "."], Exit.ENVIRONMENT, "is not empty and has no mainspring.json"),
    ],
)
def test_errors_are_two_lines_at_most(
    argv: list[str],
    code: Exit,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in {"text": "words", "bad.json": "{", "empty.py": ""}.items():
        (tmp_path / name).write_text(text)
    assert main(argv) == code
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.err.startswith("mainspring: [MS")
    assert len(captured.err.splitlines()) <= 2
    assert captured.out == ""


def test_a_bug_is_reported_without_our_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("unexpected")

    monkeypatch.setattr("runtime.cli.verify.verify", broken)
    assert main(["verify", str(folder)]) == Exit.BUG
    error = capsys.readouterr().err
    assert "[MS900] RuntimeError: unexpected" in error
    assert "Traceback" not in error
    Path(error.split("details are in ")[1].strip()).unlink()


def test_ctrl_c_anywhere_is_130(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("runtime.cli.verify.verify", interrupted)
    assert main(["verify", str(folder)]) == Exit.INTERRUPTED
    assert capsys.readouterr().err == "mainspring: interrupted\n"


def test_verify_in_words_and_as_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(folder)]) == Exit.OK
    text = capsys.readouterr().out
    assert str(folder) in text
    assert text.endswith("sound: opens as it is\n")
    assert main(["verify", str(folder), "--json"]) == Exit.OK
    found = json.loads(capsys.readouterr().out)
    assert found["sound"] is True
    assert found["path"] == str(folder)


def test_every_option_is_explained() -> None:
    text = app.parser().format_help()
    assert "WfFormat" in text
