"""Recovery: torn tails are cut, damage is told apart and located, salvage skips and reports (scenario S11)."""

from __future__ import annotations

import errno
import json
from collections.abc import Sequence

import pytest

from actors.protocol.errors import LogCorrupt, NewerFormat, ProtocolError, StateFolderError
from actors.protocol.records import RECORD_VERSION, Record
from runtime.storage import segment
from runtime.storage.reader import Gap, read_log
from runtime.storage.segment import (
    SECTOR_BYTES,
    SEGMENT_HEADER_BYTES,
    pack_records,
    pack_segment_header,
    search_records,
    segment_name,
)
from tests.sim.disk import FakeDisk
from tests.unit.storage.logs import (
    OTHER,
    PLACE,
    new_disk,
    open_writer,
    path_of,
    records_from,
    recover,
    write_batches,
)


def disk_with(sizes: Sequence[int], segment_bytes: int = 1 << 20) -> tuple[FakeDisk, list[Record]]:
    disk = new_disk()
    return disk, write_batches(disk, sizes, segment_bytes=segment_bytes)


def offsets(disk: FakeDisk, no: int = 1) -> list[int]:
    """Where the records of a segment start, and where the last one ends."""
    found = list(search_records(disk.read(path_of(no)), 0, PLACE.seed, 1))
    return [*(one.offset for one in found), found[-1].stop]


def test_no_log_at_all_is_an_empty_one() -> None:
    found, report = recover(FakeDisk())
    assert found == []
    assert report.next_lsn == 1
    assert report.segments == ()
    assert report.clean


def test_the_report_needs_the_whole_log() -> None:
    disk, _ = disk_with([3])
    log = read_log(PLACE, disk)
    with pytest.raises(ProtocolError):
        log.report()
    next(iter(log))
    with pytest.raises(ProtocolError):
        log.report()
    assert len(list(log)) == 2
    assert log.report().records == 3


def test_the_report_is_plain_json() -> None:
    disk, _ = disk_with([3])
    report = recover(disk)[1]
    assert json.loads(json.dumps(report.to_json())) == report.to_json()
    assert report.to_json()["segments"] == [{"no": 1, "first_lsn": 1, "last_lsn": 3, "bytes": report.bytes}]


# --- torn tails ---------------------------------------------------------------------------------------------------


def test_s11_the_log_cut_at_every_byte_of_its_last_record() -> None:
    disk, written = disk_with([2, 1])
    data, start = disk.read(path_of(1)), offsets(disk)[-2]
    for size in range(start, len(data)):
        disk.put(path_of(1), data[:size])
        found, report = recover(disk)
        assert found == written[:2]
        assert report.bytes_cut == size - start
        assert report.clean == (size == start)
        assert report.next_lsn == 3


@pytest.mark.parametrize("zeros", [1, 23, 24, 25, 4096])
def test_a_tail_of_zeros_is_torn(zeros: int) -> None:
    disk, written = disk_with([2, 1])
    disk.put(path_of(1), disk.read(path_of(1)) + bytes(zeros))
    found, report = recover(disk)
    assert found == written
    assert report.bytes_cut == zeros


def lose_sector(disk: FakeDisk, offset: int) -> None:
    """The sector at an offset was never written."""
    data = bytearray(disk.read(path_of(1)))
    start = offset - offset % SECTOR_BYTES
    data[start : start + SECTOR_BYTES] = bytes(len(data[start : start + SECTOR_BYTES]))
    disk.put(path_of(1), bytes(data))


def test_a_batch_whose_pages_came_in_another_order_is_torn() -> None:
    disk, written = disk_with([2, 60])
    starts = offsets(disk)
    lose_sector(disk, 1100)
    kept = max(i for i, start in enumerate(starts) if start <= 1024)
    found, report = recover(disk)
    assert found == written[:kept]
    assert report.records_cut > 20
    assert report.bytes_cut == starts[-1] - starts[kept]


def test_a_lost_sector_before_a_barrier_is_damage() -> None:
    disk, _ = disk_with([60, 1])
    lose_sector(disk, 1100)
    with pytest.raises(LogCorrupt):
        recover(disk)


def test_garbage_of_another_log_behind_the_tail_is_torn() -> None:
    disk, written = disk_with([2])
    stale, _ = pack_records(records_from(3, 4), OTHER.seed, 3, 1)
    disk.put(path_of(1), disk.read(path_of(1)) + b"".join(stale))
    assert recover(disk)[0] == written


def test_stale_records_of_the_same_log_behind_the_tail_are_not_read_again() -> None:
    disk, written = disk_with([4])
    stale, _ = pack_records(records_from(2, 2), PLACE.seed, 2, 1)
    disk.put(path_of(1), disk.read(path_of(1)) + b"".join(stale))
    found, report = recover(disk)
    assert found == written
    assert report.bytes_cut == len(b"".join(stale))


# --- damage -------------------------------------------------------------------------------------------------------


def test_s11_any_flipped_byte_before_the_last_batch_is_found_and_located() -> None:
    disk, written = disk_with([2, 2, 1])
    starts = offsets(disk)
    for offset in range(SEGMENT_HEADER_BYTES, starts[4]):
        disk.flip(path_of(1), offset)
        with pytest.raises(LogCorrupt) as caught:
            recover(disk)
        record = max(i for i, start in enumerate(starts) if start <= offset)
        assert caught.value.segment == segment_name(1)
        assert caught.value.offset == starts[record]
        found, report = recover(disk, salvage=True)
        assert found == written[:record] + written[record + 1 :]
        assert report.gaps == (
            Gap(segment_name(1), starts[record], starts[record + 1] - starts[record], record + 1, record + 1),
        )
        assert report.next_lsn == 6
        disk.flip(path_of(1), offset)


def test_any_flipped_byte_of_a_batch_is_found_even_if_nothing_was_written_since() -> None:
    disk, written = disk_with([2, 3])
    starts = offsets(disk)
    for offset in range(starts[2], starts[4]):
        disk.flip(path_of(1), offset)
        with pytest.raises(LogCorrupt):
            recover(disk)
        disk.flip(path_of(1), offset)
    for offset in range(starts[4], starts[5]):
        disk.flip(path_of(1), offset)
        assert recover(disk)[0] == written[:4]
        disk.flip(path_of(1), offset)


def test_it_is_the_same_without_sync() -> None:
    disk, _ = disk_with([])
    writer = open_writer(disk)
    for _ in range(4):
        writer.write(records_from(writer.next_lsn, 15), sync=False)
    disk.flip(path_of(1), 1100)
    with pytest.raises(LogCorrupt):
        recover(disk)
    disk.flip(path_of(1), 1100)
    lose_sector(disk, 1100)
    found, report = recover(disk)
    assert len(found) == 22
    assert report.records_cut == 60 - 22 - 12


@pytest.mark.parametrize("cut", [1, 30, 44, 60])
def test_a_closed_segment_that_lost_its_end_is_damage(cut: int) -> None:
    disk, written = disk_with([4] * 4, 150)
    data = disk.read(path_of(1))
    disk.put(path_of(1), data[:-cut])
    with pytest.raises(LogCorrupt) as caught:
        recover(disk)
    assert caught.value.segment in (segment_name(1), segment_name(2))
    found, report = recover(disk, salvage=True)
    kept = 4 - -(-cut // 44)
    assert found == written[:kept] + written[4:]
    assert report.gaps[-1].lsn_to == 4


def test_a_missing_segment_in_the_middle_is_damage() -> None:
    disk, written = disk_with([4] * 4, 150)
    disk.remove(path_of(2))
    with pytest.raises(LogCorrupt, match="LSNs 5 to 8 are missing"):
        recover(disk)
    found, report = recover(disk, salvage=True)
    assert found == written[:4] + written[8:]
    assert report.gaps == (Gap(segment_name(3), 0, 0, 5, 8),)


@pytest.mark.parametrize("no", [1, 2, 4])
def test_a_damaged_segment_header_loses_no_record_to_salvage(no: int) -> None:
    disk, written = disk_with([4] * 4, 150)
    disk.flip(path_of(no), 20)
    with pytest.raises(LogCorrupt) as caught:
        recover(disk)
    assert (caught.value.segment, caught.value.offset) == (segment_name(no), 0)
    found, report = recover(disk, salvage=True)
    assert found == written
    assert [(gap.segment, gap.bytes) for gap in report.gaps] == [(segment_name(no), SEGMENT_HEADER_BYTES)]
    assert report.gaps[0].lsn_to < report.gaps[0].lsn_from


def test_a_segment_of_which_nothing_is_left_is_one_gap() -> None:
    disk, written = disk_with([4] * 4, 150)
    disk.put(path_of(2), b"\xaa" * 500)
    found, report = recover(disk, salvage=True)
    assert found == written[:4] + written[8:]
    assert [(gap.segment, gap.bytes, gap.lsn_to - gap.lsn_from + 1) for gap in report.gaps] == [
        (segment_name(2), 500, 0),
        (segment_name(3), 0, 4),
    ]


def test_a_segment_that_starts_again_is_refused() -> None:
    disk, _ = disk_with([4])
    disk.put(path_of(2), pack_segment_header(2, 3, PLACE))
    with pytest.raises(LogCorrupt, match="starts again"):
        recover(disk)


def test_a_log_of_another_folder_is_refused() -> None:
    disk, _ = disk_with([4])
    with pytest.raises(LogCorrupt, match="another state folder"):
        list(read_log(OTHER, disk))


def test_salvage_of_a_sound_log_changes_nothing() -> None:
    disk, written = disk_with([4] * 4, 150)
    assert recover(disk, salvage=True) == recover(disk)
    assert recover(disk)[0] == written


def test_a_record_of_a_newer_version_stops_the_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    disk, _ = disk_with([1])
    monkeypatch.setattr(segment, "RECORD_VERSION", RECORD_VERSION + 1)
    newer, _ = pack_records(records_from(2, 1), PLACE.seed, 2, 0)
    monkeypatch.undo()
    disk.put(path_of(1), disk.read(path_of(1)) + b"".join(newer))
    with pytest.raises(NewerFormat):
        recover(disk)


def test_an_absurd_length_is_damage_not_memory() -> None:
    disk, _ = disk_with([1, 1])
    disk.flip(path_of(1), SEGMENT_HEADER_BYTES + 11)
    with pytest.raises(LogCorrupt):
        recover(disk)


# --- beside a running engine --------------------------------------------------------------------------------------


class Racing(FakeDisk):
    """A disk on which something happens just before a file is read."""

    def __init__(self) -> None:
        super().__init__()
        self.before_read: dict[int, object] = {}
        self.reads = 0

    def read(self, path: str, size: int = -1) -> bytes:
        self.reads += 1
        action = self.before_read.pop(self.reads, None)
        if callable(action):
            action()
        return super().read(path, size)


def racing_log(segment_bytes: int = 150) -> Racing:
    disk = Racing()
    disk.make_folder("/log")
    write_batches(disk, [4] * 4, segment_bytes=segment_bytes)
    disk.reads = 0
    return disk


def test_live_segments_that_are_removed_meanwhile_are_passed_over() -> None:
    disk = racing_log()

    def retention() -> None:
        disk.remove(path_of(1))
        disk.remove(path_of(2))

    disk.before_read[1] = retention
    found, report = recover(disk, live=True)
    assert [record.lsn for record in found] == list(range(9, 17))
    assert report.gaps == ()


def test_not_live_a_vanishing_segment_is_an_error() -> None:
    disk = racing_log()
    disk.before_read[1] = lambda: disk.remove(path_of(1))
    with pytest.raises(FileNotFoundError):
        recover(disk)


def test_live_segments_that_vanish_after_a_few_were_read_leave_no_gap() -> None:
    disk = racing_log()

    def retention() -> None:
        for no in (1, 2, 3):
            disk.remove(path_of(no))

    disk.before_read[2] = retention
    found, report = recover(disk, live=True)
    assert [record.lsn for record in found] == [1, 2, 3, 4, 13, 14, 15, 16]
    assert report.gaps == ()


def test_live_the_last_segment_that_is_removed_with_the_oldest_while_it_is_read_again_is_no_fault() -> None:
    disk = racing_log()
    whole = disk.read(path_of(4))
    disk.put(path_of(4), whole[:-5])  # a write under way
    disk.reads = 0
    disk.before_read[5] = lambda: disk.remove(path_of(4))
    log = read_log(PLACE, disk, live=True)
    assert [record.lsn for record in log] == list(range(1, 16))
    assert log.passed_over
    assert log.report().gaps == ()


def test_live_a_missing_segment_is_damage_all_the_same() -> None:
    disk = racing_log()
    disk.remove(path_of(2))
    with pytest.raises(LogCorrupt):
        recover(disk, live=True)


def test_live_a_batch_that_is_being_cut_off_is_no_damage() -> None:
    disk = racing_log(1 << 20)
    whole = disk.read(path_of(1))
    disk.reads = 0
    half = bytearray(whole)
    half[offsets(disk)[3] + 5] ^= 0xFF
    disk.put(path_of(1), bytes(half))
    disk.reads = 0
    disk.before_read[2] = lambda: disk.put(path_of(1), whole)
    found, report = recover(disk, live=True)
    assert len(found) == 16
    assert report.clean


def test_live_lasting_damage_is_reported() -> None:
    disk = racing_log(1 << 20)
    disk.flip(path_of(1), 60)
    with pytest.raises(LogCorrupt):
        recover(disk, live=True)


def test_an_unreadable_segment_is_a_fault_of_the_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    disk, _ = disk_with([1])

    def refuse(path: str, size: int = -1) -> bytes:
        raise OSError(errno.EIO, "input/output error")

    monkeypatch.setattr(disk, "read", refuse)
    with pytest.raises(StateFolderError):
        recover(disk)
