"""Salvage and verification of folders whose log was cut behind a checkpoint, whole and damaged."""

from __future__ import annotations

import io
import shutil
from pathlib import Path

import orjson
import pytest

from actors.protocol.records import Record, RecordType
from runtime.cli import main
from runtime.cli.exits import Exit
from runtime.storage.checkpoint import CHECKPOINT_NAME
from runtime.storage.contents import check_contents
from runtime.storage.rescue import rescue
from runtime.storage.transfer import export_runs
from runtime.storage.verify import verify
from tests.unit.storage.states import busy_log, cut, make_folder, put_checkpoint

COVERED = 4
"""The last record of the first segment."""


@pytest.fixture
def records() -> list[Record]:
    made = busy_log()
    return [*made, Record(made[-1].lsn + 1, RecordType.CHECKPOINT, orjson.dumps([COVERED]))]


@pytest.fixture
def state(tmp_path: Path, records: list[Record]) -> Path:
    """Cut behind its checkpoint."""
    return make(tmp_path / "state", records)


def make(path: Path, records: list[Record]) -> Path:
    segments = make_folder(path, records)
    put_checkpoint(path, records, COVERED)
    assert segments[0].last_lsn == COVERED
    cut(path, segments[1].no)
    return path


def exported(path: Path) -> list[bytes]:
    out = io.BytesIO()
    export_runs(path, out)
    return out.getvalue().splitlines()


def test_all_runs_are_salvaged_those_of_the_checkpoint_too(state: Path, tmp_path: Path) -> None:
    report = rescue(state, tmp_path / "new")
    assert exported(tmp_path / "new") == exported(state)
    assert report.contents.runs_finished == 8
    assert report.lost.clean
    assert verify(tmp_path / "new").sound


def test_the_same_of_a_log_with_a_hole_behind_it(state: Path, tmp_path: Path, records: list[Record]) -> None:
    whole = exported(state)
    file = min((state / "log").iterdir())
    data = bytearray(file.read_bytes())
    data[100] ^= 1
    file.write_bytes(data)
    report = rescue(state, tmp_path / "new")
    kept = exported(tmp_path / "new")
    assert not report.lost.clean
    assert len(kept) > 1
    assert set(kept[1:]) <= set(whole), "nothing is invented"
    assert verify(tmp_path / "new").sound


@pytest.mark.parametrize("how", ["damaged", "missing"])
def test_a_checkpoint_that_cannot_be_used_is_told_and_done_without(
    state: Path, tmp_path: Path, how: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = state / CHECKPOINT_NAME
    if how == "missing":
        path.unlink()
    else:
        path.write_bytes(b"x" * 5000)
    contents = check_contents(state)
    assert contents.runs_finished
    assert main(["verify", str(state)]) == Exit.ENVIRONMENT
    assert f"{CHECKPOINT_NAME}" in (said := capsys.readouterr().out) or "the checkpoint" in said
    assert "damaged: does not open as it is" in said
    report = rescue(state, tmp_path / "new")
    assert report.contents.runs_finished == contents.runs_finished < 8
    assert verify(tmp_path / "new").sound


def test_one_of_another_folder_is_told_and_done_without(state: Path, tmp_path: Path, records: list[Record]) -> None:
    other = tmp_path / "other"
    make(other, records)
    shutil.copyfile(other / CHECKPOINT_NAME, state / CHECKPOINT_NAME)
    assert "belongs to another state folder" in " ".join(verify(state).problems)
    rescue(state, tmp_path / "new")
    assert verify(tmp_path / "new").sound


def test_a_missing_segment_behind_it_is_told(state: Path, tmp_path: Path) -> None:
    sorted((state / "log").iterdir())[1].unlink()
    assert "are missing before segment" in " ".join(verify(state).problems)
    rescue(state, tmp_path / "new")
    assert verify(tmp_path / "new").sound
