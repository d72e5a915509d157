"""One segment of a log in shards, read as if it were one file.

    log/0/00000007.seg   LSN  900  901       904            909
    log/1/00000007.seg                  903       905  906            one order: 900, 901, 902, ... over all of them
    log/2/00000007.seg             902                       907 908

A record lies on the shard of its run (`actors.record_runs`). All shards change segments together, so a segment has one
number and one first LSN, and a file in each shard. Shard 0's is made last and removed first: a segment is there when
that is. A group commit writes each shard's part and syncs them side by side; it is durable when all of them are.

Where the LSN that must follow is on no shard, the log ends, or is damaged:

- All files end: it is the end of the segment.
- Not the last segment: damage, because all of it was synced before the next one was made.
- A record behind the gap, on any shard, says with `ALL_BEFORE` that the missing one was durable before it: damage.
- A bad place in one of the files that is damage by the rule for a single file (see `segment`): damage.
- Salvage that has found damage in the segment takes all that is whole behind it.
- Else an unfinished write: the log ends before the gap, and what other shards have behind it was not acknowledged.

Invariants: records come in order, contiguous but for marks, each with its check right.
Concurrency: beside a running engine files are read one after the other, so one may have what follows what another did
not have yet. Evidence of damage is only what was there before the first of them was read.
Known limit: what a shard has lost from some place to its end looks as if it had not been acknowledged, if all commits
since then lie on that shard alone; so it does in a log of one file.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from actors.protocol.errors import LogCorrupt, NewerFormat, StateFolderError
from actors.protocol.forms import brought_up
from actors.protocol.records import RECORD_VERSION, Record, RecordType
from runtime.storage.files import Files
from runtime.storage.report import Gap, LogProgress, pass_mark
from runtime.storage.segment import (
    AHEAD_SHIFT,
    ALL_BEFORE,
    BARRIER,
    CHECK_BYTES,
    RECORD_HEADER,
    RECORD_HEADER_BYTES,
    SEGMENT_HEADER_BYTES,
    FoundRecord,
    LogPlace,
    SegmentInfo,
    digest,
    never_written,
    read_segment_header,
    search_records,
    segment_name,
    segment_no,
    valid_record,
)

SEGMENT_TRIES_MAX: Final = 3
"""Readings of a live segment before damage in it is believed: the writer may have been cutting off a batch."""


class ShardPart:
    """The file of one shard, and how far it was read."""

    __slots__ = ("data", "name", "offset", "place", "proven", "seed")

    def __init__(self, place: LogPlace, no: int, data: bytes, proven: int) -> None:
        self.place = place
        self.name = place.prefix + segment_name(no)
        self.seed = place.seed
        self.data = data
        self.proven = proven
        """So many bytes were there before any file was read."""
        self.offset = SEGMENT_HEADER_BYTES

    @property
    def over(self) -> bool:
        """Read to its end."""
        return self.offset >= len(self.data)

    def next_lsn(self) -> int | None:
        """What the header of the next record says; its check was not looked at."""
        if self.offset + RECORD_HEADER_BYTES > len(self.data):
            return None
        return int(RECORD_HEADER.unpack_from(self.data, self.offset)[5])

    def is_bad(self, lsn: int) -> bool:
        """Whether what comes next is no record from this LSN on."""
        if self.over:
            return False
        found = valid_record(self.data, self.offset, self.seed)
        return found is None or found.lsn < lsn

    def behind(self, lsn: int) -> list[FoundRecord]:
        """All valid records from here on."""
        return list(search_records(self.data, self.offset, self.seed, lsn))


class MergedSegment:
    """See the module.

    Args:
        place: Of the log in shards.
        files: The seam to the disk.
        no: Number of the segment.
        seen: What is known of the log so far; it is brought up to date.
        last: It is the last one, and may end in an unfinished write.
        salvage: Skip damage and note it.
        live: An engine is writing this log.
        marks: Give out the log's own marks, too.

    Raises:
        FileNotFoundError: The segment is gone. LogCorrupt: the file of a shard is missing. StateFolderError: it cannot
        be read.
    """

    def __init__(
        self,
        place: LogPlace,
        files: Files,
        no: int,
        seen: LogProgress,
        *,
        last: bool,
        salvage: bool = False,
        live: bool = False,
        marks: bool = False,
    ) -> None:
        self.no = no
        self._places = place.parts()
        self._files = files
        self._seen = seen
        self._last = last
        self._salvage = salvage
        self._marks = marks
        self._tries_left = SEGMENT_TRIES_MAX - 1 if live and last else 0
        self._heads: dict[int, ShardPart] = {}
        self._gaps_before = len(seen.gaps)
        self.vanished = False
        """Whether it was removed while it was read."""
        self._parts = [
            ShardPart(place, no, data, proven) for place, (data, proven) in zip(self._places, self._read(), strict=True)
        ]

    def enter(self) -> int | None:
        """Check the headers; returns the first LSN. None: salvage found nothing in the segment."""
        firsts: dict[str, int] = {}
        for part in self._parts:
            try:
                firsts[part.name] = read_segment_header(part.data, self.no, part.place)
            except LogCorrupt:
                if not self._salvage:
                    raise
                part.offset = 0
                self._skip(part, self._seen.next_lsn)
        if len(set(firsts.values())) > 1 and not self._salvage:
            told = ", ".join(f"{name} at LSN {lsn}" for name, lsn in firsts.items())
            raise LogCorrupt(f"the shards of one segment begin at different places: {told}", min(firsts), 0)
        starts = firsts.values() or [lsn for part in self._parts if (lsn := part.next_lsn()) is not None]
        return min(starts, default=None)

    def records(self, first_lsn: int) -> Iterator[Record]:
        """All records in order. Hot: one call a record, the check."""
        seen, heads = self._seen, self._heads
        unpack, check_of, new, mark = RECORD_HEADER.unpack_from, digest, tuple.__new__, RecordType.MARK
        self._look()
        next_lsn, given = seen.next_lsn, 0
        while True:
            part = heads.pop(next_lsn, None)
            if part is not None:
                data, offset, end, seed = part.data, part.offset, len(part.data), part.seed
                while offset + RECORD_HEADER_BYTES <= end:
                    check, length, type_, version, _flags, lsn = unpack(data, offset)
                    stop = offset + RECORD_HEADER_BYTES + length
                    if lsn != next_lsn:
                        heads.setdefault(lsn, part)
                        break
                    body = data[offset + CHECK_BYTES : stop]
                    if stop > end or check_of(body, seed) != check:
                        break
                    payload = body[RECORD_HEADER_BYTES - CHECK_BYTES :]
                    if version != RECORD_VERSION:
                        payload = in_this_form(lsn, type_, version, payload)
                    part.offset = offset = stop
                    next_lsn += 1
                    if type_ == mark:
                        next_lsn = pass_mark(seen, lsn, payload)
                        if not self._marks:
                            continue
                    given += 1
                    yield new(Record, (lsn, type_, payload))
                if next_lsn in heads or offset >= end:
                    continue
            seen.next_lsn = next_lsn
            if all(part.over for part in self._parts) or not self._goes_on():
                break
            next_lsn = seen.next_lsn
        seen.records += given
        size = sum(part.offset for part in self._parts)
        seen.segments.append(SegmentInfo(self.no, first_lsn, seen.next_lsn - 1, size))
        seen.bytes += size
        seen.ends = tuple(part.offset for part in self._parts)

    # --- the files ------------------------------------------------------------------------------------------------

    def _read(self) -> list[tuple[bytes, int]]:
        """Each shard's file, and its size before any was read."""
        paths = [f"{place.folder}/{segment_name(self.no)}" for place in self._places]
        try:
            sizes = [self._size(path) for path in paths]
            there = [path for path, size in zip(paths, sizes, strict=True) if size is not None]
            data: dict[str, bytes] = dict(zip(there, self._files.read_together(there), strict=True))
            return [(data.get(path, b""), size or 0) for path, size in zip(paths, sizes, strict=True)]
        except FileNotFoundError:
            if not self._is_there(paths[0]):
                raise
            name = next(
                place.prefix for place, path in zip(self._places, paths, strict=True) if not self._is_there(path)
            )
            name += segment_name(self.no)
            raise LogCorrupt(f"segment {name} is missing", name, 0) from None
        except OSError as error:
            raise StateFolderError(f"cannot read log segment {segment_name(self.no)}: {error}") from error

    def _size(self, path: str) -> int | None:
        """Bytes in a file. None: it is not there, and salvage does without."""
        if self._salvage and not self._is_there(path):
            return None
        return self._files.size(path)

    def _is_there(self, path: str) -> bool:
        try:
            return self._files.size(path) >= 0
        except FileNotFoundError:
            return False

    def _read_again(self) -> None:
        for part, (data, proven) in zip(self._parts, self._read(), strict=True):
            part.data, part.proven = data, proven

    def _look(self) -> None:
        """What each shard has next."""
        self._heads.clear()
        for part in self._parts:
            lsn = part.next_lsn()
            if lsn is not None:
                self._heads.setdefault(lsn, part)

    # --- gaps -----------------------------------------------------------------------------------------------------

    def _goes_on(self) -> bool:
        """The next record is on no shard. Whether reading goes on behind the gap; else the segment ends here."""
        seen, missing = self._seen, self._seen.next_lsn
        if self._tries_left:
            self._tries_left -= 1
            try:
                self._read_again()
            except FileNotFoundError:  # it is the last one no more, and was removed with the oldest
                self.vanished = True
                return False
            self._look()
            return True
        salvaging = len(seen.gaps) > self._gaps_before and any(part.behind(missing) for part in self._parts)
        if self._last and not salvaging and self._is_torn(missing):
            seen.bytes_cut += sum(max(0, len(part.data) - part.offset) for part in self._parts)
            seen.records_cut += sum(len(part.behind(missing)) for part in self._parts)
            return False
        if not self._salvage:
            bad = next((part for part in self._parts if part.is_bad(missing)), None)
            if bad is not None:
                message = f"segment {bad.name} is damaged at offset {bad.offset}, LSN {missing}"
                raise LogCorrupt(message, bad.name, bad.offset)
            part = next(part for part in self._parts if not part.over)
            raise LogCorrupt(f"LSN {missing} is on no shard; {part.name} goes on behind it", part.name, part.offset)
        for part in self._parts:
            if part.is_bad(missing):
                self._skip(part, missing)
        self._look()
        if not self._heads:
            return False
        seen.next_lsn = min(self._heads)
        if seen.next_lsn > missing:
            part = self._heads[seen.next_lsn]
            seen.gaps.append(Gap(part.name, part.offset, 0, missing, seen.next_lsn - 1))
        return True

    def _is_torn(self, missing: int) -> bool:
        """Whether nothing proves that more than an unfinished write is missing."""
        for part in self._parts:
            behind = part.behind(missing)
            if any(missing < _durable_before(found) and found.stop <= part.proven for found in behind):
                return False
            if behind and part.is_bad(missing):
                if any(found.flags & BARRIER for found in behind):
                    return False
                if not never_written(part.data, part.offset, behind[0].offset):
                    return False
        return True

    def _skip(self, part: ShardPart, missing: int) -> None:
        """Go to the next valid record of this shard, and note what was skipped."""
        found = next(search_records(part.data, part.offset, part.seed, missing), None)
        stop = len(part.data) if found is None else found.offset
        self._seen.gaps.append(Gap(part.name, part.offset, stop - part.offset, missing, missing - 1))
        part.offset = stop


def beyond_shard_0(place: LogPlace, files: Files) -> dict[int, str]:
    """Segments with records above the last one of shard 0, which had it first removed and last made: its file is lost.

    Returns a file that has some of them, by number. None but where there is damage.
    """
    found: dict[int, str] = {}
    for part in place.parts()[1:]:
        for name in segments_in(part, files):
            no = segment_no(name) or 0
            try:
                has_records = files.size(f"{part.folder}/{name}") > SEGMENT_HEADER_BYTES
            except FileNotFoundError:  # an engine removed it
                continue
            if has_records and no > _last_of(place, files):
                found[no] = part.prefix + name
    return found


def refuse_headless(place: LogPlace, files: Files) -> None:
    """Raise LogCorrupt when other shards have records in segments that shard 0 does not have yet."""
    for no, name in beyond_shard_0(place, files).items():
        raise LogCorrupt(f"segment {place.part(0).prefix}{segment_name(no)} is missing, but {name} is there", name, 0)


def _last_of(place: LogPlace, files: Files) -> int:
    names = segments_in(place.part(0), files)
    return segment_no(names[-1]) or 0 if names else 0


def segments_in(part: LogPlace, files: Files) -> list[str]:
    """Names of the segment files of one shard, ascending."""
    try:
        return sorted(name for name in files.list(part.folder) if segment_no(name) is not None)
    except FileNotFoundError:
        return []


def _durable_before(found: FoundRecord) -> int:
    """The LSN below which all was durable when this record was written, as far as it says so."""
    return found.lsn - (found.flags >> AHEAD_SHIFT) if found.flags & ALL_BEFORE else 0


def in_this_form(lsn: int, type_: int, version: int, payload: bytes) -> bytes:
    """The payload of another version's record, as this version reads it."""
    if version > RECORD_VERSION:
        raise NewerFormat(f"record {lsn} has version {version}; this version reads up to {RECORD_VERSION}")
    return brought_up(lsn, type_, version, payload)
