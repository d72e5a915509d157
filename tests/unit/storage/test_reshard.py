"""The log of a folder in another number of shards: the same records and LSNs, whatever happens on the way."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from actors.protocol.errors import (
    CheckpointUnusable,
    ConfigurationError,
    DiskFull,
    LogCorrupt,
    StateFolderError,
    StateFolderInUse,
)
from actors.protocol.records import Record, RecordType
from runtime.storage import reshard as module
from runtime.storage.checkpoint import CHECKPOINT_NAME
from runtime.storage.files import DiskFiles
from runtime.storage.folder import IDENTITY_NAME, StateFolder
from runtime.storage.reader import read_log
from runtime.storage.report import RecoveryReport
from runtime.storage.reshard import reshard
from runtime.storage.salvage import mend_log
from runtime.storage.sharded_tail import open_tail
from runtime.storage.verify import verify
from runtime.storage.wal import LogWriter
from tests.unit.storage.shards import new_disk, place_of, records_from, recover
from tests.unit.storage.states import busy_log, make_folder, put_checkpoint
from tests.unit.storage.states import cut as cut_below


def content(state: Path) -> tuple[list[Record], RecoveryReport]:
    """All records of a folder."""
    with StateFolder.open(state, create=False, owner=False) as folder:
        log = read_log(folder.log, DiskFiles())
        return list(log), log.report()


def write(state: Path, count: int, random: Random, *, shards: int | None = None, closed: bool = True) -> None:
    """Append records, several segments of them."""
    with StateFolder.open(state, log_shards=shards) as folder:
        log = read_log(folder.log, DiskFiles())
        assert list(log) is not None
        writer = LogWriter(folder.log, DiskFiles(), log.report(), segment_bytes=5000)
        for _ in range(count // 4):
            writer.write(records_from(writer.next_lsn, 4, random), sync=False)
        writer.close() if closed else writer.abandon()


def cut(state: Path) -> None:
    """Remove the first segments, as retention does."""
    with StateFolder.open(state) as folder:
        log = read_log(folder.log, DiskFiles())
        assert list(log)
        writer = LogWriter(folder.log, DiskFiles(), log.report())
        writer.remove_below(writer.segments()[2].no)
        writer.abandon()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=20)
@given(seed=st.integers(0, 1 << 16), ways=st.lists(st.integers(1, 5), min_size=1, max_size=4))
def test_any_way_through_numbers_of_shards_keeps_all_records(seed: int, ways: list[int], tmp_path: Path) -> None:
    random, state = Random(seed), tmp_path / os.urandom(6).hex()
    write(state, 120, random, shards=ways[0], closed=random.random() < 0.5)
    if random.random() < 0.5:
        cut(state)
    for shards in ways:
        before, _ = content(state)
        moved = reshard(state, shards)
        after, report = content(state)
        assert moved.records == (len(before) if moved.shards_before != shards else 0)
        assert (verify(state).log.records, verify(state).log_shards) == (len(before), shards)
        assert after == before
        assert report.clean
        assert verify(state).sound
        with StateFolder.open(state, create=False, owner=False) as folder:
            assert folder.log_shards == shards
            with open_tail(folder.log) as tail:
                tail.seek(before[len(before) // 2].lsn)
                assert tail.read()[0] == before[len(before) // 2]
        write(state, 8, random)
    assert len([name for name in os.listdir(state) if name.startswith("log")]) == 1


def test_marks_stay_so_that_lsns_do(tmp_path: Path) -> None:
    random = Random(1)
    write(tmp_path, 100, random, shards=1)
    with StateFolder.open(tmp_path) as folder:
        path = Path(folder.log.folder) / "00000002.seg"
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 255
        path.write_bytes(data)
        with pytest.raises(LogCorrupt):
            content(tmp_path)
    with pytest.raises(LogCorrupt):
        reshard(tmp_path, 3)
    assert sorted(name for name in os.listdir(tmp_path) if name.startswith("log")) == ["log"]
    with StateFolder.open(tmp_path) as folder:
        log = read_log(folder.log, DiskFiles(), salvage=True)
        assert list(log)
        mend_log(folder.log, DiskFiles(), log.report())
    before, old = content(tmp_path)
    for shards in (3, 2, 1):
        reshard(tmp_path, shards)
        after, report = content(tmp_path)
        assert (after, report.known_gaps) == (before, old.known_gaps)
    assert old.known_gaps


def test_an_empty_log_can_be_moved(tmp_path: Path) -> None:
    StateFolder.open(tmp_path).close()
    report = reshard(tmp_path, 3)
    assert (report.shards_before, report.shards, report.records) == (1, 3, 0)
    write(tmp_path, 8, Random(1))
    assert len(content(tmp_path)[0]) == 8


def test_the_same_number_changes_nothing(tmp_path: Path) -> None:
    write(tmp_path, 8, Random(1), shards=2)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file() and path.name != "lock"}
    report = reshard(tmp_path, 2)
    assert (report.shards_before, report.shards, report.removed) == (2, 2, ())
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file() and path.name != "lock"} == before


@pytest.mark.parametrize("shards", [0, -1, 65, True, 2.0, "2", None])
def test_a_number_out_of_range_is_refused(shards: Any, tmp_path: Path) -> None:
    write(tmp_path, 4, Random(1))
    with pytest.raises(ConfigurationError, match="1 to 64 shards"):
        reshard(tmp_path, shards)


def test_a_folder_that_is_open_is_refused(tmp_path: Path) -> None:
    with StateFolder.open(tmp_path), pytest.raises(StateFolderInUse):
        reshard(tmp_path, 2)


def test_what_is_no_state_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StateFolderError):
        reshard(tmp_path / "nothing", 2)


class Watched(DiskFiles):
    """The real disk; calls back before every operation that changes it."""

    def __init__(self, before: Callable[[str], None]) -> None:
        self._before = before

    def __getattribute__(self, name: str) -> Any:
        found = object.__getattribute__(self, name)
        if name in ("create", "open", "rename", "remove", "make_folder", "sync_folder"):
            before = object.__getattribute__(self, "_before")

            def told(*arguments: Any) -> Any:
                before(name)
                return found(*arguments)

            return told
        return found


@pytest.mark.parametrize(("shards", "to"), [(1, 3), (3, 1), (2, 3)])
def test_a_kill_at_any_step_leaves_one_whole_log(shards: int, to: int, tmp_path: Path) -> None:
    state, shots = tmp_path / "state", []
    write(state, 60, Random(2), shards=shards)
    before, _ = content(state)

    def shoot(operation: str) -> None:
        shots.append(tmp_path / f"shot{len(shots)}")
        shutil.copytree(state, shots[-1])

    reshard(state, to, files=Watched(shoot))
    assert len(shots) > 15
    lies_in = set()
    for shot in shots:
        assert content(shot)[0] == before
        with StateFolder.open(shot) as folder:
            lies_in.add(folder.log_shards)
        assert verify(shot).sound
        report = reshard(shot, to)
        assert report.shards == to
        assert content(shot)[0] == before
        assert len([name for name in os.listdir(shot) if name.startswith("log")]) == 1
    assert lies_in == {shards, to}


@pytest.mark.parametrize("shards", [1, 3])
def test_all_of_it_is_durable_before_the_switch(shards: int) -> None:
    random, disk = Random(4), new_disk(4, shards)
    place = place_of(shards)
    writer = LogWriter(place, disk, recover(disk, place)[1], segment_bytes=4000)
    records = records_from(1, 90, random)
    for start in range(0, 90, 9):
        writer.write(records[start : start + 9], sync=False)
    writer.close()
    to = replace(place, folder="/log-2", shards=2)
    for path in (to.folder, *(part.folder for part in to.parts())):
        disk.make_folder(path)
    module._copy(place, to, disk)
    for outcome in range(20):
        assert recover(disk.after_power_cut(outcome), to)[0] == records


def test_a_leftover_is_told_and_removed(tmp_path: Path) -> None:
    write(tmp_path, 8, Random(1))
    shutil.copytree(tmp_path / "log", tmp_path / "log-2")
    assert [note for note in verify(tmp_path).notes if note.startswith("log-2/: a log that is not in use")]
    report = reshard(tmp_path, 1)
    assert report.removed == ("log-2",)
    assert verify(tmp_path).notes == ()


def test_a_log_is_not_removed_where_the_one_in_use_is_empty(tmp_path: Path) -> None:
    """As after an old identity file was put back."""
    write(tmp_path, 8, Random(1))
    identity = (tmp_path / IDENTITY_NAME).read_text()
    reshard(tmp_path, 2)
    (tmp_path / IDENTITY_NAME).write_text(identity)
    with pytest.raises(StateFolderError, match="log-2: which one is it"):
        reshard(tmp_path, 2)
    assert (tmp_path / "log-2" / "0").is_dir()


def test_no_room_leaves_the_old_log(tmp_path: Path) -> None:
    write(tmp_path, 40, Random(1))
    before, _ = content(tmp_path)
    for fails_at in range(1, 12):
        count = 0

        def full(operation: str, fails_at: int = fails_at) -> None:
            nonlocal count
            count += 1
            if count == fails_at:
                raise OSError(errno.ENOSPC, "full")

        with pytest.raises((DiskFull, StateFolderError)):
            reshard(tmp_path, 3, files=Watched(full))
        assert content(tmp_path)[0] == before
        assert sorted(name for name in os.listdir(tmp_path) if name.startswith("log")) == ["log"]


def test_what_was_written_is_read_again_before_the_switch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, 40, Random(1))
    before, _ = content(tmp_path)
    real = module._write

    def forgetful(writer: Any, records: list[Record]) -> None:
        real(writer, [record._replace(payload=b"other") if record.lsn == 17 else record for record in records])

    monkeypatch.setattr(module, "_write", forgetful)
    with pytest.raises(Exception, match="not the one that was read"):
        reshard(tmp_path, 3)
    assert content(tmp_path)[0] == before
    assert "log" not in json.loads((tmp_path / IDENTITY_NAME).read_text())


@pytest.mark.parametrize("how", ["damaged", "missing"])
def test_a_checkpoint_that_cannot_be_used_is_refused_and_nothing_is_moved(tmp_path: Path, how: str) -> None:
    records = busy_log()
    records.append(Record(records[-1].lsn + 1, RecordType.CHECKPOINT, orjson.dumps([4])))
    segments = make_folder(tmp_path, records)
    put_checkpoint(tmp_path, records, 4)
    cut_below(tmp_path, segments[1].no)
    if how == "missing":
        (tmp_path / CHECKPOINT_NAME).unlink()
    else:
        (tmp_path / CHECKPOINT_NAME).write_bytes(b"x" * 5000)
    before = content(tmp_path)
    with pytest.raises(CheckpointUnusable):
        reshard(tmp_path, 2)
    assert content(tmp_path) == before
    assert not (tmp_path / "log-2").exists()
