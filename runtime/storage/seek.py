"""Finds a place in a segment without reading it: the record with an LSN, or the first one with a key that is not below.

Records are in order of LSN, and by what a key says of some of them (the number of a new run, the time), so a place is
found by halving the file: look at the middle, find the next record behind it (a record says that it is one: layout,
LSN and check, see `segment`), go on in one half. An LSN is looked for where it should be by those around it, so that a
start in a segment of 64 MiB takes some 5 looks. No index is kept, and none has to be built.

What is read is read by `pread`, never mapped: a file that is cut while it is mapped kills who looks at it.

Invariants: a place that is given out holds a record whose check is right and whose LSN is the one wanted.
Concurrency: reads beside the writer; what it appends after `SegmentFile` was made shows after `refresh`. A segment that
is removed can be read on while it is open.
Known limits: a payload that is itself a piece of this folder's log may be taken for the log where a look falls into it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple, Self

from actors.protocol import limits
from actors.protocol.errors import LogCorrupt, StateFolderError
from actors.protocol.records import Record
from runtime.storage.segment import (
    BARRIER,
    RECORD_HEADER,
    RECORD_HEADER_BYTES,
    SEGMENT_HEADER_BYTES,
    LogPlace,
    read_segment_header,
    search_records,
    segment_name,
    valid_record,
)

WINDOW_BYTES: Final = 8 * limits.KIB
"""What a look reads at first, four times as much where no record begins and ends in it; and what is walked through in
the end."""
WALK_BYTES: Final = limits.MIB
"""What is read at a time at most by who walks from record to record; it begins with `WINDOW_BYTES`."""
NEAR_RECORDS: Final = 32
"""So many records before one are near it."""
GUESSES_MAX: Final = 3
"""One look after the other at where an LSN should be; then the file is halved, which does not depend on sizes."""
HEAD_BYTES: Final = 4 * limits.KIB
"""What a key is worked out from at most."""


class OrderKey(NamedTuple):
    """What says where a record is in some order: of which types, by the beginning of the payload; None: not this one.
    `of` is given the type, too."""

    types: frozenset[int]
    of: Callable[[int, bytes], int | None]


class RecordPlace(NamedTuple):
    """Where a record is in its segment."""

    lsn: int
    type: int
    offset: int
    stop: int


class SegmentFile:
    """One segment, open for reading. Raises FileNotFoundError when it is gone, LogCorrupt when its header is bad."""

    def __init__(self, place: LogPlace, no: int) -> None:
        self.no = no
        self.name = segment_name(no)
        self._seed = place.seed
        self._fd = os.open(f"{place.folder}/{self.name}", os.O_RDONLY | os.O_CLOEXEC)
        try:
            self.size = os.fstat(self._fd).st_size
            self.first_lsn = read_segment_header(self.read(0, SEGMENT_HEADER_BYTES), no, place)
        except BaseException:
            self.close()
            raise

    def refresh(self) -> None:
        """See what was appended since."""
        self.size = os.fstat(self._fd).st_size

    def read(self, offset: int, count: int) -> bytes:
        """So many bytes, fewer at the end of the file."""
        try:
            return os.pread(self._fd, count, offset)
        except OSError as error:
            raise StateFolderError(f"cannot read log segment {self.name}: {error}") from error

    def close(self) -> None:
        """Let go of the file. Again is harmless."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- walking --------------------------------------------------------------------------------------------------

    def walk(self, offset: int = SEGMENT_HEADER_BYTES) -> Iterator[RecordPlace]:
        """From record to record, by their headers only, as far as their LSNs ascend."""
        data, base, lsn_before, count = b"", offset, 0, WINDOW_BYTES
        while True:
            if offset + RECORD_HEADER_BYTES > base + len(data):
                small = offset - base <= len(data)  # records that end far behind it are leapt over
                count = min(WALK_BYTES, 4 * count) if data and small else WINDOW_BYTES
                data, base = self.read(offset, count), offset
                if len(data) < RECORD_HEADER_BYTES:
                    return
            _, length, type_, _, _, lsn = RECORD_HEADER.unpack_from(data, offset - base)
            stop = offset + RECORD_HEADER_BYTES + length
            if stop > self.size or lsn <= lsn_before or not type_:
                return
            yield RecordPlace(lsn, type_, offset, stop)
            offset, lsn_before = stop, lsn

    def payload(self, at: RecordPlace, count: int = -1) -> bytes:
        """What a record holds, or the beginning of it."""
        length = at.stop - at.offset - RECORD_HEADER_BYTES
        return self.read(at.offset + RECORD_HEADER_BYTES, length if count < 0 else min(length, count))

    def record(self, at: RecordPlace) -> Record:
        """The record that is there."""
        return Record(at.lsn, at.type, self.payload(at))

    def is_whole(self, at: RecordPlace) -> bool:
        """Whether the record's check is right."""
        return valid_record(self.read(at.offset, at.stop - at.offset), 0, self._seed) is not None

    def is_durable_behind(self, offset: int, lsn: int) -> bool:
        """Whether a record behind this place says that it, where a record of this LSN should be, was durable."""
        data = self.read(offset, self.size - offset)
        return any(found.flags & BARRIER for found in search_records(data, 0, self._seed, lsn))

    # --- finding --------------------------------------------------------------------------------------------------

    def find(self, lsn: int) -> RecordPlace | None:
        """The record with this LSN, or the next one where a mark stands for it; None: it comes later."""
        for start in (self.near(lsn), SEGMENT_HEADER_BYTES):
            stop = start
            for at in self.walk(start):
                if at.lsn >= lsn:
                    if self.is_whole(at):
                        return at
                    break
                stop = at.stop
            if stop == self.size:  # it was walked to its end
                return None
        return None

    def find_key(self, key: OrderKey, wanted: int) -> RecordPlace | None:
        """The last record with a key below the one wanted, or None.

        Keys ascend, but for few of them: then a place near by is found.
        """
        low, high = SEGMENT_HEADER_BYTES, self.size
        found: RecordPlace | None = None
        while high - low > WINDOW_BYTES:
            middle = (low + high) // 2
            keyed = self._keyed(middle, high, key)
            if keyed is not None and keyed[1] < wanted:
                found, low = keyed[0], keyed[0].stop
            else:
                high = middle
        for at in self.walk(low):
            value = self._key_of(at, key) if at.offset < high else wanted
            if value is not None and value >= wanted:
                break
            found = at if value is not None else found
        return found

    def near(self, lsn: int) -> int:
        """Where a record at or before this LSN begins, not far from it."""
        low, high, low_lsn, high_lsn = SEGMENT_HEADER_BYTES, self.size, self.first_lsn, 0
        guesses = 0
        while high - low > WINDOW_BYTES and lsn - low_lsn > NEAR_RECORDS:
            if high_lsn and guesses < GUESSES_MAX:  # a little before where it should be
                guesses += 1
                middle = low + (high - low) * (lsn - low_lsn - NEAR_RECORDS // 2) // (high_lsn - low_lsn)
            else:
                guesses = 0
                middle = (low + high) // 2
            at = self.next_record(middle, high, low_lsn)
            if at is None or at.lsn > lsn:
                high, high_lsn = middle, high_lsn if at is None else at.lsn
            elif at.lsn == lsn:
                return at.offset
            else:
                low, low_lsn = at.offset, at.lsn
        return low

    def around(self, offset: int) -> RecordPlace | None:
        """The record, not a large one, in which an offset is."""
        base = max(SEGMENT_HEADER_BYTES, offset - HEAD_BYTES)
        data = self.read(base, offset - base + HEAD_BYTES)
        for found in search_records(data, 0, self._seed, self.first_lsn):
            if base + found.offset > offset:
                return None
            if base + found.stop > offset:
                type_ = RECORD_HEADER.unpack_from(data, found.offset)[2]
                return RecordPlace(found.lsn, type_, base + found.offset, base + found.stop)
        return None

    def next_record(self, offset: int, high: int, lsn_min: int) -> RecordPlace | None:
        """The first record that begins at this offset or behind it, and before `high`."""
        count = WINDOW_BYTES
        while True:
            data = self.read(offset, count)
            found = next(search_records(data, 0, self._seed, lsn_min), None)
            if found is not None:
                if offset + found.offset >= high:
                    return None
                _, _, type_, _, _, lsn = RECORD_HEADER.unpack_from(data, found.offset)
                return RecordPlace(lsn, type_, offset + found.offset, offset + found.stop)
            if len(data) < count:
                return None
            count *= 4

    def _keyed(self, offset: int, high: int, key: OrderKey) -> tuple[RecordPlace, int] | None:
        """The first record with a key that begins at this offset or behind it, and before `high`."""
        start = self.next_record(offset, high, self.first_lsn)
        for at in () if start is None else self.walk(start.offset):
            if at.offset >= high:
                return None
            value = self._key_of(at, key)
            if value is not None:
                return at, value
        return None

    def _key_of(self, at: RecordPlace, key: OrderKey) -> int | None:
        return key.of(at.type, self.payload(at, HEAD_BYTES)) if at.type in key.types else None


def last_with(segment: SegmentFile, mark: bytes, type_: int, lsn: int) -> RecordPlace | None:
    """The last record of a type, up to an LSN, in whose payload there are these bytes, near its beginning."""
    end = segment.size
    while end > SEGMENT_HEADER_BYTES:
        start = max(SEGMENT_HEADER_BYTES, end - WALK_BYTES)
        data = segment.read(start, end - start + len(mark) - 1)
        at = len(data)
        while (at := data.rfind(mark, 0, at + len(mark) - 1)) >= 0:
            found = segment.around(start + at)
            if found is not None and found.type == type_ and found.lsn <= lsn:
                return found
        end = start
    return None


def open_segment(place: LogPlace, no: int) -> SegmentFile | None:
    """A segment, or None where it is gone.

    Raises:
        LogCorrupt: Its header is bad.
    """
    try:
        return SegmentFile(place, no)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StateFolderError(f"cannot read log segment {segment_name(no)}: {error}") from error


def last_segment(place: LogPlace, numbers: Sequence[int], may_be: Callable[[SegmentFile], bool]) -> SegmentFile | None:
    """The last of these segments of which something holds that holds of none behind it; the caller closes it. Those
    that vanish meanwhile are the oldest ones."""
    low, high = 0, len(numbers)
    found: SegmentFile | None = None
    while low < high:
        middle = (low + high) // 2
        segment = open_segment(place, numbers[middle])
        if segment is None:
            low = middle + 1
        elif not may_be(segment):
            segment.close()
            high = middle
        else:
            if found is not None:
                found.close()
            found, low = segment, middle + 1
    return found


def corrupt(segment: SegmentFile, offset: int, lsn: int) -> LogCorrupt:
    """What is said of a bad place."""
    return LogCorrupt(f"segment {segment.name} is damaged at offset {offset}, LSN {lsn}", segment.name, offset)
