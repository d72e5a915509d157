"""Reading a log in shards from any place: the same answers as of one without, while it is written and cut."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from actors.protocol.errors import LogCorrupt
from actors.protocol.event_errors import CursorBeyondEnd, CursorTooOld
from actors.protocol.records import Record, RecordType
from runtime.storage.files import DiskFiles
from runtime.storage.reader import read_log
from runtime.storage.segment import SEGMENT_HEADER_BYTES, LogPlace, pack_segment_header, segment_name
from runtime.storage.sharded_tail import AnyTail, ShardedTail, open_tail, written_end
from runtime.storage.sharded_wal import LogWriting, open_log
from runtime.storage.tail import LogTail
from tests.unit.storage.shards import UUID_HERE, records_from
from tests.unit.storage.worlds import records_of


def place_in(folder: Path, shards: int) -> LogPlace:
    """A log folder."""
    place = LogPlace(str(folder / f"log{shards}"), UUID_HERE, shards)
    for part in place.parts():
        os.makedirs(part.folder, exist_ok=True)
    return place


def writer_of(place: LogPlace, segment_bytes: int = 3000) -> LogWriting:
    """Open a log for writing."""
    log = read_log(place, DiskFiles())
    assert list(log) is not None
    return open_log(place, DiskFiles(), log.report(), segment_bytes=segment_bytes)


def sizes_of(place: LogPlace) -> dict[str, int]:
    """Bytes of each file of a shard."""
    return {entry.name: entry.stat().st_size for entry in os.scandir(place.folder)}


def all_of(tail: AnyTail, upto: int | None = None) -> Iterator[Record]:
    while records := tail.read(upto):
        yield from records


def numbered(records: Sequence[Record]) -> list[Record]:
    """With contiguous LSNs from the first."""
    return [record._replace(lsn=lsn) for lsn, record in enumerate(records, 1)]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=25)
@given(data=st.data(), seed=st.integers(0, 1 << 16), shards=st.integers(2, 4))
def test_any_interleaving_of_writing_and_reading(data: st.DataObject, seed: int, shards: int, tmp_path: Path) -> None:
    random = Random(seed)
    folder = tmp_path / f"{seed}-{shards}-{random.random()}-{os.urandom(4).hex()}"
    place = place_in(folder, shards)
    written: list[Record] = []
    with closing(writer_of(place, 1500)) as writer, ShardedTail(place) as tail:
        read: list[Record] = []
        for _ in range(data.draw(st.integers(1, 25))):
            match data.draw(st.sampled_from(("write", "read", "read some", "seek"))):
                case "write":
                    records = records_from(writer.next_lsn, random.randrange(1, 8), random)
                    writer.write(records, sync=False)
                    written += records
                case "read":
                    read += all_of(tail)
                    assert read == written[: len(read)]
                    assert len(read) == len(written)
                case "read some":
                    upto = data.draw(st.integers(0, len(written)))
                    read += all_of(tail, upto)
                    assert read == written[: len(read)]
                    assert len(read) >= upto
                case "seek":
                    lsn = data.draw(st.integers(1, len(written) + 1))
                    tail.seek(lsn)
                    read = written[: lsn - 1]


def test_lookups_are_those_of_the_log_without_shards(tmp_path: Path) -> None:
    records = numbered(records_of(3))
    tails: list[AnyTail] = []
    for shards in (1, 3):
        place = place_in(tmp_path, shards)
        writer = writer_of(place)
        for start in range(0, len(records), 40):
            writer.write(records[start : start + 40], sync=False)
        writer.close()
        tails.append(open_tail(place))
    plain, sharded = tails
    assert isinstance(plain, LogTail)
    assert isinstance(sharded, ShardedTail)
    assert (plain.first_lsn, plain.end_lsn()) == (sharded.first_lsn, sharded.end_lsn())
    found = 0
    for no in range(1, 60):
        one, other = plain.submission(no, 1 << 60), sharded.submission(no, 1 << 60)
        assert one == other or one is None
        found += one is not None
    assert found > 3
    for lsn in range(1, len(records), 37):
        assert sharded.clock_at(lsn)[0] == plain.clock_at(lsn)[0]
        assert list(sharded.below(lsn)) == records[: lsn - 1]
    for tail in tails:
        tail.close()


def test_a_time_is_found_where_it_is_without_shards(tmp_path: Path) -> None:
    random, records, now_ns = Random(5), [], 1_000_000
    for lsn in range(1, 400):
        now_ns += random.randrange(5)
        if random.random() < 0.6:
            records.append(Record(lsn, RecordType.SUBMITTED, b'T["s",%d,%d,[],[]]' % (lsn, now_ns)))
        else:
            records.append(records_from(lsn, 1, random)[0])
    for shards in (1, 3):
        with closing(writer_of(place_in(tmp_path, shards), 2000)) as writer:
            writer.write(records[:200], sync=False)
            writer.write(records[200:], sync=False)
    with open_tail(place_in(tmp_path, 3)) as tail, open_tail(place_in(tmp_path, 1)) as reference:
        for wall_ns in range(1_000_010, now_ns + 5, 3):
            assert tail.before_time(wall_ns) == reference.before_time(wall_ns)
        for lsn in range(10, 400, 13):
            assert tail.clock_at(lsn)[1] == reference.clock_at(lsn)[1]
            assert tail.submission(lsn, 1 << 60) == reference.submission(lsn, 1 << 60)


def test_places_that_are_not_there(tmp_path: Path) -> None:
    place, random = place_in(tmp_path, 3), Random(1)
    writer = writer_of(place)
    with ShardedTail(place) as tail:
        with pytest.raises(CursorBeyondEnd) as beyond:
            tail.seek(9)
        assert beyond.value.next_lsn == 1
        while len(writer.segments()) < 6:
            writer.write(records_from(writer.next_lsn, 5, random), sync=False)
        end = writer.next_lsn
        tail.seek(end)
        assert tail.read() == []
        with pytest.raises(CursorBeyondEnd) as beyond:
            tail.seek(end + 1)
        assert beyond.value.next_lsn == end
        third = writer.segments()[2]
        writer.remove_below(third.no)
        with pytest.raises(CursorTooOld) as old:
            tail.seek(third.first_lsn - 1)
        assert old.value.first_lsn == third.first_lsn == tail.first_lsn
        tail.seek(third.first_lsn)
        assert next(all_of(tail)).lsn == third.first_lsn
    writer.close()


def test_a_slow_reader_is_told_what_it_missed_and_has_what_it_had_open(tmp_path: Path) -> None:
    place, random = place_in(tmp_path, 3), Random(2)
    writer = writer_of(place)
    written: list[Record] = []
    with ShardedTail(place) as tail:
        while len(writer.segments()) < 6:
            records = records_from(writer.next_lsn, 5, random)
            writer.write(records, sync=False)
            written += records
        fourth = writer.segments()[3]
        writer.remove_below(fourth.no)
        got: list[Record] = []
        with pytest.raises(CursorTooOld) as old:
            got.extend(all_of(tail))
        assert old.value.first_lsn == fourth.first_lsn
        first = writer.segments()[0].first_lsn
        assert got == written[: len(got)]
        assert got[-1].lsn < first
    writer.close()


def test_damage_before_what_may_be_read_is_told_and_behind_it_is_a_write_under_way(tmp_path: Path) -> None:
    place, random = place_in(tmp_path, 3), Random(3)
    writer = writer_of(place, 1 << 20)
    written = records_from(1, 60, random)
    writer.write(written, sync=True)
    writer.abandon()
    path = Path(place.part(1).folder) / segment_name(1)
    content = bytearray(path.read_bytes())
    path.write_bytes(content[:-5])
    with ShardedTail(place) as tail:
        got = list(all_of(tail))
        assert got == written[: len(got)]
        assert 0 < len(got) < 60
        assert tail.read() == []
        with pytest.raises(LogCorrupt, match="damaged"):
            list(all_of(tail, 60))
        path.write_bytes(content)
        assert [*got, *all_of(tail, 60)] == written


def test_marks_are_leapt_over(tmp_path: Path) -> None:
    place, random = place_in(tmp_path, 2), Random(4)
    writer = writer_of(place)
    first = records_from(1, 10, random)
    writer.write(first, sync=True)
    writer.close()
    writer = writer_of(place)
    assert writer.next_lsn == 12
    second = records_from(12, 10, random)
    writer.write(second, sync=True)
    with open_tail(place) as tail:
        assert list(all_of(tail)) == first + second
        tail.seek(11)
        assert next(all_of(tail)).lsn == 12
    writer.close()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40)
@given(seed=st.integers(0, 1 << 16), shards=st.integers(1, 4), count=st.integers(1, 40))
def test_the_end_is_where_a_start_would_cut(seed: int, shards: int, count: int, tmp_path: Path) -> None:
    random = Random(seed)
    place = place_in(tmp_path / os.urandom(8).hex(), shards)
    with closing(writer_of(place, 2000)) as writer:
        for _ in range(count):
            before = {part.folder: sizes_of(part) for part in place.parts()}
            writer.write(records_from(writer.next_lsn, random.randrange(1, 9), random), sync=True)
        writer.abandon()
    assert written_end(place) == writer.next_lsn
    name = segment_name(writer.active.no)
    for part in random.sample(place.parts(), random.randrange(shards + 1)):  # it did not reach the disk, or in part
        durable = before[part.folder].get(name, SEGMENT_HEADER_BYTES)
        os.truncate(f"{part.folder}/{name}", random.randrange(durable, sizes_of(part)[name] + 1))
    log = read_log(place, DiskFiles())
    assert all(record for record in log)
    assert written_end(place) == log.report().next_lsn


def test_a_record_that_comes_while_its_place_is_sought_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, random = place_in(tmp_path, 3), Random(6)
    with closing(writer_of(place, 1 << 20)) as writer, ShardedTail(place) as tail:
        writer.write(records_from(1, 20, random), sync=False)
        look = ShardedTail.end_lsn

        def late(self: ShardedTail) -> int:  # the shards were looked at, and had nothing there
            if writer.next_lsn == 21:
                writer.write(records_from(21, 5, random), sync=False)
            return look(self)

        monkeypatch.setattr(ShardedTail, "end_lsn", late)
        tail.seek(21)
        assert [record.lsn for record in all_of(tail)] == list(range(21, 26))


@pytest.mark.parametrize("shard", [1, 2])
def test_a_segment_that_a_crash_left_to_some_shards_holds_nobody_up(tmp_path: Path, shard: int) -> None:
    place, random = place_in(tmp_path, 3), Random(7)
    writer = writer_of(place, 1 << 20)
    written = records_from(1, 20, random)
    writer.write(written, sync=True)
    with ShardedTail(place) as tail:
        assert list(all_of(tail, 20)) == written
        left = Path(place.part(shard).folder) / segment_name(2)
        left.write_bytes(pack_segment_header(2, 21, place.part(shard)))
        assert tail.read(21) == []  # it goes on in the segment that is being made
        writer.abandon()
        writer = writer_of(place, 1 << 20)  # which a start takes back
        assert not left.exists()
        more = records_from(21, 40, random)
        writer.write(more, sync=True)
        assert list(all_of(tail, 60)) == more
    writer.close()
