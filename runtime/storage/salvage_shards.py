"""Makes a log in shards that salvage has read whole again, so that the next opening needs no salvage.

Of a segment with damage all files are written anew, from the records that are whole, each on the shard of its run; on
shard 0, MARK records stand for the LSNs that are lost. Damaged files are kept beside them as `NAME.damaged`.

Invariant: a crash at any point leaves each file as it was or mended, so that salvage can be asked for again.
Known limits: holds the records of the damaged segments in memory; the `.damaged` files are never removed by us.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from actors.protocol.records import Record, RecordType
from actors.record_runs import shard_of
from runtime.storage.files import DAMAGED, Files, write_whole
from runtime.storage.reader import read_log
from runtime.storage.report import Gap, RecoveryReport, gap_payload, lsn_behind_mark
from runtime.storage.segment import (
    BARRIER,
    LogPlace,
    SegmentInfo,
    pack_records,
    pack_segment_header,
    segment_name,
    segment_no,
)


def mend_shards(place: LogPlace, files: Files, report: RecoveryReport) -> RecoveryReport:
    """Rewrite the segments in which salvage found gaps. Arguments, result and faults as `salvage.mend_log`."""
    gaps: dict[int, list[Gap]] = {}
    for gap in report.gaps:
        gaps.setdefault(segment_no(gap.segment.rpartition("/")[2]) or 0, []).append(gap)
    whole = {info.no: info for info in report.segments}
    records = _records_of([whole[no] for no in gaps if no in whole], place, files)
    for no, found in gaps.items():
        _set_aside(place, files, no)
        if no in whole:
            _write(place, files, whole[no], found, records[no])
        else:
            _remove(place, files, no)
    log = read_log(place, files)
    for _ in log:
        pass
    return replace(log.report(), mended=report.gaps, lost=report.lost)


def _records_of(segments: list[SegmentInfo], place: LogPlace, files: Files) -> dict[int, list[Record]]:
    """What is whole in these segments, marks and all."""
    found: dict[int, list[Record]] = {info.no: [] for info in segments}
    for record in read_log(place, files, salvage=True, marks=True):
        for info in segments:
            if info.first_lsn <= record.lsn <= info.last_lsn:
                found[info.no].append(record)
    return found


def _set_aside(place: LogPlace, files: Files, no: int) -> None:
    for part in place.parts():
        try:
            data = files.read(f"{part.folder}/{segment_name(no)}")
        except FileNotFoundError:
            continue
        write_whole(files, part.folder, segment_name(no) + DAMAGED, data)


def _remove(place: LogPlace, files: Files, no: int) -> None:
    """A segment of which nothing is left."""
    for part in place.parts():
        try:
            files.remove(f"{part.folder}/{segment_name(no)}")
        except FileNotFoundError:
            continue
        files.sync_folder(part.folder)


def _write(place: LogPlace, files: Files, info: SegmentInfo, gaps: list[Gap], records: list[Record]) -> None:
    first_lsn = min([info.first_lsn, *(gap.lsn_from for gap in gaps if gap.lsn_to >= gap.lsn_from)])
    lost_to = max((gap.lsn_to for gap in gaps), default=0)
    shards: list[list[Record]] = [[] for _ in range(place.shards)]
    for record in _with_marks(first_lsn, records, lost_to):
        shards[shard_of(record.type, record.payload, place.shards)].append(record)
    for part, held in reversed(list(zip(place.parts(), shards, strict=True))):
        pieces = pack_records(held, part.seed, first_lsn, BARRIER, sparse=True)[0]
        content = pack_segment_header(info.no, first_lsn, part) + b"".join(pieces)
        write_whole(files, part.folder, segment_name(info.no), content)


def _with_marks(lsn: int, records: Iterable[Record], lost_to: int) -> Iterable[Record]:
    """These records, and marks for what is lost between and behind them."""
    for record in records:
        if record.lsn > lsn:
            yield Record(lsn, RecordType.MARK, gap_payload(record.lsn - 1))
        yield record
        lsn = lsn_behind_mark(record.lsn, record.payload) if record.type == RecordType.MARK else record.lsn + 1
    if lost_to >= lsn:
        yield Record(lsn, RecordType.MARK, gap_payload(lost_to))
