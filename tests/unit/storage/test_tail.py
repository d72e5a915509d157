"""Reading a log from any place and as it grows, on a real disk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.protocol.errors import LogCorrupt
from actors.protocol.event_errors import CursorBeyondEnd, CursorTooOld
from actors.protocol.records import Record, RecordType
from runtime.storage.files import DiskFiles
from runtime.storage.openings import Opening
from runtime.storage.reader import RecoveryReport, read_log
from runtime.storage.seek import SegmentFile
from runtime.storage.seek_keys import time_of
from runtime.storage.segment import LogPlace, segment_name
from runtime.storage.tail import LogTail
from runtime.storage.wal import LogWriter

SECOND = 1_000_000_000


def new_log(folder: Path) -> LogPlace:
    (folder / "log").mkdir(parents=True, exist_ok=True)
    return LogPlace(str(folder / "log"), UUID(int=99))


def writer_of(place: LogPlace, segment_bytes: int = 4096) -> LogWriter:
    log = read_log(place, DiskFiles())
    list(log)
    report: RecoveryReport = log.report()
    return LogWriter(place, DiskFiles(), report, segment_bytes=segment_bytes)


def record(lsn: int, size: int = 20) -> Record:
    """Every fifth one submits run `lsn`, at second `lsn`."""
    if lsn % 5 == 0:
        return Record(lsn, RecordType.SUBMITTED, b'T["s",%d,%d,[],[]]' % (lsn, lsn * SECOND) + b" " * size)
    return Record(lsn, RecordType.COMPLETED, (b"%d:" % lsn).ljust(size, b"x"))


def fill(place: LogPlace, count: int, size: int = 20, segment_bytes: int = 4096) -> list[Record]:
    records = [record(lsn, size) for lsn in range(1, count + 1)]
    writer = writer_of(place, segment_bytes)
    for start in range(0, count, 10):
        writer.write(records[start : start + 10], sync=False)
    writer.close()
    return records


def all_of(tail: LogTail, upto: int | None = None) -> Iterator[Record]:
    while found := tail.read(upto):
        yield from found


@pytest.fixture
def place(tmp_path: Path) -> LogPlace:
    return new_log(tmp_path)


def test_reading_begins_at_any_record(place: LogPlace) -> None:
    records = fill(place, 300)
    with LogTail(place) as tail:
        for lsn in range(1, 301):
            tail.seek(lsn)
            assert tail.read()[0] == records[lsn - 1]
            tail.seek(lsn)
            if lsn % 50 == 1:
                assert list(all_of(tail)) == records[lsn - 1 :]


def test_the_first_record_of_a_place_does_not_wait_for_many_others(place: LogPlace) -> None:
    records = fill(place, 6_000, segment_bytes=1 << 20)
    with LogTail(place) as tail:
        tail.seek(2_000)
        portions = [tail.read() for _ in range(3)]
        assert len(portions[0]) < 30 < len(portions[1]) < 120 < len(portions[2])
        assert [record for portion in portions for record in portion] + list(all_of(tail)) == records[1_999:]


def test_a_clock_is_found_without_a_look_at_later_segments(place: LogPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(place, 3_000)
    opened: list[int] = []
    real = SegmentFile.__init__

    def noted(self: SegmentFile, log: LogPlace, no: int) -> None:
        opened.append(no)
        real(self, log, no)

    with LogTail(place) as tail:
        tail.seek(503)
        here = tail._segment
        assert here is not None
        assert here.no < len(tail._numbers()) - 5
        monkeypatch.setattr(SegmentFile, "__init__", noted)
        assert tail.clock_at(502, Opening(1, 0, 7)) == (7, 500 * SECOND)
        assert max(opened) == here.no


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(sizes=st.lists(st.sampled_from([0, 3, 100, 5_000, 70_000, 300_000]), min_size=1, max_size=60), at=st.integers(0))
def test_places_are_found_among_records_of_any_size(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], at: int
) -> None:
    place = new_log(tmp_path_factory.mktemp("log"))
    writer = writer_of(place, 1 << 30)
    records = [record(lsn, size) for lsn, size in enumerate(sizes, 1)]
    writer.write(records, sync=False)
    lsn = at % len(records) + 1
    with LogTail(place) as tail:
        tail.seek(lsn)
        assert list(all_of(tail)) == records[lsn - 1 :]
        assert tail.end_lsn() == len(records) + 1
        for no in {0, 5, lsn, lsn - lsn % 5, len(records) + 5}:
            found = tail.submission(no, 1 << 62)
            assert found == (records[no - 1] if no % 5 == 0 and 0 < no <= len(records) else None)
        first = tail.before_time(lsn * SECOND)
        assert first <= lsn
        assert all(r.lsn <= first for r in records if (time_of(r.type, r.payload) or 1 << 62) < lsn * SECOND)
    writer.close()


def test_what_grows_is_read_on_and_nothing_behind_what_is_durable(place: LogPlace) -> None:
    writer = writer_of(place, 300)
    with LogTail(place) as tail:
        assert tail.read() == []
        written: list[Record] = []
        read: list[Record] = []
        for start in range(1, 100, 3):
            batch = [record(lsn) for lsn in range(start, start + 3)]
            writer.write(batch, sync=False)
            written += batch
            read += all_of(tail, start)
            assert read == written[:start]
        assert [*read, *all_of(tail)] == written
        assert tail.next_lsn == writer.next_lsn
    writer.close()


def test_the_end_can_be_waited_at_but_not_what_is_behind_it(place: LogPlace) -> None:
    fill(place, 25)
    with LogTail(place) as tail:
        end = tail.end_lsn()
        assert end == 27, "the log ends with a mark"
        tail.seek(end)
        assert tail.read() == []
        with pytest.raises(CursorBeyondEnd, match=f"the next one is {end}") as raised:
            tail.seek(end + 1)
        assert raised.value.next_lsn == end
        writer = writer_of(place)
        writer.write([record(end)], sync=False)
        assert tail.read() == [record(end)]
        writer.close()


def test_what_is_not_kept_any_more_is_said(place: LogPlace) -> None:
    fill(place, 100, segment_bytes=500)
    writer = writer_of(place, 500)
    with LogTail(place) as late, LogTail(place) as tail:
        assert late.read()
        writer.remove_below(4)
        first = tail.first_lsn
        assert first > 1
        with pytest.raises(CursorTooOld, match=f"the first that is kept is {first}"):
            tail.seek(1)
        with pytest.raises(CursorTooOld, match=f"to {first - 1} were removed before they were read"):
            list(all_of(late))
    writer.close()


def test_damage_is_no_end(place: LogPlace) -> None:
    fill(place, 100, segment_bytes=1000)
    path = Path(place.folder) / segment_name(1)
    data = bytearray(path.read_bytes())
    data[200] ^= 1
    path.write_bytes(data)
    with LogTail(place) as tail, pytest.raises(LogCorrupt, match="00000001"):
        list(all_of(tail))


def test_damage_of_what_is_durable_in_the_last_segment(place: LogPlace) -> None:
    fill(place, 20, segment_bytes=1 << 20)
    path = Path(place.folder) / segment_name(1)
    path.write_bytes(path.read_bytes()[:-40])
    with LogTail(place) as tail, pytest.raises(LogCorrupt):
        list(all_of(tail, 21))
    with LogTail(place) as tail:
        assert len(list(all_of(tail))) == 19


def test_damage_before_what_was_written_when_it_was_durable(place: LogPlace) -> None:
    """Nobody says how far the log may be read: it says so itself."""
    fill(place, 20, segment_bytes=1 << 20)
    writer = writer_of(place, 1 << 20)
    writer.write([record(writer.next_lsn)], sync=True)
    writer.abandon()
    path = Path(place.folder) / segment_name(1)
    data = bytearray(path.read_bytes())
    data[200] ^= 1
    path.write_bytes(data)
    with LogTail(place) as tail, pytest.raises(LogCorrupt, match="00000001"):
        list(all_of(tail))


def test_the_clock_of_an_opening_is_found_behind_what_looks_like_one(place: LogPlace) -> None:
    writer = writer_of(place, 1 << 20)
    opened = {"now_ns": 5, "wall_ns": 7 * SECOND, "next_run_no": 1}
    writer.write([Record(1, RecordType.OPENED, orjson.dumps(opened)), *map(record, range(2, 40))], sync=False)
    writer.write([Record(40, RecordType.COMPLETED, b'"next_run_no":' * 9)], sync=False)
    with LogTail(place) as tail:
        assert tail.clock_at(40) == (7 * SECOND - 5, 35 * SECOND)
        assert tail.clock_at(0) == (0, 0)
    writer.close()


def test_records_below_a_place(place: LogPlace) -> None:
    records = fill(place, 60, segment_bytes=300)
    with LogTail(place) as tail:
        assert list(tail.below(41)) == records[:40]


def test_an_empty_log_is_waited_at(place: LogPlace) -> None:
    with LogTail(place) as tail:
        assert (tail.first_lsn, tail.end_lsn(), tail.read()) == (1, 1, [])
        with pytest.raises(CursorBeyondEnd):
            tail.seek(2)
