"""What verify says of an archive."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import orjson
import pytest

from actors.protocol.records import Record, RecordType
from runtime.storage.files import DAMAGED
from runtime.storage.folder import ARCHIVE_NAME
from runtime.storage.segment import SegmentInfo
from runtime.storage.verify_archive import ArchiveFinding, verify_archive
from tests.unit.storage.states import make_folder
from tests.unit.storage.test_archiving import FOR_EVER, forgetful_log, numbers, take


@pytest.fixture
def segments(tmp_path: Path) -> tuple[SegmentInfo, ...]:
    return make_folder(tmp_path, forgetful_log())


def execute(path: Path, statement: str) -> None:
    with sqlite3.connect(path / ARCHIVE_NAME) as database:
        database.execute(statement)
    database.close()


def test_a_folder_without_one(tmp_path: Path, segments: tuple[SegmentInfo, ...]) -> None:
    assert verify_archive(tmp_path) == ArchiveFinding()
    (tmp_path / (ARCHIVE_NAME + DAMAGED)).touch()
    assert "set aside" in verify_archive(tmp_path).notes[0]


def test_a_sound_one(tmp_path: Path, segments: tuple[SegmentInfo, ...]) -> None:
    take(tmp_path, segments[-1], FOR_EVER)
    found = verify_archive(tmp_path)
    assert found.problems == ()
    assert found.runs == found.nodes > 0
    assert found.lsn == segments[-1].first_lsn - 1
    assert found.to_json()["problems"] == []


def test_one_that_was_removed_is_missed(tmp_path: Path) -> None:
    told = {"now_ns": 0, "wall_ns": 1, "next_run_no": 1, "archives": True}
    opened = Record(1, RecordType.OPENED, orjson.dumps(told))
    records = [record._replace(lsn=record.lsn + 1) for record in forgetful_log()]
    segments = make_folder(tmp_path, [opened, *records])
    take(tmp_path, segments[-1], FOR_EVER)
    runs = len(numbers(tmp_path))
    assert verify_archive(tmp_path).notes == ()
    (tmp_path / ARCHIVE_NAME).unlink()
    (note,) = verify_archive(tmp_path).notes
    assert f"there is no {ARCHIVE_NAME}, and the checkpoint has let go of {runs} runs" in note


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("UPDATE part SET body = x'00' WHERE run = 2", "run 2"),
        ("UPDATE run SET state = 'failed' WHERE no = 3", "row of run 3"),
        ("DELETE FROM part WHERE run = 1", "run 1 is not whole"),
        ("DELETE FROM meta", "does not say what it is"),
        ("DROP INDEX run_by_id", "no problem"),
    ],
)
def test_damage_is_named(tmp_path: Path, segments: tuple[SegmentInfo, ...], statement: str, message: str) -> None:
    take(tmp_path, segments[-1], FOR_EVER)
    execute(tmp_path, statement)
    problems = verify_archive(tmp_path).problems
    assert message in " ".join(problems or ("no problem",))
