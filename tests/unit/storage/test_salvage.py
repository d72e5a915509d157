"""A salvaged log is mended: it opens by itself, keeps what was found, and says how much is gone."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from actors.protocol.errors import LogCorrupt
from actors.protocol.records import Record
from runtime.storage.files import DAMAGED
from runtime.storage.reader import RecoveryReport
from runtime.storage.salvage import mend_log
from runtime.storage.wal import LogWriter
from tests.sim.disk import FakeDisk, PowerCut
from tests.unit.storage.logs import PLACE, new_disk, path_of, records_from, recover, write_batches


def damaged(*flips: tuple[int, int]) -> FakeDisk:
    """Four segments of four records of 44 bytes; then some bytes flipped."""
    disk = new_disk()
    write_batches(disk, [4] * 4, segment_bytes=150)
    for no, offset in flips:
        disk.flip(path_of(no), offset)
    return disk


def mend(disk: FakeDisk) -> tuple[list[Record], RecoveryReport]:
    found, report = recover(disk, salvage=True)
    return found, mend_log(PLACE, disk, report)


@pytest.mark.parametrize(
    "flips",
    [
        [(1, 60)],
        [(1, 60), (1, 150)],
        [(1, 60), (1, 104)],
        [(2, 215)],
        [(3, 3)],
        [(1, 3), (2, 60), (3, 200)],
        [(1, 60), (1, 104), (1, 150), (1, 190)],
        [(4, 3), (4, 60)],
    ],
)
def test_a_mended_log_opens_and_gives_the_same_records(flips: list[tuple[int, int]]) -> None:
    disk = damaged(*flips)
    with pytest.raises(LogCorrupt):
        recover(disk)
    salvaged, mended = mend(disk)
    found, report = recover(disk)
    assert found == salvaged
    assert mended == replace(report, mended=mended.mended)
    assert mended.mended
    json.dumps(mended.to_json())
    assert report.gaps == ()
    assert report.known_gaps == 16 - len(found)
    assert report.next_lsn == 17
    writer = LogWriter(PLACE, disk, report)
    writer.write(records_from(17, 2), sync=True)
    writer.close()
    assert [record.lsn for record in recover(disk)[0]] == [*(record.lsn for record in salvaged), 17, 18]


def test_a_missing_segment_is_bridged() -> None:
    disk = damaged()
    disk.remove(path_of(2))
    salvaged, report = mend(disk)
    assert recover(disk)[0] == salvaged
    assert report.known_gaps == 4
    assert [info.first_lsn for info in report.segments] == [1, 5, 13]


def test_a_segment_without_any_record_is_set_aside() -> None:
    disk = damaged()
    disk.put(path_of(3), b"\xaa" * 100)
    salvaged, report = mend(disk)
    assert recover(disk)[0] == salvaged
    assert report.known_gaps == 4
    assert disk.read(path_of(3) + DAMAGED) == b"\xaa" * 100


def test_the_damaged_file_is_kept_as_it_was() -> None:
    disk = damaged((2, 100))
    before = disk.read(path_of(2))
    mend(disk)
    assert disk.read(path_of(2) + DAMAGED) == before
    assert path_of(1) + DAMAGED not in disk.list("/log")


def test_the_torn_tail_of_a_mended_segment_is_cut() -> None:
    disk = damaged((4, 60))
    disk.put(path_of(4), disk.read(path_of(4)) + bytes(50))
    salvaged, report = mend(disk)
    assert [record.lsn for record in salvaged] == [*range(1, 13), 14, 15, 16]
    assert report.bytes_cut == 0
    assert recover(disk)[0] == salvaged


def test_a_crash_while_mending_loses_nothing_that_salvage_found() -> None:
    whole = damaged((1, 60), (3, 100))
    wanted, _ = recover(whole, salvage=True)
    for cut_at in range(1, 60):
        disk = damaged((1, 60), (3, 100))
        disk.cut_at = disk.operations + cut_at
        try:
            mend(disk)
        except PowerCut:
            pass
        else:
            break
        for seed in range(6):
            after = disk.after_power_cut(seed)
            found, report = recover(after, salvage=True)
            assert found == wanted
            mend_log(PLACE, after, report)
            assert recover(after)[0] == wanted
    else:
        pytest.fail("mending never ended")
