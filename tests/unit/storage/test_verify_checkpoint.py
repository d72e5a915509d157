"""`verify` tells of the checkpoint what a recovery would run into."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import orjson
import pytest

from actors.protocol.records import Record, RecordType
from runtime.storage.checkpoint import CHECKPOINT_NAME
from runtime.storage.segment import SegmentInfo, segment_name
from runtime.storage.verify import VerifyReport, verify
from tests.unit.storage.states import busy_log, cut, make_folder, put_checkpoint


@pytest.fixture
def records() -> list[Record]:
    return busy_log()


@pytest.fixture
def segments(records: list[Record], tmp_path: Path) -> tuple[SegmentInfo, ...]:
    return make_folder(tmp_path, records)


def damage(path: Path) -> None:
    with sqlite3.connect(path / CHECKPOINT_NAME) as database:
        database.execute("UPDATE part SET body = x'00' WHERE run = 1")
    database.close()


def found(report: VerifyReport) -> str:
    return "; ".join(report.problems)


def test_none_is_no_fault(tmp_path: Path, segments: tuple[SegmentInfo, ...]) -> None:
    report = verify(tmp_path)
    assert report.sound
    assert (report.checkpoint_lsn, report.notes) == (0, ())


def test_a_sound_one(tmp_path: Path, records: list[Record], segments: tuple[SegmentInfo, ...]) -> None:
    put_checkpoint(tmp_path, records, segments[1].last_lsn)
    cut(tmp_path, segments[2].no)
    report = verify(tmp_path)
    assert report.sound
    assert report.checkpoint_lsn == segments[1].last_lsn
    assert report.notes == (f"the checkpoint holds 4 runs, up to LSN {segments[1].last_lsn}",)


def test_a_damaged_one(tmp_path: Path, records: list[Record], segments: tuple[SegmentInfo, ...]) -> None:
    put_checkpoint(tmp_path, records, segments[1].last_lsn)
    damage(tmp_path)
    assert CHECKPOINT_NAME + " is damaged" in found(verify(tmp_path))
    assert found(verify(tmp_path)).endswith("the log reaches back without it")
    cut(tmp_path, segments[2].no)
    assert found(verify(tmp_path)).endswith("the log does not reach back without it")


def test_a_missing_one(tmp_path: Path, records: list[Record]) -> None:
    records.append(Record(records[-1].lsn + 1, RecordType.CHECKPOINT, orjson.dumps([records[-1].lsn])))
    segments = make_folder(tmp_path, records)
    assert verify(tmp_path).sound
    cut(tmp_path, segments[2].no)
    assert "the checkpoint that holds what was before is missing" in found(verify(tmp_path))


def test_a_log_that_was_cut_beyond_it(tmp_path: Path, records: list[Record], segments: tuple[SegmentInfo, ...]) -> None:
    put_checkpoint(tmp_path, records, segments[0].last_lsn)
    cut(tmp_path, segments[2].no)
    report = verify(tmp_path)
    assert report.sound
    assert report.notes == ("the log was cut beyond the checkpoint, and says all by itself",)


def test_a_log_that_ends_before_it(tmp_path: Path, records: list[Record], segments: tuple[SegmentInfo, ...]) -> None:
    put_checkpoint(tmp_path, records, records[-1].lsn)
    for info in segments[2:]:
        (tmp_path / "log" / segment_name(info.no)).unlink()
    assert f"its checkpoint at {records[-1].lsn}" in found(verify(tmp_path))
