"""`reshard`: what it says, and how it is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from runtime.cli import main
from runtime.cli.reshard import reshard_lines
from runtime.storage.folder import StateFolder
from runtime.storage.reshard import ReshardReport


def test_a_log_is_moved_and_it_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    StateFolder.open(tmp_path).close()
    assert main(["reshard", str(tmp_path), "3"]) == 0
    assert capsys.readouterr().out.endswith("0 records in 144 bytes moved from 1 to 3 shards\n")
    assert main(["reshard", str(tmp_path), "3"]) == 0
    assert "lies in 3 shards already" in capsys.readouterr().out
    assert main(["reshard", str(tmp_path), "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["shards"] == 1


@pytest.mark.parametrize(("number", "code"), [("0", 2), ("65", 2)])
def test_a_wrong_number_is_wrong_usage(
    number: str, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    StateFolder.open(tmp_path).close()
    assert main(["reshard", str(tmp_path), number]) == code
    assert "shards" in capsys.readouterr().err


def test_a_folder_that_is_open_or_none_is_of_the_environment(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["reshard", str(tmp_path / "none"), "2"]) == 3
    with StateFolder.open(tmp_path):
        assert main(["reshard", str(tmp_path), "2"]) == 3
    assert "in use" in capsys.readouterr().err


def test_what_a_crash_left_is_named() -> None:
    report = ReshardReport("/state", 2, 2, 0, 0, "log-2", ("log",))
    assert reshard_lines(report) == [
        "removed log, which was not in use",
        "/state: the log lies in 2 shards already",
    ]
