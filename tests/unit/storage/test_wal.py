"""The writer: batches, segments, and what it does when the disk refuses."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from actors.protocol.errors import DiskFull, LogCorrupt, LogFailed, ProtocolError, StateFolderError
from actors.protocol.records import Record
from runtime.storage.files import ASIDE, DiskFiles
from runtime.storage.reader import RecoveryReport, read_log
from runtime.storage.segment import BARRIER, LogPlace, SegmentInfo, search_records, segment_name
from runtime.storage.wal import LogWriter
from tests.sim.disk import FakeDisk
from tests.unit.storage.logs import PLACE, new_disk, open_writer, path_of, records_from, recover, write_batches


def flags_in(disk: FakeDisk, no: int = 1) -> list[int]:
    return [found.flags for found in search_records(disk.read(path_of(no)), 0, PLACE.seed, 1)]


def test_what_was_written_is_read() -> None:
    disk = new_disk()
    written = write_batches(disk, [1, 2, 3])
    found, report = recover(disk)
    assert found == written
    assert report.next_lsn == 7
    assert report.clean


def test_a_new_log_has_one_empty_segment() -> None:
    disk = new_disk()
    writer = open_writer(disk)
    assert writer.segments() == [SegmentInfo(1, 1, 0, 48)]
    writer.close()
    assert recover(disk)[1].next_lsn == 1


def test_a_batch_is_one_write_and_one_sync() -> None:
    disk = new_disk()
    writer = open_writer(disk)
    del disk.log[:]
    writer.write(records_from(1, 500), sync=True)
    assert disk.log == ["write", "sync"]
    writer.close()


def test_without_sync_the_file_is_synced_at_close() -> None:
    disk = new_disk()
    writer = open_writer(disk)
    del disk.log[:]
    writer.write(records_from(1, 5), sync=False)
    assert disk.log == ["write"]
    writer.close()
    assert disk.log == ["write", "sync", "write", "sync"]


def test_an_orderly_close_leaves_nothing_in_doubt() -> None:
    disk = new_disk()
    writer = open_writer(disk)
    writer.write(records_from(1, 5), sync=True)
    writer.close()
    found, report = recover(disk)
    assert (len(found), report.records, report.next_lsn) == (5, 5, 7)
    for offset in range(48, 48 + 5 * 44):
        disk.flip(path_of(1), offset)
        with pytest.raises(LogCorrupt):
            recover(disk)
        disk.flip(path_of(1), offset)


def test_closing_without_having_written_adds_nothing() -> None:
    disk = new_disk()
    write_batches(disk, [2])
    for _ in range(3):
        open_writer(disk).close()
    assert recover(disk)[1].next_lsn == 3


def test_a_full_disk_does_not_hinder_closing() -> None:
    disk = new_disk()
    writer = open_writer(disk)
    writer.write(records_from(1, 2), sync=False)
    disk.capacity = 0
    writer.close()
    assert len(recover(disk.after_power_cut(1))[0]) == 2


def test_an_empty_batch_with_sync_makes_earlier_ones_durable() -> None:
    disk = new_disk()
    writer = open_writer(disk)
    writer.write(records_from(1, 5), sync=False)
    del disk.log[:]
    writer.write([], sync=True)
    writer.write([], sync=True)
    assert disk.log == ["sync"]
    writer.close()


def test_barriers_stand_where_everything_before_is_durable() -> None:
    disk = new_disk()
    writer = open_writer(disk)
    writer.write(records_from(1, 2), sync=True)
    writer.write(records_from(3, 1), sync=False)
    writer.write(records_from(4, 1), sync=False)
    writer.write(records_from(5, 1), sync=True)
    writer.write(records_from(6, 1), sync=True)
    writer.close()
    assert flags_in(disk) == [BARRIER, 0, BARRIER, 0, 0, BARRIER, BARRIER]


def test_lsns_must_follow() -> None:
    disk = new_disk()
    writer = open_writer(disk)
    writer.write(records_from(1, 2), sync=True)
    with pytest.raises(ProtocolError):
        writer.write(records_from(4, 1), sync=True)
    writer.write(records_from(3, 1), sync=True)
    writer.close()
    assert [record.lsn for record in recover(disk)[0]] == [1, 2, 3]


def test_reopening_goes_on_in_the_last_segment() -> None:
    disk = new_disk()
    write_batches(disk, [3, 3])
    write_batches(disk, [2])
    assert disk.list("/log") == ["00000001.seg"]
    assert [record.lsn for record in recover(disk)[0]] == list(range(1, 9))
    assert flags_in(disk)[6] == BARRIER


def test_reopening_makes_durable_what_a_killed_process_left() -> None:
    disk = new_disk()
    writer = open_writer(disk)
    writer.write(records_from(1, 3), sync=False)
    open_writer(disk).close()
    assert [record.lsn for record in recover(disk.after_power_cut(1))[0]] == [1, 2, 3]
    writer.close()


def test_a_segment_is_closed_when_it_is_large_enough() -> None:
    disk = new_disk()
    written = write_batches(disk, [4] * 6, segment_bytes=300)
    found, report = recover(disk)
    assert found == written
    assert [(info.no, info.first_lsn, info.last_lsn) for info in report.segments] == [
        (1, 1, 8),
        (2, 9, 16),
        (3, 17, 24),
    ]
    assert [info.bytes for info in report.segments] == [disk.size(path_of(no)) for no in (1, 2, 3)]


@pytest.mark.parametrize("sync", [True, False])
def test_a_closed_segment_is_durable_before_the_next_exists(sync: bool) -> None:
    disk = new_disk()
    writer = open_writer(disk, 300)
    while len(writer.segments()) < 3:
        writer.write(records_from(writer.next_lsn, 4), sync=sync)
    last_closed = writer.segments()[1].last_lsn
    for seed in range(20):
        found, _ = recover(disk.after_power_cut(seed))
        assert len(found) >= last_closed
    writer.close()


def test_it_says_before_that_a_write_will_change_the_segment() -> None:
    disk = new_disk()
    writer = open_writer(disk, 300)
    changes = []
    for _ in range(5):
        changes.append((writer.changes_segment, writer.active.no))
        writer.write(records_from(writer.next_lsn, 4), sync=False)
    assert changes == [(False, 1), (False, 1), (True, 1), (False, 2), (True, 2)]
    writer.close()


def test_segments_in_memory_and_on_disk_agree() -> None:
    disk = new_disk()
    writer = open_writer(disk, 300)
    for count in (1, 5, 2, 9, 3):
        writer.write(records_from(writer.next_lsn, count), sync=True)
    assert writer.segments() == list(recover(disk)[1].segments)
    assert writer.active == writer.segments()[-1]
    writer.close()


def test_old_segments_go_oldest_first_and_never_the_active_one() -> None:
    disk = new_disk()
    writer = open_writer(disk, 300)
    for _ in range(8):
        writer.write(records_from(writer.next_lsn, 4), sync=True)
    writer.remove_below(3)
    assert [info.no for info in writer.segments()] == [3, 4]
    assert sorted(disk.list("/log")) == ["00000003.seg", "00000004.seg"]
    writer.remove_below(3)
    writer.remove_below(100)
    assert [info.no for info in writer.segments()] == [4]
    writer.write(records_from(writer.next_lsn, 1), sync=True)
    writer.close()
    found, report = recover(disk)
    assert [record.lsn for record in found] == list(range(25, 34))
    assert report.next_lsn == 35
    write_batches(disk, [1])
    assert [record.lsn for record in recover(disk)[0]] == [*range(25, 34), 35]


def test_before_segments_go_the_log_is_synced() -> None:
    disk = new_disk()
    writer = open_writer(disk, 300)
    for _ in range(5):
        writer.write(records_from(writer.next_lsn, 4), sync=False)
    del disk.log[:]
    writer.remove_below(2)
    assert disk.log == ["sync", "remove", "sync_folder"]
    writer.close()


def test_a_segment_that_cannot_be_removed_stays_known() -> None:
    disk = new_disk()
    writer = open_writer(disk, 300)
    for _ in range(8):
        writer.write(records_from(writer.next_lsn, 4), sync=True)
    disk.fail("remove", errno.EACCES)
    with pytest.raises(StateFolderError):
        writer.remove_below(3)
    assert [info.no for info in writer.segments()] == [1, 2, 3, 4]
    writer.remove_below(3)
    assert [info.no for info in writer.segments()] == [3, 4]
    writer.close()


@pytest.mark.parametrize("room", range(0, 200, 7))
@pytest.mark.parametrize("write_bytes_max", [1, 50, 1000])
def test_a_full_disk_leaves_no_trace_and_the_batch_may_come_again(room: int, write_bytes_max: int) -> None:
    disk = new_disk()
    writer = open_writer(disk)
    writer.write(records_from(1, 2), sync=True)
    size = disk.size(path_of(1))
    disk.write_bytes_max = write_bytes_max
    disk.capacity = size + room
    batch = records_from(3, 5)
    with pytest.raises(DiskFull):
        writer.write(batch, sync=True)
    assert disk.size(path_of(1)) == size
    assert writer.next_lsn == 3
    disk.capacity = 1 << 20
    writer.write(batch, sync=True)
    writer.close()
    found, report = recover(disk)
    assert len(found) == 7
    assert report.clean


def test_a_full_disk_while_changing_segments_keeps_the_old_one() -> None:
    disk = new_disk()
    writer = open_writer(disk, 100)
    writer.write(records_from(1, 3), sync=True)
    disk.capacity = disk.size(path_of(1)) + 10
    for _ in range(3):
        with pytest.raises(DiskFull):
            writer.write(records_from(4, 1), sync=True)
        assert disk.list("/log") == ["00000001.seg"]
    disk.capacity = 1 << 20
    writer.write(records_from(4, 1), sync=True)
    writer.close()
    assert [info.no for info in recover(disk)[1].segments] == [1, 2]


def test_a_quota_is_a_full_disk() -> None:
    disk = new_disk()
    writer = open_writer(disk)
    disk.fail("write", errno.EDQUOT)
    with pytest.raises(DiskFull):
        writer.write(records_from(1, 1), sync=True)
    writer.write(records_from(1, 1), sync=True)
    writer.close()


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
def test_a_failed_sync_poisons_the_writer_for_ever(error: int) -> None:
    disk = new_disk()
    writer = open_writer(disk)
    writer.write(records_from(1, 1), sync=True)
    disk.fail("sync", error)
    with pytest.raises(LogFailed):
        writer.write(records_from(2, 1), sync=True)
    del disk.log[:]
    for _ in range(3):
        with pytest.raises(LogFailed):
            writer.write(records_from(3, 1), sync=True)
        with pytest.raises(LogFailed):
            writer.write([], sync=True)
    writer.close()
    assert disk.log == []
    assert len(recover(disk.after_power_cut(1))[0]) == 1


def test_a_write_error_poisons_the_writer() -> None:
    disk = new_disk()
    writer = open_writer(disk)
    disk.fail("write", errno.EIO)
    with pytest.raises(LogFailed):
        writer.write(records_from(1, 1), sync=True)
    with pytest.raises(LogFailed):
        writer.write(records_from(1, 1), sync=True)
    writer.close()


def test_a_closed_writer_refuses() -> None:
    writer = open_writer(new_disk())
    writer.close()
    writer.close()
    with pytest.raises(LogFailed, match="closed"):
        writer.write(records_from(1, 1), sync=True)


def test_a_torn_tail_is_cut_on_opening_but_not_by_reading() -> None:
    disk = new_disk()
    written = write_batches(disk, [3])
    data = disk.read(path_of(1))
    disk.put(path_of(1), data[:-1])
    found, report = recover(disk)
    assert found == written[:2]
    assert disk.size(path_of(1)) == len(data) - 1
    writer = LogWriter(PLACE, disk, report)
    assert disk.size(path_of(1)) == report.segments[0].bytes
    writer.write([Record(3, 1, b"again")], sync=True)
    writer.close()
    assert recover(disk)[0] == [*written[:2], Record(3, 1, b"again")]


def test_files_that_were_not_in_place_are_removed() -> None:
    disk = new_disk()
    disk.put(path_of(2) + ASIDE, b"half a header")
    open_writer(disk).close()
    assert disk.list("/log") == ["00000001.seg"]


def test_a_log_that_shrank_since_it_was_read_is_refused() -> None:
    disk = new_disk()
    write_batches(disk, [3])
    _, report = recover(disk)
    disk.put(path_of(1), disk.read(path_of(1))[:-5])
    with pytest.raises(LogCorrupt):
        LogWriter(PLACE, disk, report)


def test_a_log_with_gaps_must_be_mended_first() -> None:
    disk = new_disk()
    write_batches(disk, [3, 3])
    disk.flip(path_of(1), 60)
    _, report = recover(disk, salvage=True)
    with pytest.raises(LogCorrupt, match="mended"):
        LogWriter(PLACE, disk, report)


@pytest.mark.parametrize("operation", ["create", "write", "sync", "rename", "sync_folder"])
def test_a_log_that_cannot_begin_says_so_and_leaks_nothing(operation: str) -> None:
    disk = new_disk()
    report: RecoveryReport = recover(disk)[1]
    for error, expected in ((errno.EIO, LogFailed), (errno.ENOSPC, DiskFull)):
        disk.fail(operation, error)
        with pytest.raises(expected):
            LogWriter(PLACE, disk, report)
        assert disk.files_open == 0
    LogWriter(PLACE, disk, recover(disk)[1]).close()
    assert disk.files_open == 0


# --- on the real disk ---------------------------------------------------------------------------------------------


def real_place(path: Path) -> LogPlace:
    (path / "log").mkdir()
    return LogPlace(str(path / "log"), PLACE.uuid)


def real_writer(place: LogPlace, segment_bytes: int = 1 << 20) -> LogWriter:
    log = read_log(place, DiskFiles())
    for _ in log:
        pass
    return LogWriter(place, DiskFiles(), log.report(), segment_bytes=segment_bytes)


def test_s12_a_limit_of_the_kernel_is_a_full_disk(tmp_path: Path) -> None:
    place = real_place(tmp_path)
    writer = real_writer(place)
    writer.write(records_from(1, 50), sync=True)
    size = writer.active.bytes
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 1000, before[1]))
    try:
        for _ in range(3):
            with pytest.raises(DiskFull):
                writer.write(records_from(51, 50), sync=True)
            assert os.path.getsize(f"{place.folder}/{segment_name(1)}") == size
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    writer.write(records_from(51, 50), sync=True)
    writer.close()
    assert list(read_log(place, DiskFiles())) == records_from(1, 100)


@pytest.mark.slow
def test_threads_take_turns(tmp_path: Path) -> None:
    place = real_place(tmp_path)
    writer = real_writer(place, segment_bytes=20_000)
    done = threading.Event()

    def retain() -> None:
        while not done.is_set():
            writer.remove_below(writer.active.no - 1)

    thread = threading.Thread(target=retain)
    thread.start()
    try:
        for _ in range(150):
            writer.write(records_from(writer.next_lsn, 40), sync=False)
            writer.segments()
    finally:
        done.set()
        thread.join()
    writer.close()
    found = list(read_log(place, DiskFiles()))
    assert [record.lsn for record in found] == list(range(found[0].lsn, 6001))


WRITE_FOR_EVER = """
import sys
from uuid import UUID
from actors.protocol.records import Record
from runtime.storage.files import DiskFiles
from runtime.storage.reader import read_log
from runtime.storage.segment import LogPlace
from runtime.storage.wal import LogWriter
place = LogPlace(sys.argv[1], UUID(sys.argv[2]))
log = read_log(place, DiskFiles())
for _ in log:
    pass
writer = LogWriter(place, DiskFiles(), log.report(), segment_bytes=20_000)
while True:
    lsn = writer.next_lsn
    writer.write([Record(lsn + i, 3, b"%d" % (lsn + i) * 9) for i in range(30)], sync=True)
    print(writer.next_lsn - 1, flush=True)
"""


@pytest.mark.slow
def test_a_killed_writer_loses_nothing_it_acknowledged(tmp_path: Path) -> None:
    place = real_place(tmp_path)
    for lines in (1, 40, 9):
        command = [sys.executable, "-c", WRITE_FOR_EVER, place.folder, str(place.uuid)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            acknowledged = [int(process.stdout.readline()) for _ in range(lines)][-1]
            process.kill()
            rest = process.stdout.read().splitlines()
        if len(rest) > 1:
            acknowledged = int(rest[-2])
        log = read_log(place, DiskFiles())
        found = list(log)
        assert found == [Record(lsn, 3, b"%d" % lsn * 9) for lsn in range(1, len(found) + 1)]
        assert len(found) >= acknowledged


def test_an_abandoned_log_is_as_after_a_crash() -> None:
    disk = new_disk()
    writer = open_writer(disk)
    writer.write(records_from(1, 5), sync=False)
    del disk.log[:]
    writer.abandon()
    writer.close()
    assert disk.log == []
    assert disk.files_open == 0
    assert recover(disk)[1].next_lsn == 6
    with pytest.raises(LogFailed, match="abandoned"):
        writer.write(records_from(6, 1), sync=True)
