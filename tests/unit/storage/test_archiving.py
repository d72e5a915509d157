"""Runs that the log lets go of come to the archive with the checkpoint, once, whatever crashes on the way."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path
from typing import Any

import orjson
import pytest

from actors.archived import ArchiveRule
from actors.protocol import messages as msg
from actors.protocol.errors import DiskFull
from actors.protocol.records import Record, RecordType
from actors.released import released
from actors.replay import Replay
from actors.saved_run import load_run, save_run
from actors.scheduler import Scheduler
from runtime.mail.blobs import BlobStore
from runtime.mail.plain import EXTENSION
from runtime.storage import archiving as module
from runtime.storage.archive import ArchiveFile
from runtime.storage.checkpoint import CheckpointFile
from runtime.storage.files import DAMAGED
from runtime.storage.folder import ARCHIVE_NAME, StateFolder
from runtime.storage.segment import SegmentInfo
from runtime.storage.take import Taken, take_checkpoint
from tests.unit.actors.rig import Rig, kind
from tests.unit.storage.states import FILES, cut, make_folder

RUNS = 12
KEPT = 2
FOR_EVER = ArchiveRule(None)
BLOB = [b"large" * 100]


def forgetful_log(value: Any = "v" * 40) -> list[Record]:
    """Runs that ended, one after the other, the latest two of which are kept in memory."""
    rig = Rig(scheduler=Scheduler(["default"], retention={"runs": KEPT, "nodes": 100}))
    for seq in range(1, RUNS + 1):
        rows = [[seq, 1, "i" * 40]]
        rig.say(msg.KindDefined("s", 1, kind()), msg.TasksSubmitted("s", rows, orjson.dumps(rows)))
        for worker, serial, node in rig.leases():
            rig.succeed(worker, serial, node, value, run=seq)
        rig.say(msg.Told(rig.core.scheduler.lsn))
    return rig.records


def take(path: Path, active: SegmentInfo, rule: ArchiveRule | None = FOR_EVER) -> Taken:
    with StateFolder.open(path, create=False, owner=False) as folder:
        store = BlobStore(folder.blobs_path, fsync=False)
        return take_checkpoint(folder, active.first_lsn - 1, active.no, FILES, store.open, rule)


def archive_of(path: Path) -> ArchiveFile:
    with StateFolder.open(path, create=False, owner=False) as folder:
        found = ArchiveFile.read(folder.path, folder.uuid)
        assert found is not None
        return found


def numbers(path: Path) -> list[int]:
    if not (path / ARCHIVE_NAME).exists():
        return []
    with archive_of(path) as archive:
        return sorted(run.no for run in archive.summaries())


def let_go(records: list[Record], below_lsn: int) -> list[int]:
    """Oracle: what the log says was let go of."""
    return [no for record in records if record.lsn < below_lsn and record.type == 7 for no in released(record.payload)]


@pytest.fixture
def records() -> list[Record]:
    return forgetful_log()


@pytest.fixture
def segments(records: list[Record], tmp_path: Path) -> tuple[SegmentInfo, ...]:
    return make_folder(tmp_path, records)


def test_what_memory_lets_go_of_is_archived_checkpoint_by_checkpoint(
    tmp_path: Path, records: list[Record], segments: tuple[SegmentInfo, ...]
) -> None:
    assert len(let_go(records, 1 << 60)) == RUNS - KEPT
    for active in segments[1:]:
        take(tmp_path, active)
        cut(tmp_path, active.no)
        assert numbers(tmp_path) == let_go(records, active.first_lsn)
    with archive_of(tmp_path) as archive:
        assert archive.lsn == segments[-1].first_lsn - 1


def test_a_run_of_the_archive_is_what_it_was(tmp_path: Path, records: list[Record], segments: Any) -> None:
    take(tmp_path, segments[-1])
    seen: dict[int, Any] = {}
    replay = Replay(Scheduler(["default"]))
    replay.let_go = lambda run, ended_ns: seen.update({run.no: (save_run(run), ended_ns)})
    for record in records:
        replay.fold(record)
    with archive_of(tmp_path) as archive:
        for row in archive.summaries():
            pieces, ended_ns = seen[row.no]
            assert [part[1:] for part in archive.run(row.no)] == sorted(pieces)
            run = load_run(Scheduler(["default"]), (part[1:] for part in archive.run(row.no)), lambda kinds: None)
            assert (run.key, run.results, str(run.run_state())) == (row.run_id, ["v" * 40], row.state)
            assert row.ended_ns == ended_ns
            assert 0 < row.submitted_ns <= row.ended_ns


def test_without_a_rule_there_is_no_archive(tmp_path: Path, segments: tuple[SegmentInfo, ...]) -> None:
    take(tmp_path, segments[-1], None)
    assert not (tmp_path / ARCHIVE_NAME).exists()


def test_what_would_go_at_once_does_not_come(tmp_path: Path, records: list[Record]) -> None:
    opened = Record(1, RecordType.OPENED, orjson.dumps({"now_ns": 0, "wall_ns": 1, "next_run_no": 1}))
    segments = make_folder(tmp_path, [opened, *(record._replace(lsn=record.lsn + 1) for record in records)])
    take(tmp_path, segments[-1], ArchiveRule(10**9, {"state:failed": None}))
    assert numbers(tmp_path) == []


@pytest.mark.parametrize("rule", [ArchiveRule(10**9), ArchiveRule(7 * 86_400 * 10**9)])
def test_the_archive_lets_nobody_go_for_an_end_by_a_clock_that_is_lost(
    tmp_path: Path, segments: tuple[SegmentInfo, ...], rule: ArchiveRule
) -> None:
    """There is no record of an opening, so how long ago these runs ended nobody can tell."""
    before_ns = time.time_ns()
    take(tmp_path, segments[-1], rule)
    with archive_of(tmp_path) as archive:
        assert len(list(archive.summaries())) > KEPT
        assert (archive.due_ns(None) or 0) >= before_ns + (rule.ttl_ns or 0)


def test_no_file_is_made_before_the_first_run_comes(tmp_path: Path, segments: tuple[SegmentInfo, ...]) -> None:
    take(tmp_path, segments[1])
    assert not (tmp_path / ARCHIVE_NAME).exists()


def test_many_come_in_several_transactions(
    tmp_path: Path, records: list[Record], segments: tuple[SegmentInfo, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BATCH_RUNS", 3)
    take(tmp_path, segments[-1])
    assert numbers(tmp_path) == let_go(records, segments[-1].first_lsn)


class Crashed(BaseException):
    """A process that is killed."""


@pytest.mark.parametrize("where", ["put", "settle", "checkpoint"])
def test_a_crash_loses_none_and_archives_none_twice(
    tmp_path: Path,
    records: list[Record],
    segments: tuple[SegmentInfo, ...],
    monkeypatch: pytest.MonkeyPatch,
    where: str,
) -> None:
    half = segments[len(segments) // 2]
    take(tmp_path, half)
    done = {"put": (ArchiveFile, "put"), "settle": (ArchiveFile, "settle"), "checkpoint": (CheckpointFile, "put")}
    owner, name = done[where]
    with monkeypatch.context() as patch:
        patch.setattr(module, "BATCH_RUNS", 2)
        real = getattr(owner, name)

        def dies(*args: Any, **more: Any) -> None:
            if where == "put":  # when it was done
                real(*args, **more)
            raise Crashed

        patch.setattr(owner, name, dies)
        with pytest.raises(Crashed):
            take(tmp_path, segments[-1])
    with StateFolder.open(tmp_path) as folder:
        checkpoint = CheckpointFile.read(folder.path, folder.uuid)
        assert checkpoint is not None
        with checkpoint:
            assert checkpoint.lsn == half.first_lsn - 1
    take(tmp_path, segments[-1])
    assert numbers(tmp_path) == let_go(records, segments[-1].first_lsn)


def test_records_that_were_through_are_not_archived_again(
    tmp_path: Path, records: list[Record], segments: tuple[SegmentInfo, ...]
) -> None:
    """The checkpoint is lost, the log is whole: what was deleted since stays deleted."""
    take(tmp_path, segments[-2])
    before = numbers(tmp_path)
    with StateFolder.open(tmp_path) as folder, ArchiveFile.write(folder.path, folder.uuid) as archive:
        assert archive.forget(before[0])
    (tmp_path / "checkpoint.db").unlink()
    take(tmp_path, segments[-1])
    assert numbers(tmp_path) == let_go(records, segments[-1].first_lsn)[1:]


def test_what_was_forgotten_before_does_not_come(
    tmp_path: Path, records: list[Record], segments: tuple[SegmentInfo, ...]
) -> None:
    with StateFolder.open(tmp_path) as folder, ArchiveFile.write(folder.path, folder.uuid) as archive:
        assert not archive.forget(2)
        assert not archive.forget(RUNS)
    take(tmp_path, segments[-1])
    assert 2 not in numbers(tmp_path)
    assert len(numbers(tmp_path)) == len(let_go(records, segments[-1].first_lsn)) - 1
    with archive_of(tmp_path) as archive:
        assert archive.forgotten() == {RUNS}, "that one has not come by yet"


def test_a_damaged_archive_is_set_aside(tmp_path: Path, segments: tuple[SegmentInfo, ...]) -> None:
    take(tmp_path, segments[3])
    with sqlite3.connect(tmp_path / ARCHIVE_NAME) as database:
        database.execute("DELETE FROM meta")
    database.close()
    assert take(tmp_path, segments[-1]).lsn == segments[-1].first_lsn - 1
    assert (tmp_path / (ARCHIVE_NAME + DAMAGED)).exists()
    assert numbers(tmp_path)


def test_an_opening_sets_aside_what_it_sees_to_be_damaged(tmp_path: Path, segments: tuple[SegmentInfo, ...]) -> None:
    take(tmp_path, segments[3])
    with StateFolder.open(tmp_path) as folder:
        assert module.set_aside_damaged(folder) == ""
        assert numbers(tmp_path)
        (tmp_path / ARCHIVE_NAME).write_bytes(b"x" * 5000)
        assert "damaged" in module.set_aside_damaged(folder)
        assert (tmp_path / (ARCHIVE_NAME + DAMAGED)).read_bytes() == b"x" * 5000
        assert module.set_aside_damaged(folder) == ""
    assert numbers(tmp_path) == []


def test_without_room_no_checkpoint_is_taken(
    tmp_path: Path, segments: tuple[SegmentInfo, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the records of which the archive is made could go."""

    def full(*_: Any) -> None:
        raise DiskFull("no space for the archive")

    monkeypatch.setattr(ArchiveFile, "put", full)
    with pytest.raises(DiskFull):
        take(tmp_path, segments[-1])
    with StateFolder.open(tmp_path) as folder:
        assert CheckpointFile.read(folder.path, folder.uuid) is None


@pytest.fixture
def blob_folder(tmp_path: Path) -> tuple[SegmentInfo, ...]:
    store = BlobStore(tmp_path / "blobs", fsync=False)
    with StateFolder.open(tmp_path):
        pass
    name = store.write("s-1/0-1", "bytes", BLOB)
    value = {EXTENSION: ["blob", name, "bytes", len(BLOB[0]), 0]}
    return make_folder(tmp_path, forgetful_log(value))


@pytest.mark.parametrize("links", [True, False])
def test_large_values_stay_when_the_engine_removes_them(
    tmp_path: Path, blob_folder: tuple[SegmentInfo, ...], monkeypatch: pytest.MonkeyPatch, links: bool
) -> None:
    def refused(*_: Any) -> None:
        raise PermissionError(1, "no links here")

    if not links:
        monkeypatch.setattr(module.os, "link", refused)
    take(tmp_path, blob_folder[-1])
    with archive_of(tmp_path) as archive:
        (name,) = archive.blobs(1)
        assert archive.blobs(2) == [], "its folder is not there"
    BlobStore(tmp_path / "blobs").remove_run("s-1")
    assert (tmp_path / "archive" / name).read_bytes() == BLOB[0]
    assert [path.name for path in (tmp_path / "archive").rglob("*.part")] == []


def test_a_large_value_that_is_gone_is_no_obstacle(tmp_path: Path, blob_folder: tuple[SegmentInfo, ...]) -> None:
    for path in (tmp_path / "blobs" / "s-1").iterdir():
        path.unlink()
    take(tmp_path, blob_folder[-1])
    with archive_of(tmp_path) as archive:
        assert archive.blobs(1) == []
        assert archive.run(1)
