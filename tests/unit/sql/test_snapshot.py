"""What was known at an LSN is what a fold up to there knows: read anew, followed, or begun at a checkpoint."""

from __future__ import annotations

import hashlib
import os
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest

from actors.protocol.errors import CheckpointUnusable, ConfigurationError, LogCorrupt, UnknownMoment
from actors.protocol.query_errors import QueryTooLong
from actors.protocol.records import Record, RecordType
from actors.record_times import RecordTimes
from actors.released import released
from actors.scheduler import Scheduler
from runtime.sql.budget import Budget
from runtime.sql.folder import query
from runtime.sql.snapshot import FolderState, Snapshot
from runtime.storage.moments import NOW, Moment, moment_of
from tests.unit.sql.told import fold, run_rows, task_rows
from tests.unit.storage.states import busy_log, cut, make_folder, put_checkpoint
from tests.unit.storage.test_archiving import forgetful_log
from tests.unit.storage.worlds import records_midway, records_of


def shown(scheduler: Scheduler) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    return task_rows(scheduler), run_rows(scheduler)


def now(state: FolderState, upto_lsn: int | None = None) -> Snapshot:
    return state.now(upto_lsn, Budget(60.0))


def then(state: FolderState, lsn: int) -> Snapshot:
    return state.then(Moment(lsn=lsn), None, Budget(60.0))


def contents(path: Path) -> str:
    files = sorted(file for file in path.rglob("*") if file.is_file())
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def test_every_lsn_shows_what_a_fold_up_to_there_knows(tmp_path: Path) -> None:
    records = busy_log()
    make_folder(tmp_path, records)
    before, state = contents(tmp_path), FolderState(tmp_path)
    for place, record in enumerate(records):
        found = then(state, record.lsn)
        assert found.lsn == record.lsn
        assert shown(found.scheduler) == shown(fold(records[: place + 1]))
    assert contents(tmp_path) == before, "nothing was written"


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, 8])
def test_a_log_that_is_followed_in_steps_shows_what_one_reading_shows(tmp_path: Path, seed: int) -> None:
    records, random = list(records_of(seed)), Random(seed)
    make_folder(tmp_path, records)
    state, lsn = FolderState(tmp_path), 0
    while lsn < records[-1].lsn:
        lsn = min(records[-1].lsn, lsn + random.randrange(1, 40))
        upto = [record for record in records if record.lsn <= lsn]
        assert shown(now(state, lsn).scheduler) == shown(fold(upto))


def test_a_second_look_folds_only_what_is_new(tmp_path: Path) -> None:
    records = busy_log()
    make_folder(tmp_path, records)
    state = FolderState(tmp_path)
    now(state, records[-4].lsn)
    followed = state._now
    assert followed is not None
    assert followed.records == len(records) - 3
    now(state, records[-1].lsn)
    assert state._now is followed
    assert followed.records == len(records)
    now(state, records[-1].lsn)
    assert followed.records == len(records)
    assert followed.scheduler.taken() == [], "what an engine would do does not pile up"


def test_nothing_is_held_open_between_two_looks(tmp_path: Path) -> None:
    records = busy_log()
    make_folder(tmp_path, records)
    state, before = FolderState(tmp_path), sorted(os.listdir("/proc/self/fd"))
    for record in records[::3]:
        now(state, record.lsn)
        assert sorted(os.listdir("/proc/self/fd")) == before


def test_a_log_that_was_cut_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    records = busy_log()
    segments = make_folder(tmp_path, records)
    lsn = segments[2].last_lsn
    put_checkpoint(tmp_path, records, lsn)
    cut(tmp_path, segments[3].no)
    state = FolderState(tmp_path)
    assert shown(now(state).scheduler) == shown(fold(records))
    for record in records:
        if record.lsn >= lsn:
            upto = [one for one in records if one.lsn <= record.lsn]
            assert shown(then(state, record.lsn).scheduler) == shown(fold(upto))
        else:
            with pytest.raises(UnknownMoment, match=f"checkpoint as of LSN {lsn}"):
                then(state, record.lsn)


def test_a_whole_log_shows_also_what_was_before_its_checkpoint(tmp_path: Path) -> None:
    records = busy_log()
    make_folder(tmp_path, records)
    put_checkpoint(tmp_path, records, records[-2].lsn)
    found = then(FolderState(tmp_path), records[3].lsn)
    assert shown(found.scheduler) == shown(fold(records[:4]))


def test_what_is_cut_off_while_it_is_followed_is_taken_from_the_checkpoint(tmp_path: Path) -> None:
    records = busy_log()
    segments = make_folder(tmp_path, records)
    state = FolderState(tmp_path)
    now(state, segments[0].last_lsn)
    followed = state._now
    put_checkpoint(tmp_path, records, segments[2].last_lsn)
    cut(tmp_path, segments[3].no)
    assert shown(now(state, records[-1].lsn).scheduler) == shown(fold(records))
    assert state._now is not None
    assert state._now is not followed
    now(state)
    assert state._now is None, "what is not durable is not gone on from"


def test_a_missing_checkpoint_is_not_passed_over(tmp_path: Path) -> None:
    records = busy_log()
    segments = make_folder(
        tmp_path, [*records, Record(records[-1].lsn + 1, RecordType.CHECKPOINT, b"[%d]" % records[-2].lsn)]
    )
    cut(tmp_path, segments[2].no)
    with pytest.raises(CheckpointUnusable):
        now(FolderState(tmp_path))


def test_damage_is_told_and_not_taken_for_the_end(tmp_path: Path) -> None:
    segments = make_folder(tmp_path, busy_log())
    path = next(file for file in (tmp_path / "log").iterdir() if int(file.stem) == segments[1].no)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 255
    path.write_bytes(data)
    with pytest.raises(LogCorrupt):
        now(FolderState(tmp_path))


def test_after_an_error_the_next_look_begins_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runtime.sql.snapshot.TURN_RECORDS", 1)
    records = busy_log()
    make_folder(tmp_path, records)
    state, over = FolderState(tmp_path), Budget(None)
    now(state, records[2].lsn)
    over.stop()
    with pytest.raises(QueryTooLong):
        state.now(None, over)
    assert shown(now(state).scheduler) == shown(fold(records))


@pytest.mark.parametrize("lsn", [0, -5])
def test_an_lsn_before_the_log_is_refused(tmp_path: Path, lsn: int) -> None:
    make_folder(tmp_path, busy_log())
    with pytest.raises(UnknownMoment, match="before the log begins"):
        then(FolderState(tmp_path), lsn)


def test_an_lsn_beyond_what_may_be_read_is_refused(tmp_path: Path) -> None:
    records = busy_log()
    make_folder(tmp_path, records)
    with pytest.raises(UnknownMoment, match="beyond the end"):
        then(FolderState(tmp_path), records[-1].lsn + 1)
    with pytest.raises(UnknownMoment, match="beyond the end"):
        FolderState(tmp_path).then(Moment(lsn=records[-1].lsn), records[-2].lsn, Budget(None))


def test_a_time_is_before_the_first_record_that_tells_of_something_later(tmp_path: Path) -> None:
    records, times = list(records_midway(18, 400)), RecordTimes()
    make_folder(tmp_path, records)
    told = [times.at(record) for record in records]
    state = FolderState(tmp_path)
    for wanted in sorted({at for at in told if at is not None and at >= (told[0] or 0)})[::7]:
        later = next((place for place, at in enumerate(told) if at is not None and at > wanted), len(records))
        found = state.then(Moment(wall_ns=wanted), None, Budget(None))
        assert shown(found.scheduler) == shown(fold(records[:later]))
        assert found.at_ns <= wanted
    with pytest.raises(UnknownMoment, match="before the log begins"):
        state.then(Moment(wall_ns=(told[0] or 0) - 1), None, Budget(None))


def test_moments_are_lsns_and_times_with_a_zone() -> None:
    assert moment_of(None, "at") == NOW
    assert moment_of(5, "at") == Moment(lsn=5)
    assert moment_of(datetime(2026, 1, 1, tzinfo=UTC), "at") == Moment(wall_ns=1767225600 * 10**9)
    for wrong in (datetime(2026, 1, 1), "5", 5.0, True):
        with pytest.raises(ConfigurationError):
            moment_of(wrong, "at")


def test_a_folder_is_asked_by_its_path(tmp_path: Path) -> None:
    records = busy_log()
    make_folder(tmp_path, records)
    found = query(tmp_path, "SELECT count(*) FROM tasks WHERE state = ?", ["succeeded"])
    assert (found.scalar(), found.lsn) == (8, records[-1].lsn)
    assert query(tmp_path, "SELECT count(*) FROM tasks", at=records[1].lsn).lsn == records[1].lsn


def test_an_archive_that_comes_between_two_questions_hides_nothing(tmp_path: Path) -> None:
    """What was let go of before it was there, and is not in it, is still told of."""
    records = forgetful_log()
    make_folder(tmp_path, records)
    let_go = {no: record.lsn for record in records if record.type == 7 for no in released(record.payload)}
    half = sorted(let_go.values())[len(let_go) // 2]
    state = FolderState(tmp_path)
    assert not state.now(half, Budget(60.0)).gone
    found = state.now(records[-1].lsn, Budget(60.0), archived_lsn=half // 2)
    told = {no for no, gone in found.gone.items() if gone.lsn > half // 2}
    assert told == {no for no, lsn in let_go.items() if lsn > half // 2}
