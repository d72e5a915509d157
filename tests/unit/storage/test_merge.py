"""A log in shards read as one: where it ends, what counts as damage, what salvage makes of it, and reading it live."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.protocol.errors import LogCorrupt
from actors.protocol.records import Record
from actors.record_runs import shard_of
from runtime.storage.reader import read_log
from runtime.storage.segment import RECORD_HEADER_BYTES, SEGMENT_HEADER_BYTES, LogPlace
from tests.sim.disk import FakeDisk
from tests.unit.storage.shards import PLACE, UUID_HERE, new_disk, open_writer, path_of, records_from, recover


def log_of(batches: int, *, seed: int = 1, segment_bytes: int = 1 << 20) -> tuple[FakeDisk, list[Record]]:
    """A log of batches of four, not closed, each durable."""
    random, disk = Random(seed), new_disk(seed)
    writer = open_writer(disk, random, segment_bytes=segment_bytes)
    written: list[Record] = []
    for _ in range(batches):
        records = records_from(writer.next_lsn, 4, random)
        writer.write(records, sync=True)
        written += records
    return disk.after_kill(), written


def shard_with(record: Record) -> int:
    """Where a record lies."""
    return shard_of(record.type, record.payload, 3)


def offset_of(disk: FakeDisk, record: Record, no: int = 1) -> tuple[str, int]:
    """The file of a record, and where in it the record begins."""
    shard = shard_with(record)
    part = read_log(LogPlace(f"/log/{shard}", UUID_HERE, 1, shard), disk, salvage=True)
    before = sum(RECORD_HEADER_BYTES + len(other.payload) for other in part if other.lsn < record.lsn)
    return path_of(shard, no), SEGMENT_HEADER_BYTES + before


def test_a_torn_end_of_one_shard_ends_the_log_for_all() -> None:
    disk, written = log_of(9)
    first_of_last = written[32]
    path, offset = offset_of(disk, first_of_last)
    disk.put(path, disk.read(path)[: offset + 10])
    found, report = recover(disk)
    assert found == written[:32]
    assert report.next_lsn == 33
    assert report.bytes_cut > 10
    assert report.records_cut == sum(shard_with(r) != shard_with(first_of_last) for r in written[33:])


def test_what_a_later_commit_proves_durable_is_damage_even_where_a_file_ends_between_two_records() -> None:
    disk, written = log_of(9)
    path, offset = offset_of(disk, written[26])
    disk.put(path, disk.read(path)[:offset])
    with pytest.raises(LogCorrupt, match="LSN 27 "):
        recover(disk)
    found, report = recover(disk, salvage=True)
    assert found == [r for r in written if r.lsn < 27 or shard_with(r) != shard_with(written[26])]
    assert report.gaps[0].lsn_from == 27


def test_a_changed_byte_is_damage_with_its_place() -> None:
    disk, written = log_of(9)
    path, offset = offset_of(disk, written[10])
    disk.flip(path, offset + 9)
    with pytest.raises(LogCorrupt, match=f"{path[5:]} is damaged at offset {offset}, LSN 11") as raised:
        recover(disk)
    assert (raised.value.segment, raised.value.offset) == (path[5:], offset)
    found, report = recover(disk, salvage=True)
    assert found == written[:10] + written[11:]
    assert [(g.lsn_from, g.lsn_to) for g in report.gaps if g.lsn_to >= g.lsn_from] == [(11, 11)]


@pytest.mark.parametrize("shard", [0, 1, 2])
@pytest.mark.parametrize("no", [1, 2, 3])
def test_a_missing_file_is_told_and_salvage_does_without(shard: int, no: int) -> None:
    disk, written = log_of(24, segment_bytes=12_000)
    assert len(disk.list("/log/0")) == 3
    disk.remove(path_of(shard, no))
    if shard == 0 and no == 1:  # as retention removes them, shard 0 first: the log begins with the next segment
        assert recover(disk)[1].segments[0].no == 2
        return
    with pytest.raises(LogCorrupt, match=f"{shard}/0000000{no}.seg is missing|LSNs .* are missing before segment 0"):
        recover(disk)
    found, report = recover(disk, salvage=True)
    assert {r.lsn for r in found} < {r.lsn for r in written}
    assert report.gaps
    if shard:
        assert [r for r in found if shard_with(r) != shard] == [r for r in written if shard_with(r) != shard]


@pytest.mark.parametrize("shard", [0, 1, 2])
def test_a_bad_header_is_told_and_salvage_does_without(shard: int) -> None:
    disk, written = log_of(8)
    disk.flip(path_of(shard, 1), 20)
    with pytest.raises(LogCorrupt, match=f"{shard}/00000001.seg belongs to another state folder"):
        recover(disk)
    found, report = recover(disk, salvage=True)
    assert found == written
    assert report.gaps


def test_a_log_whose_first_folder_is_the_wrong_one_is_not_taken_for_a_new_one() -> None:
    disk, _ = log_of(5)
    disk.remove(path_of(0, 1))
    with pytest.raises(LogCorrupt, match=r"0/00000001.seg is missing, but [12]/00000001.seg is there"):
        recover(disk)


@given(data=st.data())
def test_whatever_is_changed_nothing_wrong_is_read(data: st.DataObject) -> None:
    disk, written = _known_log()
    shard = data.draw(st.integers(0, 2))
    no = data.draw(st.integers(1, len(disk.list("/log/0"))))
    content = disk.read(path_of(shard, no))
    offset = data.draw(st.integers(0, len(content) - 1))
    cut = data.draw(st.booleans())
    copy = disk.after_kill()
    copy.put(path_of(shard, no), content)
    if cut:
        copy.put(path_of(shard, no), content[:offset])
    else:
        copy.flip(path_of(shard, no), offset, data.draw(st.integers(1, 255)))
    proven = max((lsn - 1) // 4 * 4 for lsn, r in enumerate(written, 1) if shard_with(r) != shard)
    try:
        found, _ = recover(copy)
    except LogCorrupt:
        pass
    else:
        assert found == written[: len(found)]
        assert len(found) >= proven, "what a later commit on another shard proves was passed over"
    found, _ = recover(copy, salvage=True)
    rest = iter(written)
    assert all(record in rest for record in found), "not a part of what was written, in its order"


def _known_log() -> tuple[FakeDisk, list[Record]]:
    return log_of(30, seed=3, segment_bytes=12_000)


class Racing:
    """A disk whose engine writes while its files are read: behind every read come some commits more."""

    def __init__(self, disk: FakeDisk, random: Random) -> None:
        self._disk = disk
        self._random = random
        self.writer = open_writer(disk, random)
        self.written: list[Record] = []

    def __getattr__(self, name: str) -> object:
        return getattr(self._disk, name)

    def more(self) -> None:
        """Two commits."""
        for _ in range(2):
            records = records_from(self.writer.next_lsn, 4, self._random)
            self.writer.write(records, sync=True)
            self.written += records

    def read_together(self, paths: list[str]) -> list[bytes]:
        return [self.read(path) for path in paths]

    def read(self, path: str, size: int = -1) -> bytes:
        found = self._disk.read(path, size)
        self.more()
        return found


@pytest.mark.parametrize("seed", range(20))
def test_beside_an_engine_what_one_file_has_before_another_is_no_damage(seed: int) -> None:
    files = Racing(new_disk(seed), Random(seed))
    files.more()
    before = len(files.written)
    log = read_log(PLACE, files, live=True)  # type: ignore[arg-type]
    found = list(log)
    assert found == files.written[: len(found)]
    assert len(found) >= before
    assert not log.report().gaps


def test_beside_an_engine_damage_is_damage() -> None:
    disk, written = log_of(20)
    path, offset = offset_of(disk, written[10])
    disk.flip(path, offset + 30)
    with pytest.raises(LogCorrupt, match="LSN 11"):
        list(read_log(PLACE, disk, live=True))


class Vanishing:
    """Removes a segment from all shards when a file is looked at for the n-th time, as a checkpoint does."""

    def __init__(self, disk: FakeDisk, no: int, at: int) -> None:
        self._disk = disk
        self._no = no
        self._left = at

    def __getattr__(self, name: str) -> object:
        return getattr(self._disk, name)

    def _count(self) -> None:
        self._left -= 1
        if not self._left:
            for shard in range(3):
                self._disk.remove(path_of(shard, self._no))

    def size(self, path: str) -> int:
        self._count()
        return self._disk.size(path)

    def read(self, path: str, size: int = -1) -> bytes:
        self._count()
        return self._disk.read(path, size)

    def read_together(self, paths: list[str]) -> list[bytes]:
        return [self.read(path) for path in paths]


@pytest.mark.parametrize("at", range(1, 25))
@pytest.mark.parametrize("last", [False, True])
def test_beside_an_engine_a_segment_that_is_removed_at_any_moment_is_no_fault(at: int, last: bool) -> None:
    disk, written = log_of(6, segment_bytes=1500)
    no = 1
    if last:  # it was, when the reading began; and its end looks like a write under way
        log = read_log(PLACE, disk)
        assert len(list(log)) == len(written)
        no = log.report().segments[-1].no
        path, offset = offset_of(disk, written[-1], no)
        disk.put(path, disk.read(path)[: offset + 10])
    log = read_log(PLACE, Vanishing(disk, no, at), live=True)  # type: ignore[arg-type]
    found = list(log)
    assert found == [record for record in written if record in found]
    assert log.passed_over or len(found) == len(written) - last
    assert not log.report().gaps
