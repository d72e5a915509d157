"""The writer of the log: appends batches, syncs, changes segments, removes old ones.

    records ──► part by run ──► shard 0: write ─┐            ┌─► sync ─┐
                           ├──► shard 1: write ─┼─ all taken ┼─► sync ─┼─► durable
                           └──► shard 2: write ─┘            └─► sync ─┘   (side by side)

A log lies in one folder, which is its shard 0, or in several; see `merge` for how several are read.

Opening cuts every shard off where the log ends, makes durable what a dead engine may have left in the page cache (what
recovery has read must not vanish later; what one shard has behind a gap must not come back between the records of
another time), and removes files that were not yet in place. A crash at any point leaves a log that opens.

A new segment is made aside: header, sync, rename, sync of the folder; the old one is synced first, in every mode. So
only the last segment can have a torn tail. A segment is never larger than `segment_bytes` plus one batch.

Failures, of the batch as a whole (the writer's state in brackets):

- No space [open]: the batch is cut off all shards again, `DiskFull`, the same batch may be written later.
- A sync, a cut, or any other error [poisoned for ever]: `LogFailed`. After a failed fsync the kernel may have dropped
  the bytes and reports the next fsync as good, so trying again would acknowledge what is lost; what other shards made
  durable was not acknowledged.

Preallocation was measured and left out: fdatasync of a small append took 100 us on zero-filled space, 130-180 us on
fallocated and 150-220 us on growing files (ext4 on a virtual disk); zero-filling writes every byte twice and makes each
tail look torn, and a group commit carries many batches per sync under load.

Invariants: the files end with a whole batch whenever `write` is not running; `next_lsn` is one above the last record;
all shards have the same segments, with the same first LSN.
Concurrency: a lock makes calls from several threads take turns; `segments()`, `active` and `changes_segment` do not
wait.
Known limits: space freed by `remove_below` may be needed to write; nothing is reserved for bad days.
"""

from __future__ import annotations

import errno
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Final, NoReturn

from actors.protocol import limits
from actors.protocol.errors import DiskFull, LogCorrupt, LogFailed
from actors.protocol.records import Record, RecordType
from actors.record_runs import shard_of
from runtime.storage.files import Files
from runtime.storage.report import MARK_CLOSED, RecoveryReport
from runtime.storage.segment import (
    AHEAD_MAX,
    AHEAD_SHIFT,
    ALL_BEFORE,
    BARRIER,
    LogPlace,
    SegmentInfo,
    pack_records,
    segment_name,
)
from runtime.storage.segment_files import OpenSegment, SegmentFolders, ShardBatch
from runtime.storage.syncs import Syncs, SyncThreads

NO_SPACE: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""Errors that more room mends: of the disk, the user's quota, the process's limit on file sizes."""
BATCH_BYTES: Final = 8 << 20


class LogWriter:
    """Appends to the log that `report` describes.

    Args:
        place: Folder, uuid and number of shards of the log.
        files: The seam to the disk.
        report: From reading this log to its end just before.
        segment_bytes: A segment is closed when its files together are larger.
        first_no: Number of the first segment of a new log.
        syncs: How files are synced together; None: by threads.

    Raises:
        DiskFull: No space to begin the first segment; nothing is left behind but an unused file.
        LogCorrupt: The log is not as the report says: it was salvaged but not mended, or someone else wrote it.
        LogFailed: The disk refused.
    """

    def __init__(
        self,
        place: LogPlace,
        files: Files,
        report: RecoveryReport,
        *,
        segment_bytes: int = limits.SEGMENT_BYTES,
        first_no: int = 1,
        syncs: Syncs | None = None,
    ) -> None:
        self._place = place
        self._seeds = [part.seed for part in place.parts()]
        self._folders = SegmentFolders(place, files)
        self._segment_bytes = segment_bytes
        self._failed = ""
        self._turn = threading.Lock()
        self._in_doubt = False
        self._closed = report.segments[:-1]
        self.next_lsn = report.next_lsn
        """LSN that the next record must have."""
        if report.gaps:
            raise LogCorrupt(
                "the log was read by salvage and must be mended before it is written", report.gaps[0].segment
            )
        try:
            self._folders.tidy(report.segments)
        except OSError as error:
            self._fail("tidying the log folder", error)
        if report.segments:
            self._active = report.segments[-1]
            self._open = self._go_on(report.ends or (self._active.bytes,))
        else:
            self._active, self._open = self._begin_segment(first_no)
        self._threads = SyncThreads(place.shards) if syncs is None else None
        self._syncs: Syncs = self._threads or syncs  # type: ignore[assignment]

    def write(self, records: Sequence[Record], *, sync: bool) -> None:
        """Append a batch; with `sync` return when it is durable, on all shards.

        Args:
            records: LSNs contiguous from `next_lsn`.
            sync: Make it durable. Without, a crash of the process loses nothing, one of the machine may.

        Raises:
            DiskFull: No space; the log is as it was before, the same batch may be written later.
            LogFailed: The batch may be lost, and this writer refuses everything from now on.
            ProtocolError: The LSNs do not follow; nothing was written.
        """
        with self._turn:
            self._write(records, sync=sync)

    def segments(self) -> list[SegmentInfo]:
        """All segments, oldest first; the last is the active one. Bytes are those of all shards."""
        return [*self._closed, self._active]

    @property
    def active(self) -> SegmentInfo:
        """The segment that was written last."""
        return self._active

    @property
    def changes_segment(self) -> bool:
        """The next write begins a new segment, and so waits for the disk even without sync."""
        return self._active.bytes >= self._segment_bytes

    def remove_below(self, no: int) -> None:
        """Remove segments with smaller numbers, oldest first, never the active one.

        Raises:
            StateFolderError: A file could not be removed; it and the later ones remain, the log is whole.
            LogFailed: The log could not be synced before.
        """
        with self._turn:
            if self._open.dirty and not self._failed:
                self._sync()  # the records that made the old ones needless must not go while those are gone
            for info in [info for info in self._closed if info.no < no]:
                self._folders.remove(info.no)
                self._closed = self._closed[1:]

    def close(self) -> None:
        """Make everything durable, say so in the log, and close the files. Closing twice is harmless.

        Raises:
            LogFailed: The last batches may not be durable. The files are closed all the same.
        """
        with self._turn:
            try:
                if not self._failed:
                    self._write((), sync=True)
                    if self._in_doubt:
                        with suppress(DiskFull):
                            self._write([Record(self.next_lsn, RecordType.MARK, MARK_CLOSED)], sync=True)
            finally:
                self._let_go("the log is closed")

    def abandon(self) -> None:
        """Close the files as they are, as a crash would: for whoever was interrupted, perhaps in the middle of a
        write."""
        self._let_go("the log was abandoned")

    def _let_go(self, why: str) -> None:
        self._failed = self._failed or why
        self._open.close()
        if self._threads is not None:
            self._threads.close()

    def _fail(self, doing: str, error: OSError) -> NoReturn:
        """Refuse everything from now on."""
        self._failed = f"{doing} failed: {error}"
        raise LogFailed(self._failed) from error

    # --- batches --------------------------------------------------------------------------------------------------

    def _write(self, records: Sequence[Record], *, sync: bool) -> None:
        if self._failed:
            raise LogFailed(self._failed)
        if records:
            if self.changes_segment:
                self._rotate()
            self._append(records)
        if sync and self._open.dirty:
            self._sync()

    def _append(self, records: Sequence[Record]) -> None:
        batch = self._packed(records)
        try:
            self._open.append(batch)
        except OSError as error:
            try:
                self._open.cut()
            except OSError as second:
                self._fail(f"cutting off a batch after {error}", second)
            if error.errno in NO_SPACE:
                size = sum(size for _, _, size in batch)
                raise DiskFull(f"no space for {size} bytes in {self._place.folder}") from error
            self._fail(f"writing log segment {segment_name(self._active.no)}", error)
        self._in_doubt = True
        self.next_lsn += len(records)
        self._active = SegmentInfo(self._active.no, self._active.first_lsn, self.next_lsn - 1, sum(self._open.ends))

    def _packed(self, records: Sequence[Record]) -> list[ShardBatch]:
        """Each shard's part of a batch. Raises ProtocolError: nothing was packed."""
        shards, next_lsn, dirty = self._place.shards, self.next_lsn, self._open.dirty
        if shards == 1:
            return [(0, *pack_records(records, self._seeds[0], next_lsn, 0 if dirty else BARRIER))]
        parts: dict[int, list[Record]] = {}
        for record in records:
            parts.setdefault(shard_of(record[1], record[2], shards), []).append(record)
        expected = range(next_lsn, next_lsn + len(records))
        if any(record[0] != lsn for record, lsn in zip(records, expected, strict=True)):
            pack_records(records, 0, next_lsn, 0)  # says which one
        packed: list[ShardBatch] = []
        for shard, part in parts.items():
            flags = 0 if shard in dirty else BARRIER
            ahead = part[0].lsn - next_lsn
            if not dirty and ahead <= AHEAD_MAX:
                flags |= ALL_BEFORE | ahead << AHEAD_SHIFT
            packed.append((shard, *pack_records(part, self._seeds[shard], next_lsn, flags, sparse=True)))
        return packed

    def _sync(self) -> None:
        try:
            self._open.sync(self._syncs)
        except OSError as error:
            self._fail(f"syncing log segment {segment_name(self._active.no)}", error)

    # --- segments -------------------------------------------------------------------------------------------------

    def _rotate(self) -> None:
        """Close the active segment and go on in a new one. DiskFull leaves the old one active."""
        if self._open.dirty:
            self._sync()
        old, old_files = self._active, self._open
        self._active, self._open = self._begin_segment(old.no + 1)
        self._closed = (*self._closed, old)
        old_files.close()

    def _begin_segment(self, no: int) -> tuple[SegmentInfo, OpenSegment]:
        try:
            begun = self._folders.begin(no, self.next_lsn)
        except OSError as error:
            if error.errno in NO_SPACE:
                self._folders.take_back(no)
                raise DiskFull(f"no space for a new log segment in {self._place.folder}") from error
            self._fail(f"beginning log segment {segment_name(no)}", error)
        return SegmentInfo(no, self.next_lsn, self.next_lsn - 1, sum(begun.ends)), begun

    def _go_on(self, ends: Sequence[int]) -> OpenSegment:
        """Open the last segment where the log ends."""
        try:
            return self._folders.go_on(self._active.no, ends)
        except OSError as error:
            self._fail(f"opening log segment {segment_name(self._active.no)}", error)


def batches(records: Iterable[Record], records_max: int) -> Iterator[list[Record]]:
    """Records in batches to be written, for who writes a log anew: so many at most, and some `BATCH_BYTES`."""
    batch: list[Record] = []
    size = 0
    for record in records:
        batch.append(record)
        size += len(record.payload)
        if len(batch) >= records_max or size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
