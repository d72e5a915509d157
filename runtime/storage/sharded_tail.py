"""`LogTail` for a log in shards: reads from any place in the one order of its records, and on as it grows.

    ShardTail 0 ──► 900  901 ─┐
    ShardTail 1 ──►  903  905 ├──► ahead ──► 900, 901, 902, 903, ...
    ShardTail 2 ──►   902  907┘

Each shard is read by itself, a piece at a time; what is ahead of the next LSN waits. What is looked up (the submission
of a run, a time, the clock) is looked up in the shards that can have it, each without reading it.

Invariants: those of `tail`. What waits is at most one piece of each shard, and never beyond what may be read.
Concurrency: one reader per object; see `tail`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Self

from actors.protocol.errors import NewerFormat
from actors.protocol.event_errors import CursorBeyondEnd, CursorTooOld
from actors.protocol.records import LSN_FIRST, RECORD_VERSION, Record, RecordType
from actors.record_runs import shard_of_run
from runtime.storage.openings import Opening
from runtime.storage.report import lsn_behind_mark
from runtime.storage.seek import RecordPlace, SegmentFile, corrupt, open_segment
from runtime.storage.segment import (
    CHECK_BYTES,
    RECORD_HEADER,
    RECORD_HEADER_BYTES,
    SEGMENT_HEADER_BYTES,
    LogPlace,
    digest,
)
from runtime.storage.tail import LogTail, latest_before

_NO_BOUND: Final = 1 << 62


class ShardTail(LogTail):
    """One shard, whose LSNs ascend. `fetch` takes the place of `read`, and gives out marks, too."""

    def __init__(self, place: LogPlace) -> None:
        self.stuck = False
        """What comes next is no whole record."""
        self.gone_before = 0
        """The segment that comes next was removed; the first LSN that is still there."""
        super().__init__(place)

    def seek(self, lsn: int) -> None:
        """Let the next piece begin with this record or the first one behind it."""
        self.stuck, self.gone_before = False, 0
        for no in reversed(self._numbers()):
            segment = open_segment(self.place, no)
            if segment is None:
                continue
            if segment.first_lsn > lsn:
                segment.close()
                continue
            self._go_to(segment, lsn)
            return
        self._leave()
        self.next_lsn = lsn

    @property
    def knows_more(self) -> bool:
        """Whether a whole record is at its place."""
        return self._segment is not None and self._next_whole(self._segment) is not None

    def fetch(self, upto_lsn: int) -> list[Record]:
        """The next piece; empty: there is none up to this LSN, as far as one can see (`stuck`, `gone_before`)."""
        self.stuck, self.gone_before = False, 0
        while True:
            segment = self._segment
            if segment is None:
                if not self._enter_following(0):
                    return []
                continue
            offset = self._offset
            found = self._read_from(segment, upto_lsn)
            if found:
                return found
            if self._offset != offset:
                continue
            segment.refresh()
            if segment.size > offset:
                at = self._next_whole(segment)
                if at is not None and at.lsn <= upto_lsn:  # it came just now
                    continue
                self.stuck = at is None
                return []
            if not self._enter_following(segment.no):
                return []

    def _next_whole(self, segment: SegmentFile) -> RecordPlace | None:
        at = next(segment.walk(self._offset), None)
        return at if at is not None and at.lsn >= self.next_lsn and segment.is_whole(at) else None

    def _enter_following(self, no: int) -> bool:
        numbers = [number for number in self._numbers() if number > no]
        following = open_segment(self.place, numbers[0]) if numbers else None
        if following is None:
            return False
        if (no and following.no != no + 1) or (not no and following.first_lsn > self.next_lsn):
            self.gone_before = following.first_lsn
            following.close()
            return False
        self._set(following, SEGMENT_HEADER_BYTES, following.first_lsn)
        return True

    def _go_to(self, segment: SegmentFile, lsn: int) -> None:
        found = segment.find(lsn)
        if found is not None:
            self._set(segment, found.offset, found.lsn)
            return
        last: RecordPlace | None = None
        for at in segment.walk(segment.near(lsn)):
            last = at
        self._set(segment, SEGMENT_HEADER_BYTES if last is None else last.stop, lsn)

    def _parse(self, data: bytes, upto_lsn: int | None, segment: SegmentFile) -> list[Record]:
        """Whole records from the beginning of these bytes. Hot: a loop turn a record."""
        found: list[Record] = []
        add, unpack, check_of, new = found.append, RECORD_HEADER.unpack_from, digest, tuple.__new__
        offset, end, seed, next_lsn = 0, len(data), self.place.seed, self.next_lsn
        last = _NO_BOUND if upto_lsn is None else upto_lsn
        while offset + RECORD_HEADER_BYTES <= end:
            check, length, type_, version, _, lsn = unpack(data, offset)
            stop = offset + RECORD_HEADER_BYTES + length
            if stop > end or not next_lsn <= lsn <= last:
                break
            body = data[offset + CHECK_BYTES : stop]
            if check_of(body, seed) != check:
                break
            if version > RECORD_VERSION:
                raise NewerFormat(f"record {lsn} has version {version}; this version reads up to {RECORD_VERSION}")
            offset = stop
            next_lsn = lsn + 1
            add(new(Record, (lsn, type_, body[RECORD_HEADER_BYTES - CHECK_BYTES :])))
        self._offset += offset
        self.next_lsn = next_lsn
        return found


class ShardedTail:
    """See the module. Made at the oldest record that the log keeps; `seek` goes elsewhere. As `LogTail`."""

    def __init__(self, place: LogPlace) -> None:
        self.place = place
        self.next_lsn = LSN_FIRST
        self._parts: list[ShardTail] = []
        self._ahead: dict[int, Record] = {}
        try:
            for part in place.parts():
                self._parts.append(ShardTail(part))
            self.seek(self.first_lsn)
        except BaseException:
            self.close()
            raise

    @property
    def first_lsn(self) -> int:
        """The oldest LSN that the log keeps: shard 0 is cut first."""
        return self._parts[0].first_lsn

    def end_lsn(self) -> int:
        """The LSN behind the last record that is written."""
        return max(part.end_lsn() for part in self._parts)

    def seek(self, lsn: int) -> None:
        """Let the next read begin with this record. Raises CursorTooOld, CursorBeyondEnd: as `LogTail.seek`."""
        first = self.first_lsn
        if lsn < first:
            raise CursorTooOld(f"LSN {lsn} is not kept any more; the first that is kept is {first}", first)
        have = self._go_to(lsn)
        if not have and lsn != (end := self.end_lsn()):
            have = self._go_to(lsn) if lsn < end else have  # it was written since the shards were looked at
            if not have:
                raise CursorBeyondEnd(f"LSN {lsn} is beyond the end of the log; the next one is {end}", end)
        self.next_lsn = min(have, default=lsn)

    def _go_to(self, lsn: int) -> list[int]:
        """Let each shard begin with this record or the first one behind it; what those have that have one."""
        self._ahead.clear()
        for part in self._parts:
            part.seek(lsn)
        return [part.next_lsn for part in self._parts if part.knows_more]

    def read(self, upto_lsn: int | None = None) -> list[Record]:
        """The next records; none at the end of what is there. Arguments and faults as `LogTail.read`."""
        upto = self.end_lsn() - 1 if upto_lsn is None else upto_lsn
        opened_anew = False
        while self.next_lsn <= upto:
            found = self._contiguous()
            if found:
                return found
            if self.next_lsn > upto or self._fetch(upto):
                continue
            gone = [part.gone_before for part in self._parts if part.gone_before > self.next_lsn]
            if gone:
                first = self.first_lsn
                raise CursorTooOld(f"LSNs {self.next_lsn} to {first - 1} were removed before they were read", first)
            if upto_lsn is None:
                self._again()
            elif not opened_anew:  # the file of a segment that a writer took back may still be open
                opened_anew = True
                self._again()
                continue
            elif self._ahead or any(part.stuck for part in self._parts):
                raise self._corrupt()
            break
        return []

    def close(self) -> None:
        """Let go of the files."""
        for part in self._parts:
            part.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _contiguous(self) -> list[Record]:
        """What is ahead, up to the first LSN that is not."""
        ahead, lsn, mark = self._ahead, self.next_lsn, RecordType.MARK
        found: list[Record] = []
        while (record := ahead.pop(lsn, None)) is not None:
            if record.type == mark:
                lsn = lsn_behind_mark(lsn, record.payload)
            else:
                lsn += 1
                found.append(record)
        self.next_lsn = lsn
        return found

    def _fetch(self, upto: int) -> bool:
        """Read a piece more of each shard that has nothing ahead; whether there was any."""
        got = False
        for part in self._parts:
            if part.next_lsn <= self.next_lsn or not self._ahead:
                piece = part.fetch(upto)
                self._ahead.update((record.lsn, record) for record in piece)
                got = got or bool(piece)
        return got

    def _again(self) -> None:
        """Forget what is behind an unfinished write: it may be written anew, as something else, or in another file."""
        self._go_to(self.next_lsn)

    def _corrupt(self) -> Exception:
        at = [part for part in self._parts if part.stuck] or self._parts
        segment = at[0]._segment
        if segment is None:
            return CursorTooOld(f"LSN {self.next_lsn} is on no shard", self.first_lsn)
        return corrupt(segment, at[0]._offset, self.next_lsn)

    # --- looking things up ----------------------------------------------------------------------------------------

    def submission(self, no: int, below_lsn: int) -> Record | None:
        """The record with which the run of this number was submitted."""
        return self._parts[shard_of_run(no, self.place.shards)].submission(no, below_lsn)

    def before_time(self, wall_ns: int) -> int:
        """An LSN before which nothing is of this time (ns since 1970) or later, if nobody set the clock."""
        return max(part.before_time(wall_ns) for part in self._parts)

    def clock_at(self, lsn: int, opening: Opening | None = None) -> tuple[int, int]:
        """What leads from the engine's clock to the wall clock, and the time about, as of this record; as `LogTail`."""
        offset_ns, wall_ns = self._parts[0].clock_at(lsn, opening)  # openings are of no run
        return offset_ns, max([wall_ns, *(latest_before(part.place, lsn) for part in self._parts[1:])])

    def below(self, lsn: int) -> Iterator[Record]:
        """All records that the log keeps below this one."""
        with ShardedTail(self.place) as tail:
            while records := tail.read(lsn - 1):
                yield from records


AnyTail = LogTail | ShardedTail
"""Either."""


def open_tail(place: LogPlace) -> AnyTail:
    """Reads a log, in one piece or in shards, from any place."""
    return LogTail(place) if place.shards == 1 else ShardedTail(place)


def written_end(place: LogPlace) -> int:
    """The LSN behind the last record that a start would keep: what some shards have behind a gap does not count.

    Reads the last segment of a log in shards. That is the last one of shard 0, where a segment is made last.
    """
    with LogTail(place.part(0)) as first:
        if place.shards == 1:
            return first.end_lsn()
        begins = first.last_first_lsn
    with ShardedTail(place) as tail:
        tail.seek(begins)
        if tail.next_lsn != begins:  # the gap comes first
            return begins
        while tail.read():
            pass
        return tail.next_lsn
