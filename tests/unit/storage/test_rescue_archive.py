"""The archive in a salvage: whole runs come with their large values, damaged ones are counted, numbers stay taken."""

from __future__ import annotations

import io
import sqlite3
from pathlib import Path

import pytest

from runtime.storage.files import DiskFiles
from runtime.storage.folder import ARCHIVE_NAME, StateFolder
from runtime.storage.past_runs import past_of
from runtime.storage.reader import read_log
from runtime.storage.recovery import replay_of_all
from runtime.storage.rescue import rescue
from runtime.storage.resume import resume
from runtime.storage.transfer import export_runs
from runtime.storage.verify import verify
from runtime.storage.verify_archive import verify_archive
from runtime.storage.wal import LogWriter
from tests.unit.storage.states import cut, make_folder
from tests.unit.storage.test_archiving import FOR_EVER, KEPT, RUNS, archive_of, forgetful_log, numbers, take

GONE = RUNS - KEPT


def whole(path: Path, *, up_to: int = -1) -> Path:
    """Cut behind a checkpoint, with an archive of what was let go of until then."""
    segments = make_folder(path, forgetful_log())
    take(path, segments[up_to], FOR_EVER)
    cut(path, segments[up_to].no)
    return path


def execute(path: Path, statement: str) -> None:
    with sqlite3.connect(path / ARCHIVE_NAME) as database:
        database.execute(statement)
    database.close()


def exported(path: Path) -> list[bytes]:
    out = io.BytesIO()
    export_runs(path, out, archived=True)
    return out.getvalue().splitlines()


@pytest.mark.parametrize("up_to", [2, -1])
def test_all_of_it_comes_with_how_far_it_goes(tmp_path: Path, up_to: int) -> None:
    old, new = whole(tmp_path / "old", up_to=up_to), tmp_path / "new"
    report = rescue(old, new)
    assert (report.archived, report.archived_lost) == (len(numbers(old)), 0)
    assert numbers(new) == numbers(old)
    assert exported(new) == exported(old)
    assert [row.no for row in past_of(new).rows()] == [*range(GONE, 0, -1)]
    with archive_of(old) as before, archive_of(new) as after:
        assert after.lsn == before.lsn
        assert after.rule == before.rule
    assert verify(new).sound
    assert verify_archive(new).problems == ()


def test_what_is_damaged_is_counted_and_the_rest_comes(tmp_path: Path) -> None:
    old, new = whole(tmp_path / "old"), tmp_path / "new"
    execute(old, "UPDATE part SET body = x'00' WHERE run = 2")
    execute(old, "UPDATE run SET state = 'failed' WHERE no = 3")
    before = numbers_in(old)
    report = rescue(old, new)
    assert (report.archived, report.archived_lost) == (len(before) - 2, 2)
    assert numbers(new) == [no for no in before if no not in (2, 3)]
    assert verify_archive(new).problems == ()


def numbers_in(path: Path) -> list[int]:
    with archive_of(path) as archive:
        return archive.numbers()


def test_one_that_is_none_is_left_behind(tmp_path: Path) -> None:
    old = whole(tmp_path / "old")
    (old / ARCHIVE_NAME).write_bytes(b"x" * 5000)
    assert rescue(old, tmp_path / "new").archived == 0
    assert verify(tmp_path / "new").sound
    assert not (tmp_path / "new" / ARCHIVE_NAME).exists()


def test_what_was_forgotten_by_hand_stays_so(tmp_path: Path) -> None:
    old, new = whole(tmp_path / "old", up_to=2), tmp_path / "new"
    waiting = max(row.no for row in past_of(old).rows())
    assert waiting not in numbers(old)
    assert past_of(old).forget(f"s-{waiting}", None)
    rescue(old, new)
    assert waiting not in [row.no for row in past_of(new).rows()]


def test_numbers_of_archived_runs_are_not_given_again(tmp_path: Path) -> None:
    """Neither checkpoint nor log need know of them."""
    old, new = whole(tmp_path / "old"), tmp_path / "new"
    for path in ((old / "checkpoint.db"), *(old / "log").iterdir()):
        path.unlink()
    make_again(old)
    rescue(old, new)
    assert numbers(new)
    with StateFolder.open(new, owner=False, create=False) as folder:
        replay = replay_of_all(None)
        resume(folder, replay, DiskFiles())
        assert replay.scheduler.book.next_run_no == max(numbers(new)) + 1


def make_again(path: Path) -> None:
    """A log with nothing in it, in a folder that stays what it is."""
    with StateFolder.open(path) as folder:
        log = read_log(folder.log, DiskFiles())
        list(log)
        LogWriter(folder.log, DiskFiles(), log.report()).close()
