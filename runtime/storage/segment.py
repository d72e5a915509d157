"""The byte layout of the log, and the code that packs and recognises it.

A log is a run of segment files `log/00000001.seg`, `log/00000002.seg`, ... All numbers are little-endian, except the
checks, which are in XXH3's canonical (big-endian) form.

    segment header, 48 bytes
    +--------+---------+--------+-----------+------------+-----------+--------------+
    | magic  | format  | header | segment   | uuid of    | first LSN | check: XXH3  |
    | 8      | u16     | bytes  | number    | the folder | u64       | over all of  |
    |        |         | u16    | u32       | 16         |           | the left, 8  |
    +--------+---------+--------+-----------+------------+-----------+--------------+

    record, 24 bytes + payload, one after the other, no padding
    +--------------+---------+------+---------+-------+-----+-----------------------+
    | check: XXH3  | payload | type | version | flags | LSN | payload               |
    | over all of  | bytes   | u8   | u8      | u16   | u64 | length bytes          |
    | the right, 8 | u32     |      |         |       |     |                       |
    +--------------+---------+------+---------+-------+-----+-----------------------+

Both checks are XXH3-64 seeded with the low half of the folder's uuid, so that a record of another log, or a stale block
of one, is not accepted. The check stands first so that what it covers is one contiguous slice.

Its flag `BARRIER` says that everything before this record was durable when the record was written; it is set
on the first record of a batch where that is so. It tells a torn tail from damage, also when the disk wrote the pages
of the last batches in another order. A bad place in the last segment is

- torn, if no valid record follows;
- damage, if a valid record with `BARRIER` follows: durable bytes were lost;
- torn, if valid records without it follow and a sector of the bad place ends in zeros: pages never written;
- damage else: bytes that were written have changed.

Earlier segments are always synced before their successor exists, so whatever is bad there is damage. An orderly close
ends the log with a MARK under a barrier, so that nothing is left in doubt.

A log may lie in shards, see `merge`: then each shard has segment files of this layout in a folder of its own, and LSNs
ascend in each.

Invariants: a header is complete and durable before its segment has its name; LSNs are contiguous through the log.
Known limits: the end of the log cut off exactly between two records cannot be told from a shorter log. A changed bit in
the last record of a log that was not closed looks torn. File systems that show old contents of other files in unwritten
pages (ext4 with data=writeback) make a torn batch look damaged; salvage then opens it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Final, NamedTuple
from uuid import UUID

import xxhash

from actors.protocol import limits
from actors.protocol.errors import LogCorrupt, NewerFormat, ProtocolError
from actors.protocol.records import LSN_FIRST, RECORD_VERSION, Record

FORMAT_VERSION: Final = 1
SUFFIX: Final = ".seg"
MAGIC: Final = b"MSPRLOG\n"

SEGMENT_HEADER: Final = Struct("<8sHHI16sQ8s")
SEGMENT_HEADER_BYTES: Final = SEGMENT_HEADER.size
RECORD_HEADER: Final = Struct("<8sIBBHQ")
RECORD_HEADER_BYTES: Final = RECORD_HEADER.size
CHECK_BYTES: Final = 8
_UNCHECKED: Final = Struct("<IBBHQ")

BARRIER: Final = 1
ALL_BEFORE: Final = 2
AHEAD_SHIFT: Final = 4
AHEAD_MAX: Final = (1 << 16 - AHEAD_SHIFT) - 1
"""`ALL_BEFORE` is of logs in shards, see `merge`: when this record was written, all LSNs before its batch were durable
on every shard. How far the batch begins before the record is in the flags from bit `AHEAD_SHIFT` on."""
SHARD_SEED: Final = 0x9E37_79B9_7F4A_7C15
SECTOR_BYTES: Final = 512
"""Smallest unit that a disk writes or does not write."""
LOST_BYTES_MIN: Final = 16
"""Zeros at the end of a sector that count as never written, if the bad place does not begin within them."""

_LSN_MAX: Final = 1 << 48
LSN_LEAP_MAX: Final = 1 << 28
"""Records lost at one place at most. Far more than a segment has, so that lost segments can be leapt over."""
_LOOKS_LIKE_A_RECORD: Final = re.compile(rb"[\x01-\xff][\x01-\x0f].{8}\x00\x00", re.DOTALL)
"""Type, version, flags and LSN of a record header: at random this matches once in some 2**20 bytes."""
_BEFORE_TYPE: Final = 12

digest = xxhash.xxh3_64_digest


@dataclass(frozen=True, slots=True)
class LogPlace:
    """Where a log is and whose it is."""

    folder: str
    uuid: UUID
    shards: int = 1
    shard: int = 0
    """Of a part of a log in shards: which one."""
    prefix: str = ""
    """Of the names of its segments, where they are told."""

    @property
    def seed(self) -> int:
        """Seed of the checks. Each shard has its own, so that a file in the place of another's is not taken for it."""
        return (self.uuid.int + self.shard * SHARD_SEED) & 0xFFFF_FFFF_FFFF_FFFF

    def part(self, shard: int) -> LogPlace:
        """The place of one shard; of a log without shards, its own."""
        if self.shards == 1:
            return self
        return LogPlace(f"{self.folder}/{shard}", self.uuid, 1, shard, f"{shard}/")

    def parts(self) -> list[LogPlace]:
        """The places of all shards."""
        return [self.part(shard) for shard in range(self.shards)]


class SegmentInfo(NamedTuple):
    """One segment of the log. An empty one has `last_lsn == first_lsn - 1`."""

    no: int
    first_lsn: int
    last_lsn: int
    bytes: int


class FoundRecord(NamedTuple):
    """A valid record found by searching: where it starts, where it ends, its LSN and flags."""

    offset: int
    stop: int
    lsn: int
    flags: int


def segment_name(no: int) -> str:
    """File name of a segment."""
    return f"{no:08d}{SUFFIX}"


def segment_no(name: str) -> int | None:
    """Number of a segment file, or None if the name is not one."""
    stem = name.removesuffix(SUFFIX)
    return int(stem) if stem != name and stem.isascii() and stem.isdigit() and int(stem) > 0 else None


def pack_segment_header(no: int, first_lsn: int, place: LogPlace) -> bytes:
    """The 48 bytes a segment starts with."""
    head = SEGMENT_HEADER.pack(
        MAGIC, FORMAT_VERSION, SEGMENT_HEADER_BYTES, no, place.uuid.bytes, first_lsn, b"\0" * CHECK_BYTES
    )[:-CHECK_BYTES]
    return head + digest(head, place.seed)


def read_segment_header(data: bytes, no: int, place: LogPlace) -> int:
    """Check a segment's header and return its first LSN. Every version has its check at this place.

    Raises:
        LogCorrupt: Not a segment, damaged, or of another log; offset 0.
        NewerFormat: Written by a newer version.
    """
    name = place.prefix + segment_name(no)
    if len(data) < SEGMENT_HEADER_BYTES:
        raise LogCorrupt(f"segment {name} is shorter than its header", name, 0)
    magic, version, _size, number, uuid, first_lsn, check = SEGMENT_HEADER.unpack_from(data)
    if magic != MAGIC:
        raise LogCorrupt(f"segment {name} does not start like one", name, 0)
    if uuid != place.uuid.bytes:
        raise LogCorrupt(f"segment {name} belongs to another state folder ({UUID(bytes=uuid)})", name, 0)
    if digest(data[: SEGMENT_HEADER_BYTES - CHECK_BYTES], place.seed) != check or number != no:
        raise LogCorrupt(f"the header of segment {name} is damaged", name, 0)
    if version > FORMAT_VERSION:
        raise NewerFormat(f"segment {name} has format {version}; this version reads up to {FORMAT_VERSION}")
    return int(first_lsn)


def pack_records(
    records: Sequence[Record], seed: int, next_lsn: int, first_flags: int, *, sparse: bool = False
) -> tuple[list[bytes], int]:
    """Frame a batch.

    Args:
        records: The batch, LSNs contiguous from `next_lsn`, or ascending where they may be `sparse`.
        seed: Of the checks.
        next_lsn: The LSN that must come first.
        first_flags: Flags of the first record; the others have none.
        sparse: Of a shard, which has some of the records.

    Returns:
        Buffers to write, in order, and their total size in bytes. Small records share a buffer.

    Raises:
        ProtocolError: LSNs not contiguous, payload over the limit, or a type that is no byte. Nothing is packed.
    """
    done: list[bytes] = []
    parts: list[bytes] = []
    append, pack, check, copy_max = parts.append, _UNCHECKED.pack, digest, limits.LOG_COPY_BYTES_MAX
    size = RECORD_HEADER_BYTES * len(records)
    mark = first_flags
    for lsn, type_, payload in records:
        length = len(payload)
        if sparse and lsn > next_lsn:
            next_lsn = lsn
        if lsn != next_lsn or length > limits.RECORD_BYTES_MAX or not 0 < type_ < 256:
            raise ProtocolError(f"record {lsn} of type {type_} with {length} bytes cannot follow LSN {next_lsn - 1}")
        head = pack(length, type_, RECORD_VERSION, mark, lsn)
        mark = 0
        next_lsn += 1
        size += length
        if length <= copy_max:
            append(check(head + payload, seed))
            append(head)
            append(payload)
        else:
            append(_digest_of_two(head, payload, seed))
            append(head)
            done += (b"".join(parts), payload)
            parts.clear()
    if parts:
        done.append(b"".join(parts))
    return done, size


def _digest_of_two(head: bytes, payload: bytes, seed: int) -> bytes:
    """The check of a large record, without copying its payload."""
    hasher = xxhash.xxh3_64(head, seed)
    hasher.update(payload)
    return hasher.digest()


def valid_record(data: bytes, offset: int, seed: int) -> FoundRecord | None:
    """The record at an offset, if there is a whole and undamaged one of this log."""
    if offset + RECORD_HEADER_BYTES > len(data):
        return None
    check, length, _type, _version, flags, lsn = RECORD_HEADER.unpack_from(data, offset)
    stop = offset + RECORD_HEADER_BYTES + length
    if stop > len(data) or length > limits.RECORD_BYTES_MAX:
        return None
    if digest(memoryview(data)[offset + CHECK_BYTES : stop], seed) != check:
        return None
    return FoundRecord(offset, stop, lsn, flags)


def search_records(data: bytes, offset: int, seed: int, lsn_min: int) -> Iterator[FoundRecord]:
    """Valid records at or after a bad place, in ascending LSN from `lsn_min`, at any byte offset.

    Bytes inside the payload of a later record may be a copy of an older record; `lsn_min` keeps those out. What is
    absurdly far above it is not looked at, so that payloads full of small numbers do not cost a check each.
    """
    lsn_max = _LSN_MAX if lsn_min == LSN_FIRST else lsn_min + LSN_LEAP_MAX
    while offset + RECORD_HEADER_BYTES <= len(data):
        match = _LOOKS_LIKE_A_RECORD.search(data, offset + _BEFORE_TYPE)
        if match is None:
            return
        offset = match.start() - _BEFORE_TYPE
        plausible = lsn_min <= RECORD_HEADER.unpack_from(data, offset)[5] < lsn_max
        found = valid_record(data, offset, seed) if plausible else None
        if found is None:
            offset += 1
            continue
        yield found
        offset, lsn_min = found.stop, found.lsn + 1


def never_written(data: bytes, start: int, stop: int) -> bool:
    """Whether a stretch has the mark of a lost page: zeros up to the end of a sector.

    The last part, up to `stop`, cannot be one: what follows in the same sector was written, and not before it.
    """
    edges = [start, *range(start - start % SECTOR_BYTES + SECTOR_BYTES, stop + 1, SECTOR_BYTES)]
    tails = (data[max(a, b - LOST_BYTES_MIN) : b] for a, b in zip(edges, edges[1:], strict=False))
    return any(not any(tail) for tail in tails)
