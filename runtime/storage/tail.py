"""Reads a log from any place, and on as it grows: what subscribers of events read, each for itself.

Nothing is asked of the engine. What it wrote is in the page cache, so that many readers cost a copy each; they hold no
lock and delay nobody. The caller says up to which LSN may be read, because what is written is not durable yet.

States: between two reads the place is (segment, offset, next LSN); `read` moves it behind what it returns.

Invariants: records are given out once, in order, with their checks right. A bad place before the end of what may be
read is `LogCorrupt`; behind it, it is a write under way, unless what is behind says that it was durable.
Concurrency: one reader per object. Segments may vanish: one that is open is read to its end, then `CursorTooOld` says
what was missed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Self

import orjson

from actors.protocol.errors import NewerFormat
from actors.protocol.event_errors import CursorBeyondEnd, CursorTooOld
from actors.protocol.records import LSN_FIRST, RECORD_VERSION, Record, RecordType
from runtime.storage.files import DiskFiles
from runtime.storage.openings import Opening
from runtime.storage.reader import list_segments
from runtime.storage.report import lsn_behind_mark
from runtime.storage.seek import (
    HEAD_BYTES,
    NEAR_RECORDS,
    WINDOW_BYTES,
    OrderKey,
    RecordPlace,
    SegmentFile,
    corrupt,
    last_segment,
    last_with,
    open_segment,
)
from runtime.storage.seek_keys import BY_RUN, BY_TIME, run_no_of, time_of
from runtime.storage.seek_run import find_behind, find_submission
from runtime.storage.segment import (
    CHECK_BYTES,
    RECORD_HEADER,
    RECORD_HEADER_BYTES,
    SEGMENT_HEADER_BYTES,
    LogPlace,
    digest,
)

READ_BYTES: Final = 1 << 20
"""What one `read` takes from the file, if no record is larger."""
BEGIN_BYTES: Final = 1 << 14
"""The same of the first one of who begins with a segment; each that was full is followed by four times as much."""
FIRST_BYTES: Final = 1 << 10
"""The same in the middle of one: whoever went there waits for the record that is there."""
OPENED_MARK: Final = b'"next_run_no":'
"""What is in the record of an opening."""


class LogTail:
    """See the module. Made at the oldest record that the log keeps; `seek` goes elsewhere."""

    def __init__(self, place: LogPlace) -> None:
        self.place = place
        self.next_lsn = LSN_FIRST
        self._segment: SegmentFile | None = None
        self._offset = SEGMENT_HEADER_BYTES
        self._window = BEGIN_BYTES
        for no in self._numbers():
            segment = open_segment(place, no)
            if segment is not None:
                self._set(segment, SEGMENT_HEADER_BYTES, segment.first_lsn)
                break

    # --- where ----------------------------------------------------------------------------------------------------

    @property
    def first_lsn(self) -> int:
        """The oldest LSN that the log keeps."""
        for no in self._numbers():
            segment = open_segment(self.place, no)
            if segment is not None:
                with segment:
                    return segment.first_lsn
        return LSN_FIRST

    @property
    def last_first_lsn(self) -> int:
        """The LSN with which the last segment begins."""
        for no in reversed(self._numbers()):
            segment = open_segment(self.place, no)
            if segment is not None:
                with segment:
                    return segment.first_lsn
        return LSN_FIRST

    def end_lsn(self) -> int:
        """The LSN behind the last record that is written: looks at the last segment from record to record."""
        for no in reversed(self._numbers()):
            segment = open_segment(self.place, no)
            if segment is not None:
                with segment:
                    return self._end_of(segment)
        return LSN_FIRST

    def seek(self, lsn: int) -> None:
        """Let the next read begin with this record. Takes less than a millisecond, however long the log is.

        Raises:
            CursorTooOld: The log does not keep it any more. CursorBeyondEnd: there is none yet, nor is it the next one.
        """
        segment = self._segment_of(lsn)
        if segment is not None:
            self._go_to(segment, lsn)
            return
        first = self.first_lsn
        if lsn < first:
            raise CursorTooOld(f"LSN {lsn} is not kept any more; the first that is kept is {first}", first)
        if lsn != LSN_FIRST:
            raise CursorBeyondEnd(f"LSN {lsn} is beyond the end of the log, which is empty", LSN_FIRST)
        self._leave()

    def _segment_of(self, lsn: int) -> SegmentFile | None:
        """The last segment that begins with this LSN or before it. Those that vanish meanwhile are the oldest ones."""
        return last_segment(self.place, self._numbers(), lambda segment: segment.first_lsn <= lsn)

    def close(self) -> None:
        """Let go of the files."""
        self._leave()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _go_to(self, segment: SegmentFile, lsn: int) -> None:
        if lsn == segment.first_lsn:
            self._set(segment, SEGMENT_HEADER_BYTES, lsn)
            return
        found = segment.find(lsn)
        if found is None:
            end = self._end_of(segment)
            if lsn != end:
                segment.close()
                raise CursorBeyondEnd(f"LSN {lsn} is beyond the end of the log; the next one is {end}", end)
            last: RecordPlace | None = None
            for at in segment.walk(segment.near(lsn)):
                last = at
            self._set(segment, SEGMENT_HEADER_BYTES if last is None else last.stop, lsn)
            return
        self._set(segment, found.offset, found.lsn)

    def _set(self, segment: SegmentFile, offset: int, lsn: int) -> None:
        self._leave()
        self._segment, self._offset, self.next_lsn = segment, offset, lsn
        self._window = BEGIN_BYTES if offset == SEGMENT_HEADER_BYTES else FIRST_BYTES

    def _leave(self) -> None:
        if self._segment is not None:
            self._segment.close()
            self._segment = None

    def _numbers(self) -> list[int]:
        return list_segments(self.place, DiskFiles())

    def _numbers_to(self, lsn: int) -> list[int]:
        """Those that can have records up to this LSN; others need not be opened to be passed over."""
        numbers, here = self._numbers(), self._segment
        return numbers if here is None or lsn >= self.next_lsn else [no for no in numbers if no <= here.no]

    @staticmethod
    def _end_of(segment: SegmentFile) -> int:
        """The LSN behind the last whole record."""
        end = segment.first_lsn
        last: RecordPlace | None = None
        for at in segment.walk(segment.near(1 << 62)):
            last = at
        if last is not None and segment.is_whole(last):
            end = last.lsn + 1
            if last.type == RecordType.MARK:
                end = lsn_behind_mark(last.lsn, segment.payload(last))
        elif last is not None:
            end = last.lsn
        return end

    # --- reading --------------------------------------------------------------------------------------------------

    def read(self, upto_lsn: int | None = None) -> list[Record]:
        """The next records, about `READ_BYTES` of them; none at the end of what is there.

        Args:
            upto_lsn: None after this one; None: as far as whole records are there.

        Raises:
            LogCorrupt: There is a bad place before that. CursorTooOld: what comes next was removed.
        """
        while upto_lsn is None or self.next_lsn <= upto_lsn:
            if self._segment is None and not self._enter_next():
                return []
            segment = self._segment
            if segment is None:
                return []
            found = self._read_from(segment, upto_lsn)
            if found:
                return found
            if not self._enter_next():
                segment.refresh()
                bad = segment.size > self._offset and not self._is_next_whole(segment)
                if bad and (upto_lsn is not None or segment.is_durable_behind(self._offset, self.next_lsn)):
                    raise corrupt(segment, self._offset, self.next_lsn)
                return []
        return []

    def _read_from(self, segment: SegmentFile, upto_lsn: int | None) -> list[Record]:
        window = self._window
        data = segment.read(self._offset, window)
        if len(data) == window:
            self._window = min(READ_BYTES, 4 * window)
            length = RECORD_HEADER_BYTES + RECORD_HEADER.unpack_from(data)[1]
            if length > window:
                data = segment.read(self._offset, length)
        return self._parse(data, upto_lsn, segment)

    def _parse(self, data: bytes, upto_lsn: int | None, segment: SegmentFile) -> list[Record]:
        """Whole records from the beginning of these bytes. Hot: a loop turn a record."""
        found: list[Record] = []
        add, unpack, check_of, new = found.append, RECORD_HEADER.unpack_from, digest, tuple.__new__
        offset, end, seed, next_lsn, mark = 0, len(data), self.place.seed, self.next_lsn, RecordType.MARK
        last = (1 << 62) if upto_lsn is None else upto_lsn
        while offset + RECORD_HEADER_BYTES <= end and next_lsn <= last:
            check, length, type_, version, _, lsn = unpack(data, offset)
            stop = offset + RECORD_HEADER_BYTES + length
            if stop > end or lsn != next_lsn:
                break
            body = data[offset + CHECK_BYTES : stop]
            if check_of(body, seed) != check:
                break
            if version > RECORD_VERSION:
                raise NewerFormat(f"record {lsn} has version {version}; this version reads up to {RECORD_VERSION}")
            offset = stop
            next_lsn += 1
            payload = body[RECORD_HEADER_BYTES - CHECK_BYTES :]
            if type_ == mark:
                next_lsn = lsn_behind_mark(lsn, payload)
            else:
                add(new(Record, (lsn, type_, payload)))
        self._offset += offset
        self.next_lsn = next_lsn
        return found

    def _enter_next(self) -> bool:
        """Go on in the next segment, if the present one is read to its end and there is one."""
        segment = self._segment
        numbers = [no for no in self._numbers() if segment is None or no > segment.no]
        for no in numbers:
            following = open_segment(self.place, no)
            if following is None:
                continue
            if segment is not None:
                segment.refresh()
                whole = following.first_lsn == self.next_lsn
                if not whole and segment.size > self._offset:
                    following.close()
                    if self._is_next_whole(segment):
                        return True
                    raise corrupt(segment, self._offset, self.next_lsn)
            if following.first_lsn > self.next_lsn:
                first = following.first_lsn
                following.close()
                raise CursorTooOld(f"LSNs {self.next_lsn} to {first - 1} were removed before they were read", first)
            window = self._window
            self._set(following, SEGMENT_HEADER_BYTES, following.first_lsn)
            self._window = window
            return True
        return False

    def _is_next_whole(self, segment: SegmentFile) -> bool:
        """Whether more was written since the last look."""
        at = next(segment.walk(self._offset), None)
        return at is not None and at.lsn == self.next_lsn and segment.is_whole(at)

    # --- looking things up ----------------------------------------------------------------------------------------

    def submission(self, no: int, below_lsn: int) -> Record | None:
        """The record with which the run of this number was submitted."""
        segment, end = self._segment, self._offset
        if segment is not None and (found := find_behind(segment, end, no)) is not None:
            return segment.record(found)
        at = find_submission(self.place, self._numbers(), no) or self._last_below(BY_RUN, no + 1, below_lsn)
        if at is None:
            return None
        segment, found = at
        with segment:
            record = segment.record(found)
            return record if run_no_of(record.type, record.payload) == no else None

    def before_time(self, wall_ns: int) -> int:
        """An LSN before which nothing is of this time (ns since 1970) or later, if nobody set the clock."""
        at = self._last_below(BY_TIME, wall_ns, 1 << 62)
        if at is None:
            return self.first_lsn
        at[0].close()
        return at[1].lsn

    def clock_at(self, lsn: int, opening: Opening | None = None) -> tuple[int, int]:
        """What leads from the engine's clock to the wall clock, and the time about, as of this record.

        Args:
            lsn: Of the record.
            opening: The last one up to there, where that is known; else it is looked for.
        """
        offset_ns = wall_ns = 0
        for no in reversed(self._numbers_to(lsn)):
            segment = open_segment(self.place, no)
            if segment is None:
                continue
            with segment:
                if segment.first_lsn > lsn:
                    continue
                if not wall_ns:
                    here = self._segment is not None and self._segment.no == no
                    is_near = here and lsn < self.next_lsn <= lsn + NEAR_RECORDS
                    wall_ns = _time_before(segment, lsn, self._offset if is_near else 0)
                if opening is not None:
                    return opening.wall_ns - opening.now_ns, max(wall_ns, opening.wall_ns)
                found = last_with(segment, OPENED_MARK, RecordType.OPENED, lsn)
                if found is not None:
                    opened = orjson.loads(segment.payload(found))
                    return opened["wall_ns"] - opened["now_ns"], max(wall_ns, opened["wall_ns"])
        return offset_ns, wall_ns

    def below(self, lsn: int) -> Iterator[Record]:
        """All records that the log keeps below this one."""
        with LogTail(self.place) as tail:
            while records := tail.read(lsn - 1):
                yield from records

    def _last_below(self, key: OrderKey, wanted: int, below_lsn: int) -> tuple[SegmentFile, RecordPlace] | None:
        """The last record with a key below the one wanted."""
        for no in reversed(self._numbers()):
            segment = open_segment(self.place, no)
            if segment is None:
                continue
            if segment.first_lsn < below_lsn:
                found = segment.find_key(key, wanted)
                if found is not None:
                    return segment, found
            segment.close()
        return None


def latest_before(place: LogPlace, lsn: int) -> int:
    """The latest time that one of some records before an LSN says, in the segment where that is; 0: none does."""
    for no in reversed(list_segments(place, DiskFiles())):
        segment = open_segment(place, no)
        if segment is not None:
            with segment:
                if segment.first_lsn <= lsn:
                    return _time_before(segment, lsn)
    return 0


def _time_before(segment: SegmentFile, lsn: int, end: int = 0) -> int:
    """The latest time that one of some records before this one says; 0: none does. `end`: its offset, if known."""
    latest, low = 0, max(SEGMENT_HEADER_BYTES, end - WINDOW_BYTES)
    start = segment.next_record(low, end, segment.first_lsn) if end else None
    for at in segment.walk(segment.near(lsn - NEAR_RECORDS) if start is None else start.offset):
        if at.lsn >= lsn:
            break
        if at.type in BY_TIME.types:
            count = HEAD_BYTES if at.type == RecordType.SUBMITTED else -1
            latest = time_of(at.type, segment.payload(at, count)) or latest
    return latest
