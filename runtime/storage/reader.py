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
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from struct import Struct
from typing import Any, Final

from actors.protocol.errors import LogCorrupt, NewerFormat, ProtocolError, StateFolderError
from actors.protocol.forms import brought_up
from actors.protocol.records import LSN_FIRST, RECORD_VERSION, Record, RecordType
from runtime.storage.files import Files
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

LIVE_TRIES_MAX: Final = 3
"""Readings of a live segment before damage in it is believed: the writer may have been cutting off a batch."""
_GAP: Final = Struct("<BQ")
_MARK_GAP: Final = 1
MARK_CLOSED: Final = b"\x02"
"""Payload of the MARK record that ends a log in good order."""


@dataclass(frozen=True, slots=True)
class Gap:
    """A damaged stretch that salvage skipped: bytes in a segment (0: a segment before it is missing), and lost LSNs.

    `lsn_to` is below `lsn_from` where no record was lost, or where a later gap of the report has the LSNs.
    """

    segment: str
    offset: int
    bytes: int
    lsn_from: int
    lsn_to: int


@dataclass(frozen=True, slots=True)
class RecoveryReport:
    """What reading a log found.

    `bytes_cut` are the bytes of the torn tail, behind the `bytes` of the last segment; `records_cut` counts whole but
    unacknowledged records among them. `gaps` lists damage skipped by salvage now, `mended` what `mend_log` replaced
    by marks, `known_gaps` counts LSNs lost to salvages up to now.
    """

    segments: tuple[SegmentInfo, ...]
    records: int
    bytes: int
    next_lsn: int
    bytes_cut: int
    records_cut: int
    gaps: tuple[Gap, ...]
    known_gaps: int
    mended: tuple[Gap, ...] = ()

    @property
    def clean(self) -> bool:
        """Nothing cut, nothing lost."""
        return not (self.bytes_cut or self.gaps or self.known_gaps)

    def to_json(self) -> dict[str, Any]:
        """As plain JSON data."""
        lists = {
            "segments": [info._asdict() for info in self.segments],
            "gaps": [asdict(gap) for gap in self.gaps],
            "mended": [asdict(gap) for gap in self.mended],
        }
        return {**asdict(self), **lists, "clean": self.clean}


@dataclass(slots=True)
class _Progress:
    """What a reader knows so far."""

    segments: list[SegmentInfo] = field(default_factory=list)
    records: int = 0
    bytes: int = 0
    next_lsn: int = LSN_FIRST
    bytes_cut: int = 0
    records_cut: int = 0
    gaps: list[Gap] = field(default_factory=list)
    known_gaps: int = 0


def gap_payload(lsn_to: int) -> bytes:
    """Payload of the MARK record that stands for lost LSNs: those from its own to `lsn_to`."""
    return _GAP.pack(_MARK_GAP, lsn_to)


def lsn_behind_mark(lsn: int, payload: bytes) -> int:
    """The LSN that must follow a MARK record."""
    if len(payload) != _GAP.size or payload[0] != _MARK_GAP:
        return lsn + 1
    return max(lsn, int(_GAP.unpack(payload)[1])) + 1


def list_segments(place: LogPlace, files: Files) -> list[int]:
    """Numbers of the segments in a log folder, ascending."""
    try:
        names = files.list(place.folder)
    except FileNotFoundError:  # a crash right after the folder got its identity
        return []
    return sorted(no for no in map(segment_no, names) if no is not None)


def segment_heads(place: LogPlace, files: Files, numbers: list[int]) -> Iterator[tuple[int, int | None, int]]:
    """Number, first LSN and bytes of these segments, as far as they are there. An LSN that cannot be read is None."""
    for no in numbers:
        path = f"{place.folder}/{segment_name(no)}"
        try:
            head, size = files.read(path, SEGMENT_HEADER_BYTES), files.size(path)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise StateFolderError(f"cannot read log segment {segment_name(no)}: {error}") from error
        try:
            yield no, read_segment_header(head, no, place), size
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
    ) -> None:
        self._place = place
        self._files = files
        self._salvage = salvage
        self._live = live
        self._after_lsn = after_lsn
        self._below = below
        self.passed_over = False
        """Whether a segment vanished while it read."""
        self._seen = _Progress()
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
        )

    def _read(self) -> Iterator[Record]:
        numbers = list_segments(self._place, self._files)
        if self._below:
            numbers = [no for no in numbers if no < self._below]
        known = self._pass_known(numbers) if self._after_lsn else 0
        for position, no in enumerate(numbers):
            if position < known:
                continue
            try:
                data = self._files.read(f"{self._place.folder}/{segment_name(no)}")
            except FileNotFoundError:
                if self._live:  # the oldest segments are removed while the engine runs
                    self._vanished = self.passed_over = True
                    continue
                raise
            except OSError as error:
                raise StateFolderError(f"cannot read log segment {segment_name(no)}: {error}") from error
            records = self._read_segment(no, data, last=position == len(numbers) - 1 and not self._below)
            if self._seen.next_lsn <= self._after_lsn:
                records = (record for record in records if record.lsn > self._after_lsn)
            yield from records
        if self._seen.next_lsn <= self._after_lsn:
            self._end_before()
        self._complete = True

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
            if self._live and last and tries < LIVE_TRIES_MAX:
                tries += 1
                data = self._files.read(f"{self._place.folder}/{segment_name(no)}")
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
        return first_lsn, SEGMENT_HEADER_BYTES

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
                payload = _brought_up(lsn, type_, version, payload)
            offset = stop
            next_lsn += 1
            if type_ == mark:
                next_lsn = self._pass_mark(lsn, payload)
                continue
            given += 1
            yield new(Record, (lsn, type_, payload))
        seen.next_lsn = next_lsn
        seen.records += given
        return offset

    def _pass_mark(self, lsn: int, payload: bytes) -> int:
        """Take notice of a MARK record; return the LSN that must follow it."""
        following = lsn_behind_mark(lsn, payload)
        if len(payload) == _GAP.size and payload[0] == _MARK_GAP:
            self._seen.known_gaps += max(0, int(_GAP.unpack(payload)[1]) - lsn + 1)
        return following

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


def _brought_up(lsn: int, type_: int, version: int, payload: bytes) -> bytes:
    """The payload of another version's record, as this version reads it."""
    if version > RECORD_VERSION:
        raise NewerFormat(f"record {lsn} has version {version}; this version reads up to {RECORD_VERSION}")
    return brought_up(lsn, type_, version, payload)


def read_log(
    place: LogPlace, files: Files, *, salvage: bool = False, live: bool = False, after_lsn: int = 0, below: int = 0
) -> LogReader:
    """Read a log from its oldest record on.

    Args:
        place: Folder and uuid of the log.
        files: The seam to the disk.
        salvage: Skip damage and report it, instead of raising.
        live: An engine is writing this log; tolerate removed segments and a write under way.
        after_lsn: Give out what is behind this record, which the log must reach; segments before are not read.
        below: Read closed segments only, those with smaller numbers than this; 0: all. They have no torn tail.

    Returns:
        An iterable of records in LSN order; afterwards its `report()` is complete. Reading writes nothing.
    """
    return LogReader(place, files, salvage=salvage, live=live, after_lsn=after_lsn, below=below)
