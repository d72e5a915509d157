"""The writer, of a log in shards: what lies where, faults as a whole, and a beginning of the log after any crash."""

from __future__ import annotations

import errno
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.protocol.errors import DiskFull, LogCorrupt, LogFailed, ProtocolError
from actors.record_runs import shard_of
from runtime.storage.files import DiskFiles
from runtime.storage.reader import read_log
from runtime.storage.segment import LogPlace, segment_name
from runtime.storage.wal import LogWriter
from tests.unit.storage.shards import (
    UUID_HERE,
    new_disk,
    open_writer,
    path_of,
    place_of,
    record_of,
    records_from,
    recover,
)


@given(shards=st.integers(2, 5), batches=st.lists(st.integers(1, 6), max_size=20), seed=st.integers(0, 1 << 16))
def test_merged_shards_are_the_log_without_shards(shards: int, batches: list[int], seed: int) -> None:
    random, disk, plain = Random(seed), new_disk(shards=shards), new_disk()
    place, whole = place_of(shards), LogPlace("/log", UUID_HERE)
    writer = open_writer(disk, random, place, segment_bytes=1500)
    log = read_log(whole, plain)
    other = LogWriter(whole, plain, (list(log), log.report())[1], segment_bytes=1500)
    for count in batches:
        records = records_from(writer.next_lsn, count, random)
        for one in (writer, other):
            one.write(records, sync=random.random() < 0.5)
    writer.close()
    other.close()
    found, report = recover(disk, place)
    log = read_log(whole, plain)
    assert found == list(log)
    assert (report.next_lsn, report.records, report.clean) == (log.report().next_lsn, log.report().records, True)


def test_a_run_lies_on_one_shard_and_runs_are_spread() -> None:
    random, disk = Random(1), new_disk()
    writer = open_writer(disk, random)
    records = records_from(1, 300, random)
    writer.write(records, sync=True)
    on = [sum(shard_of(r.type, r.payload, 3) == shard for r in records) for shard in range(3)]
    assert min(on) > 30
    for shard, count in enumerate(on):
        part = read_log(LogPlace(f"/log/{shard}", UUID_HERE, 1, shard), disk, salvage=True)
        assert len(list(part)) == count


def test_shards_change_segments_together_and_are_cut_together() -> None:
    random, disk = Random(2), new_disk()
    writer = open_writer(disk, random, segment_bytes=2000)
    while len(writer.segments()) < 5:
        writer.write(records_from(writer.next_lsn, 3, random), sync=True)
    third = writer.segments()[2]
    for shard in range(3):
        assert sorted(disk.list(f"/log/{shard}")) == [segment_name(no) for no in range(1, 6)]
    writer.remove_below(third.no)
    for shard in range(3):
        assert sorted(disk.list(f"/log/{shard}")) == [segment_name(no) for no in range(3, 6)]
    found, report = recover(disk)
    assert found[0].lsn == third.first_lsn == report.segments[0].first_lsn
    assert [tuple(info) for info in report.segments] == [tuple(info) for info in writer.segments()]


def test_a_batch_that_finds_no_room_on_one_shard_is_cut_off_all_and_may_come_again() -> None:
    random, disk = Random(3), new_disk()
    writer = open_writer(disk, random)
    writer.write(records_from(1, 5, random), sync=True)
    before = {shard: disk.size(path_of(shard, 1)) for shard in range(3)}
    batch = records_from(6, 40, random)
    disk.capacity = sum(before.values()) + sum(len(r.payload) for r in batch) // 2
    with pytest.raises(DiskFull):
        writer.write(batch, sync=True)
    assert {shard: disk.size(path_of(shard, 1)) for shard in range(3)} == before
    disk.capacity = 1 << 40
    writer.write(batch, sync=True)
    assert recover(disk)[0][5:] == batch


def test_no_room_for_a_segment_leaves_the_old_one() -> None:
    random, disk = Random(4), new_disk()
    writer = open_writer(disk, random, segment_bytes=200)
    while not writer.changes_segment:
        writer.write(records_from(writer.next_lsn, 1, random), sync=True)
    have = sum(disk.size(path_of(shard, 1)) for shard in range(3))
    for room in (0, 30, 60, 100, 130):
        disk.capacity = have + room
        with pytest.raises(DiskFull):
            writer.write(records_from(writer.next_lsn, 1, random), sync=True)
        assert len(recover(disk.after_kill())[1].segments) == 1
        assert all(disk.list(f"/log/{shard}") == [segment_name(1)] for shard in range(3))
    disk.capacity = 1 << 40
    writer.write(records_from(writer.next_lsn, 1, random), sync=True)
    assert len(recover(disk)[1].segments) == 2


def test_a_failed_sync_of_one_shard_is_for_ever() -> None:
    random, disk = Random(5), new_disk()
    writer = open_writer(disk, random)
    disk.fail("sync", errno.EIO)
    with pytest.raises(LogFailed):
        writer.write(records_from(1, 20, random), sync=True)
    with pytest.raises(LogFailed):
        writer.write(records_from(1, 20, random), sync=True)
    writer.close()


def test_lsns_that_do_not_follow_are_refused() -> None:
    random, disk = Random(6), new_disk()
    writer = open_writer(disk, random)
    for wrong in ([record_of(2, random)], [record_of(1, random), record_of(3, random)]):
        with pytest.raises(ProtocolError):
            writer.write(wrong, sync=True)
    assert recover(disk)[0] == []


def test_what_one_shard_has_behind_a_gap_does_not_come_back() -> None:
    """Cut off at opening, on every shard, before other records get the same LSNs."""
    random, disk = Random(7), new_disk()
    writer = open_writer(disk, random)
    writer.write(records_from(1, 30, random), sync=True)
    batch = records_from(31, 30, random)
    writer.write(batch, sync=False)
    first = shard_of(batch[0].type, batch[0].payload, 3)
    lost = disk.after_kill()
    lost.put(path_of(first, 1), disk.read(path_of(first, 1))[: _end_of(disk, first, 30)])
    found, report = recover(lost)
    assert [r.lsn for r in found] == list(range(1, 31))
    assert report.bytes_cut
    again = open_writer(lost, random)
    new = records_from(31, 2, random)
    again.write(new, sync=True)
    assert recover(lost)[0][30:] == new


def _end_of(disk: object, shard: int, lsn: int) -> int:
    """Where the records of a shard up to this LSN end."""
    part = read_log(LogPlace(f"/log/{shard}", UUID_HERE, 1, shard), disk, salvage=True)  # type: ignore[arg-type]
    return 48 + sum(24 + len(r.payload) for r in part if r.lsn <= lsn)


def test_segments_that_a_crash_left_in_some_shards_are_removed() -> None:
    random, disk = Random(8), new_disk()
    writer = open_writer(disk, random)
    writer.write(records_from(1, 10, random), sync=True)
    header = disk.read(path_of(2, 1), 48)
    disk.put(path_of(2, 2), header)  # being made: shard 0 has none yet
    disk.put(path_of(1, 7) + ".aside", b"")
    assert len(recover(disk)[0]) == 10
    open_writer(disk, random)
    assert all(disk.list(f"/log/{shard}") == [segment_name(1)] for shard in range(3))


def test_the_file_of_another_shard_is_not_taken_for_this_ones() -> None:
    random, disk = Random(9), new_disk()
    writer = open_writer(disk, random)
    writer.write(records_from(1, 30, random), sync=True)
    disk.put(path_of(1, 1), disk.read(path_of(2, 1)))
    with pytest.raises(LogCorrupt, match="1/00000001"):
        recover(disk)


@pytest.mark.parametrize("shards", [1, 4])
def test_threads_sync_any_number_of_shards(shards: int, tmp_path: Path) -> None:
    place = LogPlace(str(tmp_path), UUID_HERE, shards)
    for part in place.parts():
        Path(part.folder).mkdir(exist_ok=True)
    log = read_log(place, DiskFiles())
    assert not list(log)
    writer = LogWriter(place, DiskFiles(), log.report())
    random = Random(1)
    for _ in range(20):
        writer.write(records_from(writer.next_lsn, 5, random), sync=True)
    writer.close()
    log = read_log(place, DiskFiles())
    assert len(list(log)) == 100
