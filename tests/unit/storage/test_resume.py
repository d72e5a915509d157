"""A recovery from checkpoint and log gives the state that the whole log gives; what does not fit is refused."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from actors.protocol.errors import CheckpointUnusable, LogCorrupt
from actors.protocol.event_errors import LogOvertaken
from actors.protocol.records import Record, RecordType
from actors.replay import Replay
from runtime.storage.checkpoint import CHECKPOINT_NAME
from runtime.storage.files import DAMAGED, DiskFiles
from runtime.storage.folder import StateFolder
from runtime.storage.reader import RecoveryReport
from runtime.storage.resume import LIVE_TRIES_MAX, resume, resume_live, until_whole
from runtime.storage.salvage import mend_log
from runtime.storage.segment import SegmentInfo, segment_name
from runtime.storage.take import take_checkpoint
from runtime.storage.verify import verify
from runtime.storage.wal import LogWriter
from tests.states import differences
from tests.unit.storage.states import FILES, busy_log, cut, fold, fresh, make_folder, put_checkpoint


@pytest.fixture
def records() -> list[Record]:
    return busy_log()


@pytest.fixture
def segments(records: list[Record], tmp_path: Path) -> tuple[SegmentInfo, ...]:
    found = make_folder(tmp_path, records)
    assert len(found) > 3
    return found


def opened(path: Path, *, salvage: bool = False) -> tuple[Replay, RecoveryReport]:
    replay = fresh()
    with StateFolder.open(path) as folder:
        return replay, resume(folder, replay, FILES, salvage=salvage)


def test_at_each_record(tmp_path: Path, records: list[Record], segments: tuple[SegmentInfo, ...]) -> None:
    whole = fold(records)
    for lsn in range(1, records[-1].lsn + 1):
        put_checkpoint(tmp_path, records, lsn)
        replay, report = opened(tmp_path)
        assert differences(whole, replay) == []
        assert replay.records == len(records) - lsn
        assert (report.segments, report.next_lsn) == (segments, records[-1].lsn + 2)  # the mark of an orderly close


def test_with_the_log_cut_behind_it(tmp_path: Path, records: list[Record], segments: tuple[SegmentInfo, ...]) -> None:
    put_checkpoint(tmp_path, records, segments[2].last_lsn)
    cut(tmp_path, segments[3].no)
    replay, report = opened(tmp_path)
    assert differences(fold(records), replay) == []
    assert report.segments == segments[3:]
    with StateFolder.open(tmp_path) as folder:
        LogWriter(folder.log, FILES, report).close()  # and the log goes on


def test_beside_an_engine(tmp_path: Path, records: list[Record], segments: tuple[SegmentInfo, ...]) -> None:
    put_checkpoint(tmp_path, records, segments[2].last_lsn)
    cut(tmp_path, segments[3].no)
    with StateFolder.open(tmp_path, create=False, owner=False) as folder:
        replay, _ = resume_live(folder, fresh, FILES)
    assert differences(fold(records), replay) == []


def test_a_checkpoint_and_a_cut_while_somebody_reads(
    tmp_path: Path, records: list[Record], segments: tuple[SegmentInfo, ...]
) -> None:
    """The old checkpoint is loaded, and then what follows it is gone: it is begun anew."""
    put_checkpoint(tmp_path, records, segments[0].last_lsn)
    made: list[Replay] = []
    looks: list[str] = []

    def fresh_one() -> Replay:
        made.append(fresh())
        return made[-1]

    class Files(DiskFiles):
        def list(self, folder: str) -> list[str]:
            looks.append(folder)
            names = super().list(folder)
            if len(looks) == 2:  # the checkpoint is loaded, the log is about to be read
                put_checkpoint(tmp_path, records, segments[2].last_lsn)
                cut(tmp_path, segments[3].no)
            return names

    with StateFolder.open(tmp_path, create=False, owner=False) as folder:
        replay, _ = resume_live(folder, fresh_one, Files())
    assert len(made) == 2
    assert differences(fold(records), replay) == []


def test_a_log_that_was_cut_beyond_the_checkpoint_says_all_by_itself(
    tmp_path: Path, records: list[Record], segments: tuple[SegmentInfo, ...]
) -> None:
    put_checkpoint(tmp_path, records, segments[0].last_lsn)
    cut(tmp_path, segments[3].no)
    replay, _ = opened(tmp_path)
    assert differences(fold([r for r in records if r.lsn >= segments[3].first_lsn]), replay) == []


def test_a_checkpoint_that_is_missing_is_missed(tmp_path: Path, records: list[Record]) -> None:
    covered = records[-1].lsn
    records.append(Record(covered + 1, RecordType.CHECKPOINT, orjson.dumps([covered])))
    segments = make_folder(tmp_path, records)
    assert differences(fold(records), opened(tmp_path)[0]) == []  # the log is whole
    cut(tmp_path, segments[2].no)
    with pytest.raises(CheckpointUnusable, match=f"begins at LSN {segments[2].first_lsn}"):
        opened(tmp_path)
    replay, _ = opened(tmp_path, salvage=True)
    assert replay.records == covered + 2 - segments[2].first_lsn


def test_a_damaged_checkpoint_is_refused_and_set_aside_by_salvage(
    tmp_path: Path, records: list[Record], segments: tuple[SegmentInfo, ...]
) -> None:
    put_checkpoint(tmp_path, records, segments[1].last_lsn)
    path = tmp_path / CHECKPOINT_NAME
    with sqlite3.connect(path) as database:
        database.execute("UPDATE part SET body = x'00' WHERE run = 1")
    database.close()
    content = path.read_bytes()
    with pytest.raises(CheckpointUnusable):
        opened(tmp_path)
    replay, _ = opened(tmp_path, salvage=True)
    assert differences(fold(records), replay) == []
    assert not path.exists()
    assert (tmp_path / (CHECKPOINT_NAME + DAMAGED)).read_bytes() == content
    assert differences(fold(records), opened(tmp_path)[0]) == []


@pytest.mark.parametrize("how", ["damaged", "missing"])
def test_salvage_in_place_of_a_cut_log_leaves_a_folder_that_opens(
    tmp_path: Path, records: list[Record], how: str
) -> None:
    """What the checkpoint held is lost, and that is said; the folder takes checkpoints again, and is sound."""
    records = [*records, Record(records[-1].lsn + 1, RecordType.CHECKPOINT, orjson.dumps([4]))]
    segments = make_folder(tmp_path / "state", records)
    state = tmp_path / "state"
    put_checkpoint(state, records, 4)
    cut(state, segments[1].no)
    path = state / CHECKPOINT_NAME
    path.unlink() if how == "missing" else path.write_bytes(b"x" * 5000)
    replay, report = opened(state, salvage=True)
    assert not report.clean
    (said,) = report.lost
    assert f"LSN 1 to {segments[1].first_lsn - 1}" in said
    assert replay.loaded_lsn == segments[1].first_lsn - 1
    assert verify(state).sound
    again, report = opened(state)
    assert report.lost == ()
    assert sorted(again.scheduler.book.finished) == sorted(replay.scheduler.book.finished)
    assert replay.scheduler.book.finished
    with StateFolder.open(state, create=False, owner=False) as folder:
        taken = take_checkpoint(folder, segments[-1].first_lsn - 1, segments[-1].no, FILES)
    assert taken.lsn == segments[-1].first_lsn - 1
    assert verify(state).sound


def test_a_log_that_ends_before_its_checkpoint(
    tmp_path: Path, records: list[Record], segments: tuple[SegmentInfo, ...]
) -> None:
    """LSNs are never used twice, whatever was lost."""
    put_checkpoint(tmp_path, records, records[-1].lsn)
    for info in segments[2:]:
        (tmp_path / "log" / segment_name(info.no)).unlink()
    with pytest.raises(LogCorrupt, match="its checkpoint at"):
        opened(tmp_path)
    replay, report = opened(tmp_path, salvage=True)
    assert differences(fold(records), replay) == []
    assert report.next_lsn == records[-1].lsn + 1
    with StateFolder.open(tmp_path) as folder:
        mended = mend_log(folder.log, FILES, report)
        LogWriter(folder.log, FILES, mended).close()
    assert differences(fold(records), opened(tmp_path)[0]) == []


class Overtaken:
    """Readings of a folder beside an engine that cut the log, so many times."""

    def __init__(self, times: int, error: Exception | None = None) -> None:
        self._left = times
        self._error = error
        self.readings = 0

    def __call__(self) -> str | None:
        self.readings += 1
        self._left -= 1
        if self._left < 0:
            return "whole"
        if self._error is not None:
            raise self._error
        return None


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[StateFolder]:
    with StateFolder.open(tmp_path) as folder:
        yield folder


@pytest.mark.parametrize("error", [None, LogCorrupt("starts again", "00000002.seg", 0), CheckpointUnusable("gone")])
def test_who_was_overtaken_reads_again(folder: StateFolder, error: Exception | None) -> None:
    read = Overtaken(LIVE_TRIES_MAX - 1, error)
    assert until_whole(folder, read) == "whole"
    assert read.readings == LIVE_TRIES_MAX


def test_who_is_always_overtaken_tells_of_no_state_with_a_hole(folder: StateFolder) -> None:
    with pytest.raises(LogOvertaken, match="faster than it can be read"):
        until_whole(folder, Overtaken(LIVE_TRIES_MAX))
    with pytest.raises(LogCorrupt, match="starts again"):
        until_whole(folder, Overtaken(LIVE_TRIES_MAX, LogCorrupt("starts again", "00000002.seg", 0)))


def test_damage_that_no_engine_made_is_told_at_once(folder: StateFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    owners: list[int | None] = [None, None]
    monkeypatch.setattr(StateFolder, "owner_pid", lambda _: owners.pop(0))
    read = Overtaken(1, LogCorrupt("damaged", "00000002.seg", 0))
    with pytest.raises(LogCorrupt, match="damaged"):
        until_whole(folder, read)
    assert read.readings == 1


@pytest.mark.parametrize("owners", [[7, None], [None, 7]])
def test_an_engine_that_came_or_went_may_have_cut_the_log(
    folder: StateFolder, owners: list[int | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = list(owners)
    monkeypatch.setattr(StateFolder, "owner_pid", lambda _: seen.pop(0))
    assert until_whole(folder, Overtaken(1, LogCorrupt("cut", "00000002.seg", 0))) == "whole"
