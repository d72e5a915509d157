"""Reads a log from its first segment to its last, and tells a torn tail from damage.

`LogReader` is an iterator of records, one segment in memory at a time. When it is exhausted, `report()` says what was
found. What happens at a bad place (neither the end of the file nor a valid record with the LSN that must follow):

- Last segment, and nothing proves that more than an unfinished write is missing (the rule is in `segment`): a torn
  tail. Reading ends; `LogWriter` cuts it off.
- Anything else: `LogCorrupt` with segment and offset. With `salvage=True` reading goes on at the next valid record, and
  the report lists the gap.

Invariants: LSNs ascend; without salvage they are contiguous; every record given out passed its check.
Concurrency: `live=True` reads beside a running engine: segments may be appended to, and the oldest may go. Then the end
of the last segment may be a write under way, which looks torn and is no fault.
Known limits: see `segment`. Memory: one segment, which is SEGMENT_BYTES plus the last batch before it was closed.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from itertools import pairwise

from actors.protocol.errors import LogCorrupt, ProtocolError, StateFolderError
from actors.protocol.records import RECORD_VERSION, Record, RecordType
from runtime.storage.files import Files
from runtime.storage.merge import SEGMENT_TRIES_MAX, MergedSegment, beyond_shard_0, in_this_form, refuse_headless
from runtime.storage.report import Gap, LogProgress, RecoveryReport, pass_mark
from runtime.storage.segment import (
    BARRIER,
    CHECK_BYTES,
    RECORD_HEADER,
    RECORD_HEADER_BYTES,
    SEGMENT_HEADER_BYTES,
    LogPlace,
    SegmentInfo,
    digest,
    never_written,
    read_segment_header,
    search_records,
    segment_name,
    segment_no,
)


def list_segments(place: LogPlace, files: Files) -> list[int]:
    """Numbers of the segments in a log folder, ascending."""
    try:
        names = files.list(place.part(0).folder)
    except FileNotFoundError:  # a crash right after the folder got its identity
        return []
    return sorted(no for no in map(segment_no, names) if no is not None)


def segment_heads(place: LogPlace, files: Files, numbers: list[int]) -> Iterator[tuple[int, int | None, int]]:
    """Number, first LSN and bytes of these segments, as far as they are there. An LSN that cannot be read is None."""
    parts = place.parts()
    for no in numbers:
        path = f"{parts[0].folder}/{segment_name(no)}"
        try:
            head = files.read(path, SEGMENT_HEADER_BYTES)
            size = sum(files.size(f"{part.folder}/{segment_name(no)}") for part in parts)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise StateFolderError(f"cannot read log segment {segment_name(no)}: {error}") from error
        try:
            yield no, read_segment_header(head, no, parts[0]), size
        except LogCorrupt:
            yield no, None, size


class LogReader:
    """Iterates over the records of a log. Made by `read_log`.

    Raises while iterating:
        LogCorrupt: Damage before the tail, unless salvage was asked for.
        NewerFormat: A newer version wrote this log. OlderFormat: it holds a form that is not read any more.
    """

    def __init__(
        self,
        place: LogPlace,
        files: Files,
        *,
        salvage: bool = False,
        live: bool = False,
        after_lsn: int = 0,
        below: int = 0,
        marks: bool = False,
    ) -> None:
        self._place = place
        self._files = files
        self._salvage = salvage
        self._live = live
        self._after_lsn = after_lsn
        self._below = below
        self._marks = marks
        self.passed_over = False
        """Whether a segment vanished while it read."""
        self._seen = LogProgress()
        self._complete = False
        self._vanished = False
        self._records = self._read()

    def __iter__(self) -> Iterator[Record]:
        return self._records

    @property
    def lost(self) -> int:
        """Grows whenever records are found to be missing before the one that was given out last."""
        return len(self._seen.gaps) + self._seen.known_gaps

    def report(self) -> RecoveryReport:
        """What was found. Raises ProtocolError before the iteration ended by itself."""
        if not self._complete:
            raise ProtocolError("the log was not read to its end")
        seen = self._seen
        return RecoveryReport(
            segments=tuple(seen.segments),
            records=seen.records,
            bytes=seen.bytes,
            next_lsn=seen.next_lsn,
            bytes_cut=seen.bytes_cut,
            records_cut=seen.records_cut,
            gaps=tuple(seen.gaps),
            known_gaps=seen.known_gaps,
            ends=seen.ends,
        )

    def _read(self) -> Iterator[Record]:
        numbers = list_segments(self._place, self._files)
        if self._salvage:
            numbers = sorted({*numbers, *beyond_shard_0(self._place, self._files)})
        elif self._place.shards > 1:
            refuse_headless(self._place, self._files)
        if self._below:
            numbers = [no for no in numbers if no < self._below]
        known = self._pass_known(numbers) if self._after_lsn else 0
        for position, no in enumerate(numbers):
            if position < known:
                continue
            last = position == len(numbers) - 1 and not self._below
            try:
                data = self._load(no, last=last)
            except FileNotFoundError:
                if self._live:  # the oldest segments are removed while the engine runs
                    self._vanished = self.passed_over = True
                    continue
                raise
            except OSError as error:
                raise StateFolderError(f"cannot read log segment {segment_name(no)}: {error}") from error
            records = self._read_segment(no, data, last=last) if isinstance(data, bytes) else self._read_shards(data)
            if self._seen.next_lsn <= self._after_lsn:
                records = (record for record in records if record.lsn > self._after_lsn)
            yield from records
            if isinstance(data, MergedSegment) and data.vanished:
                self.passed_over = True
        if self._seen.next_lsn <= self._after_lsn:
            self._end_before()
        self._complete = True

    def _load(self, no: int, *, last: bool) -> bytes | MergedSegment:
        if self._place.shards == 1:
            return self._files.read(f"{self._place.folder}/{segment_name(no)}")
        asked = {"last": last, "salvage": self._salvage, "live": self._live, "marks": self._marks}
        return MergedSegment(self._place, self._files, no, self._seen, **asked)

    def _read_shards(self, segment: MergedSegment) -> Iterator[Record]:
        first_lsn = segment.enter()
        if first_lsn is not None:
            name = segment_name(segment.no)
            if first_lsn < self._seen.next_lsn and self._seen.segments:
                if not self._salvage:
                    raise LogCorrupt(f"segment {name} starts again at LSN {first_lsn}", name, 0)
                first_lsn = self._seen.next_lsn
            self._begin_at(name, first_lsn)
            yield from segment.records(first_lsn)

    def _pass_known(self, numbers: list[int]) -> int:
        """Pass over the segments that hold nothing above `after_lsn`, by their headers; returns how many these are."""
        seen, heads = self._seen, list(segment_heads(self._place, self._files, numbers))
        count = 0
        for (no, first_lsn, size), (_, following_lsn, _) in pairwise(heads):
            if first_lsn is None or following_lsn is None or following_lsn > self._after_lsn + 1:
                break
            seen.segments.append(SegmentInfo(no, first_lsn, following_lsn - 1, size))
            seen.bytes += size
            seen.next_lsn = following_lsn
            count += 1
        return count

    def _end_before(self) -> None:
        """The log ends where the caller knows more."""
        seen, after_lsn = self._seen, self._after_lsn
        if not self._salvage:
            raise LogCorrupt(f"the log ends at LSN {seen.next_lsn - 1}, its checkpoint at {after_lsn}")
        if seen.segments:
            last = seen.segments[-1]
            seen.gaps.append(Gap(segment_name(last.no), last.bytes, 0, seen.next_lsn, after_lsn))
        seen.next_lsn = after_lsn + 1

    def _read_segment(self, no: int, data: bytes, *, last: bool) -> Iterator[Record]:
        seen = self._seen
        entered = self._enter(no, data)
        if entered is None:
            return
        first_lsn, offset = entered
        tries = 1
        while True:
            offset = yield from self._read_valid(data, offset)
            if offset == len(data):
                break
            if self._live and last and tries < SEGMENT_TRIES_MAX:
                tries += 1
                try:
                    data = self._files.read(f"{self._place.folder}/{segment_name(no)}")
                except FileNotFoundError:  # it is the last one no more, and was removed with the oldest
                    self.passed_over = True
                    break
                if len(data) <= offset:
                    break
                continue
            following = self._judge(no, data, offset, last=last)
            if following is None:
                break
            offset = following
        seen.segments.append(SegmentInfo(no, first_lsn, seen.next_lsn - 1, offset))
        seen.bytes += offset

    def _enter(self, no: int, data: bytes) -> tuple[int, int] | None:
        """Check a segment's header against what came before.

        Returns:
            The segment's first LSN and the offset of its first record; None if salvage found nothing in it.
        """
        seen, name = self._seen, segment_name(no)
        try:
            first_lsn = read_segment_header(data, no, self._place)
            if seen.segments and first_lsn < seen.next_lsn:
                raise LogCorrupt(f"segment {name} starts again at LSN {first_lsn}", name, 0)
        except LogCorrupt:
            if not self._salvage:
                raise
            return self._enter_without_header(no, name, data)
        self._begin_at(name, first_lsn)
        return first_lsn, SEGMENT_HEADER_BYTES

    def _begin_at(self, name: str, first_lsn: int) -> None:
        """A segment begins with this LSN: compare it with what came before."""
        seen = self._seen
        if not seen.segments and not seen.gaps:
            seen.next_lsn = min(first_lsn, self._after_lsn + 1) if self._after_lsn else first_lsn
            if first_lsn > seen.next_lsn and self._live:
                self._vanished = self.passed_over = True
        if first_lsn > seen.next_lsn and not self._vanished:
            if not self._salvage:
                message = f"LSNs {seen.next_lsn} to {first_lsn - 1} are missing before segment {name}"
                raise LogCorrupt(message, name, 0)
            seen.gaps.append(Gap(name, 0, 0, seen.next_lsn, first_lsn - 1))
        seen.next_lsn = first_lsn
        self._vanished = False

    def _enter_without_header(self, no: int, name: str, data: bytes) -> tuple[int, int] | None:
        """Salvage: find the first record of this log in a segment whose header is of no use."""
        seen = self._seen
        found = next(search_records(data, 0, self._place.seed, seen.next_lsn), None)
        if found is None:
            seen.gaps.append(Gap(name, 0, len(data), seen.next_lsn, seen.next_lsn - 1))
            return None
        if not seen.segments and not seen.gaps and no > 1:
            seen.next_lsn = found.lsn  # older segments were removed by retention: nothing says that a record is lost
        seen.gaps.append(Gap(name, 0, found.offset, seen.next_lsn, found.lsn - 1))
        seen.next_lsn = found.lsn
        return found.lsn, found.offset

    def _read_valid(self, data: bytes, offset: int) -> Generator[Record, None, int]:
        """Give out valid records from `offset`; return where they end. Hot: one call a record, the check."""
        seen, seed, end = self._seen, self._place.seed, len(data)
        unpack, check_of, new, mark = RECORD_HEADER.unpack_from, digest, tuple.__new__, RecordType.MARK
        next_lsn, given = seen.next_lsn, 0
        while offset + RECORD_HEADER_BYTES <= end:
            check, length, type_, version, _flags, lsn = unpack(data, offset)
            stop = offset + RECORD_HEADER_BYTES + length
            if lsn != next_lsn or stop > end:
                break
            body = data[offset + CHECK_BYTES : stop]
            if check_of(body, seed) != check:
                break
            payload = body[RECORD_HEADER_BYTES - CHECK_BYTES :]
            if version != RECORD_VERSION:
                payload = in_this_form(lsn, type_, version, payload)
            offset = stop
            next_lsn += 1
            if type_ == mark:
                next_lsn = pass_mark(seen, lsn, payload)
                if not self._marks:
                    continue
            given += 1
            yield new(Record, (lsn, type_, payload))
        seen.next_lsn = next_lsn
        seen.records += given
        return offset

    def _judge(self, no: int, data: bytes, offset: int, *, last: bool) -> int | None:
        """Decide what a bad place is. Return where to go on, or None when the segment ends here."""
        seen, name, seed = self._seen, segment_name(no), self._place.seed
        search = search_records(data, offset, seed, seen.next_lsn)
        if last:
            behind = list(search)
            proven = any(found.flags & BARRIER for found in behind)
            if not behind or (not proven and never_written(data, offset, behind[0].offset)):
                seen.bytes_cut += len(data) - offset
                seen.records_cut += len(behind)
                return None
            search = iter(behind)
        if not self._salvage:
            raise LogCorrupt(f"segment {name} is damaged at offset {offset}, LSN {seen.next_lsn}", name, offset)
        found = next(search, None)
        stop = len(data) if found is None else found.offset
        lsn_to = seen.next_lsn - 1 if found is None else found.lsn - 1
        seen.gaps.append(Gap(name, offset, stop - offset, seen.next_lsn, lsn_to))
        if found is not None:
            seen.next_lsn = found.lsn
        return stop


def read_log(
    place: LogPlace,
    files: Files,
    *,
    salvage: bool = False,
    live: bool = False,
    after_lsn: int = 0,
    below: int = 0,
    marks: bool = False,
) -> LogReader:
    """Read a log from its oldest record on.

    Args:
        place: Folder and uuid of the log.
        files: The seam to the disk.
        salvage: Skip damage and report it, instead of raising.
        live: An engine is writing this log; tolerate removed segments and a write under way.
        after_lsn: Give out what is behind this record, which the log must reach; segments before are not read.
        below: Read closed segments only, those with smaller numbers than this; 0: all. They have no torn tail.
        marks: Give out the log's own marks, too, for who writes the log anew.

    Returns:
        An iterable of records in LSN order; afterwards its `report()` is complete. Reading writes nothing.
    """
    return LogReader(place, files, salvage=salvage, live=live, after_lsn=after_lsn, below=below, marks=marks)
