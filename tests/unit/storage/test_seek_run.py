"""The submission of a run is found, or nothing is; where runs go on, it is found."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.protocol.records import Record, RecordType
from actors.record_runs import run_of
from runtime.storage import seek_run
from runtime.storage.files import DiskFiles
from runtime.storage.reader import list_segments, read_log
from runtime.storage.seek import SegmentFile
from runtime.storage.segment import LogPlace
from runtime.storage.tail import LogTail
from runtime.storage.wal import LogWriter

SIZES = st.sampled_from([0, 0, 30, 30, 700, 9_000, 40_000])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("submit"), SIZES, st.just(0)),
        st.tuples(st.just("end"), SIZES, st.integers(0, 3)),
        st.tuples(st.just("old"), SIZES, st.integers(0, 1 << 20)),
        st.tuples(st.just("policy"), SIZES, st.just(0)),
    ),
    min_size=1,
    max_size=120,
)


def written(folder: Path, steps: list[tuple[str, int, int]], segment_bytes: int) -> tuple[LogPlace, list[Record]]:
    """A log of these steps: a run more, a record of one of the latest runs, of any run, or of none."""
    place = LogPlace(str(folder / "log"), UUID(int=7))
    (folder / "log").mkdir()
    reader = read_log(place, DiskFiles())
    assert list(reader) == []
    writer = LogWriter(place, DiskFiles(), reader.report(), segment_bytes=segment_bytes)
    records: list[Record] = []
    runs = 0
    for lsn, (what, size, which) in enumerate(steps, 1):
        if what == "submit":
            runs += 2  # numbers may be left out
            record = Record(lsn, RecordType.SUBMITTED, b'T["s",%d,%d,[],[]]' % (runs, lsn) + b" " * size)
        elif what == "policy" or not runs:
            record = Record(lsn, RecordType.POLICY, b"{}" + b" " * size)
        else:
            no = max(2, runs - 2 * which) if what == "end" else 2 + which % (runs // 2) * 2
            record = Record(lsn, RecordType.COMPLETED, b"[1,[[1,%d,[0]]]]" % no + b" " * size)
        records.append(record)
        writer.write([record], sync=False)
    writer.close()
    return place, records


def submissions(records: list[Record]) -> dict[int, Record]:
    """As a reader finds them who reads all."""
    return {int(r.payload.split(b",")[1]): r for r in records if r.type == RecordType.SUBMITTED}


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(steps=STEPS, segment_bytes=st.sampled_from([500, 20_000, 1 << 30]), at=st.integers(0))
def test_what_is_found_by_looks_is_what_reading_finds(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int, int]], segment_bytes: int, at: int
) -> None:
    place, records = written(tmp_path_factory.mktemp("log"), steps, segment_bytes)
    expected = submissions(records)
    asked = sorted({0, 1, *expected, *(no + 1 for no in expected)})
    with LogTail(place) as tail:
        tail.seek(at % len(records) + 1)
        tail.read()
        for no in asked:
            assert tail.submission(no, 1 << 62) == expected.get(no)
    numbers = list_segments(place, DiskFiles())
    for no in asked:
        found = seek_run.find_submission(place, numbers, no)
        if found is not None:
            with found[0]:
                assert found[0].record(found[1]) == expected[no]
    for number in numbers:
        with SegmentFile(place, number) as segment:
            for no in asked:
                behind = seek_run.find_behind(segment, segment.size, no)
                assert behind is None or segment.record(behind) == expected[no]
            for lsn in range(1, len(records) + 1, 7):
                near = next(segment.walk(segment.near(lsn)), None)
                assert near is None or near.lsn <= max(lsn, segment.first_lsn)


def test_a_run_that_goes_on_is_found_by_looks_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A long run, then many short ones beside it: no look has to go from record to record to find either."""
    steps = [("submit", 0, 0)] + [("end", 30, 0)] * 3_000 + [("submit", 0, 0), ("end", 30, 0), ("end", 30, 1)] * 1_000
    place, records = written(tmp_path, steps, 40_000)
    monkeypatch.setattr(LogTail, "_last_below", lambda *_: pytest.fail("looked for in the other way"))
    expected = submissions(records)
    with LogTail(place) as tail:
        for lsn in range(2, len(records), 97):
            tail.seek(lsn)
            record = tail.read()[0]
            no = run_of(record.type, record.payload)
            assert no is not None
            assert tail.submission(no, 1 << 62) == expected[no]
        for no in (2, 4, 1_000, 2_002):
            assert tail.submission(no, 1 << 62) == expected[no]
