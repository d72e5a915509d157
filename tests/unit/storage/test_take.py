"""Taking a checkpoint from the last one and the closed segments; crashes, and what was done to the log meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest

from actors.protocol.errors import CheckpointUnusable, LogCorrupt
from actors.protocol.records import Record
from runtime.storage.checkpoint import CHECKPOINT_NAME, CheckpointFile
from runtime.storage.files import DAMAGED
from runtime.storage.folder import StateFolder
from runtime.storage.resume import resume
from runtime.storage.segment import SegmentInfo, segment_name
from runtime.storage.take import Taken, take_checkpoint
from tests.states import differences
from tests.unit.storage.states import FILES, busy_log, cut, fold, fresh, make_folder, put_checkpoint


@pytest.fixture
def records() -> list[Record]:
    return busy_log()


@pytest.fixture
def segments(records: list[Record], tmp_path: Path) -> tuple[SegmentInfo, ...]:
    return make_folder(tmp_path, records)


def take(path: Path, active: SegmentInfo) -> Taken:
    """Up to the segment before this one."""
    with StateFolder.open(path, create=False, owner=False) as folder:
        return take_checkpoint(folder, active.first_lsn - 1, active.no, FILES)


def recovered_is(path: Path, records: list[Record]) -> bool:
    replay = fresh()
    with StateFolder.open(path) as folder:
        resume(folder, replay, FILES)
    return differences(fold(records), replay) == []


def test_one_after_the_other_with_the_log_cut_behind_each(
    tmp_path: Path, records: list[Record], segments: tuple[SegmentInfo, ...]
) -> None:
    for active in segments[1:]:
        taken = take(tmp_path, active)
        assert taken.lsn == active.first_lsn - 1
        assert taken.bytes
        cut(tmp_path, active.no)
        assert recovered_is(tmp_path, records)


def test_what_is_covered_is_not_done_again(
    tmp_path: Path, records: list[Record], segments: tuple[SegmentInfo, ...]
) -> None:
    take(tmp_path, segments[3])
    assert take(tmp_path, segments[2]) == (segments[3].first_lsn - 1, 0, None)


def test_only_closed_segments_are_read(tmp_path: Path, segments: tuple[SegmentInfo, ...]) -> None:
    (tmp_path / "log" / segment_name(segments[2].no)).write_bytes(b"being written")
    assert take(tmp_path, segments[2]).lsn == segments[2].first_lsn - 1


def test_a_closed_segment_has_no_torn_tail(tmp_path: Path, segments: tuple[SegmentInfo, ...]) -> None:
    path = tmp_path / "log" / segment_name(segments[1].no)
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(LogCorrupt):
        take(tmp_path, segments[2])


def test_a_segment_that_vanished_is_missed(tmp_path: Path, segments: tuple[SegmentInfo, ...]) -> None:
    take(tmp_path, segments[1])
    (tmp_path / "log" / segment_name(segments[1].no)).unlink()
    with pytest.raises(LogCorrupt):
        take(tmp_path, segments[3])


def test_a_log_that_was_cut_beyond_the_last_one_is_begun_anew(
    tmp_path: Path, records: list[Record], segments: tuple[SegmentInfo, ...]
) -> None:
    put_checkpoint(tmp_path, records, segments[0].last_lsn)
    cut(tmp_path, segments[2].no)
    take(tmp_path, segments[3])
    assert recovered_is(tmp_path, [record for record in records if record.lsn >= segments[2].first_lsn])


def test_a_damaged_one_is_set_aside_where_the_log_needs_none(
    tmp_path: Path, records: list[Record], segments: tuple[SegmentInfo, ...]
) -> None:
    (tmp_path / CHECKPOINT_NAME).write_bytes(b"x" * 5000)
    take(tmp_path, segments[3])
    assert (tmp_path / (CHECKPOINT_NAME + DAMAGED)).exists()
    assert recovered_is(tmp_path, records)


def test_a_damaged_one_that_the_log_needs_is_left(
    tmp_path: Path, records: list[Record], segments: tuple[SegmentInfo, ...]
) -> None:
    (tmp_path / CHECKPOINT_NAME).write_bytes(b"x" * 5000)
    cut(tmp_path, segments[1].no)
    with pytest.raises(CheckpointUnusable):
        take(tmp_path, segments[3])
    assert (tmp_path / CHECKPOINT_NAME).exists()


def test_another_process_that_wrote_meanwhile_wins(
    tmp_path: Path, records: list[Record], segments: tuple[SegmentInfo, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    put = CheckpointFile.put

    def late(self: CheckpointFile, *args: object) -> int:
        monkeypatch.setattr(CheckpointFile, "put", put)
        put_checkpoint(tmp_path, records, segments[3].last_lsn)
        return put(self, *args)  # type: ignore[arg-type]

    take(tmp_path, segments[1])
    monkeypatch.setattr(CheckpointFile, "put", late)
    with pytest.raises(Exception, match="another process"):
        take(tmp_path, segments[2])
    cut(tmp_path, segments[4].no)
    assert recovered_is(tmp_path, records)
