"""Finds the record with which a run was submitted, wherever in the log it is, by some looks at records.

Runs are numbered in the order of their submissions, and whatever else the log tells of a run stands behind its own. So
nearly each record says on which side the one wanted is:

    a submission with a smaller number                          it is behind
    a submission with a greater number                          it is before
    any other record of this run, or of one with a greater one  it is before
    records of older runs alone                                 nobody knows

In the last case it is taken to be behind, since a run that has begun is seldom quiet for long. So what is found is the
record or nothing, and nothing does not mean that it is not there: who must know looks in another way
(`SegmentFile.find_key`).

Most runs are met near their submission: `find_behind` goes backwards from a place, four times as far each time.

Invariants: a place that is given out holds the submission of this run, whole.
Concurrency: see `seek`.
"""

from __future__ import annotations

from re import DOTALL
from re import compile as pattern
from typing import Final

from actors.protocol import limits
from actors.protocol.records import RecordType
from actors.record_runs import run_of
from runtime.storage.seek import RecordPlace, SegmentFile, last_segment
from runtime.storage.segment import RECORD_HEADER, RECORD_HEADER_BYTES, SEGMENT_HEADER_BYTES, LogPlace

STEP_BYTES: Final = 16 * limits.KIB
"""How far the first step backwards goes."""
SCAN_BYTES: Final = 64 * limits.KIB
"""What is looked through for the record itself, at some GB/s: a look costs as much."""
RECORDS_MAX: Final = 8
"""That a look takes in, if they say nothing."""
_HEAD_BYTES: Final = 512
"""Of a payload, that its run is worked out from."""
_LOOKS_SUBMITTED: Final = pattern(bytes([RecordType.SUBMITTED]) + rb"[\x01-\x0f].{8}\x00\x00", DOTALL)
_BEFORE_TYPE: Final = 12
"""A record header from its type on, and what it has before; see `segment`."""


def find_behind(segment: SegmentFile, end: int, no: int) -> RecordPlace | None:
    """The submission of the run of this number, in a segment, before an offset that is not far behind it."""
    high, step = end, STEP_BYTES
    while high > SEGMENT_HEADER_BYTES:
        low = max(SEGMENT_HEADER_BYTES, high - step)
        if step <= SCAN_BYTES:
            found = _scan(segment, low, high, no)
            if found is not None:
                return found
        elif (from_here := _look(segment, low, high, no)) is not None:
            return _between(segment, from_here.offset, high, no)
        high, step = low, 4 * step
    return None


def find_submission(place: LogPlace, numbers: list[int], no: int) -> tuple[SegmentFile, RecordPlace] | None:
    """The submission of the run of this number, in these segments of a log; whoever gets the segment closes it."""
    found = last_segment(
        place, numbers, lambda segment: _look(segment, SEGMENT_HEADER_BYTES, segment.size, no) is not None
    )
    at = None if found is None else _between(found, SEGMENT_HEADER_BYTES, found.size, no)
    if found is None or at is not None:
        return None if found is None or at is None else (found, at)
    found.close()
    return None


def _between(segment: SegmentFile, low: int, high: int, no: int) -> RecordPlace | None:
    """The same, between two offsets."""
    while high - low > SCAN_BYTES:
        middle = (low + high) // 2
        from_here = _look(segment, middle, high, no)
        if from_here is None:
            high = middle
        elif from_here.type == RecordType.SUBMITTED and _number(segment, from_here) == no:
            return from_here if segment.is_whole(from_here) else None
        else:
            low = from_here.offset
    return _scan(segment, low, high, no)


def _scan(segment: SegmentFile, low: int, high: int, no: int) -> RecordPlace | None:
    """The same, where all of it may be read."""
    data = segment.read(low, high - low + RECORD_HEADER_BYTES)
    at = -1
    while (match := _LOOKS_SUBMITTED.search(data, at + 1 + _BEFORE_TYPE)) is not None:
        at = match.start() - _BEFORE_TYPE
        if at + RECORD_HEADER_BYTES > len(data) or low + at >= high:
            break
        _, length, type_, _, _, lsn = RECORD_HEADER.unpack_from(data, at)
        found = RecordPlace(lsn, type_, low + at, low + at + RECORD_HEADER_BYTES + length)
        if found.stop <= segment.size and _number(segment, found) == no and segment.is_whole(found):
            return found
    return None


def _look(segment: SegmentFile, offset: int, high: int, no: int) -> RecordPlace | None:
    """A record at this offset or behind it, before `high`, from which the one wanted is not before; None: it is."""
    start = segment.next_record(offset, high, segment.first_lsn)
    if start is None:
        return None
    at = start
    for count, at in enumerate(segment.walk(start.offset)):
        if at.offset >= high or count == RECORDS_MAX:
            break
        run = _number(segment, at)
        if run is None:
            continue
        if at.type == RecordType.SUBMITTED:
            return at if run <= no else None
        if run >= no:
            return None
    return start


def _number(segment: SegmentFile, at: RecordPlace) -> int | None:
    return run_of(at.type, segment.payload(at, _HEAD_BYTES))
