"""The writer of the log: appends batches, syncs, changes segments, removes old ones.

Opening cuts off the torn tail, makes durable what a dead engine may have left in the page cache (what recovery has read
must not vanish later), and removes files that were not yet in place. A crash at any point leaves a log that opens.

A new segment is made aside: header, sync, rename, sync of the folder; the old one is synced first, in every mode. So
only the last segment can have a torn tail. A segment is never larger than `segment_bytes` plus one batch.

Failures (the writer's state in brackets):

- No space [open]: the batch is cut off again, `DiskFull`, the same batch may be written later.
- A sync, a cut, or any other error [poisoned for ever]: `LogFailed`. After a failed fsync the kernel may have dropped
  the bytes and reports the next fsync as good, so trying again would acknowledge what is lost.

Preallocation was measured and left out: fdatasync of a small append took 100 us on zero-filled space, 130-180 us on
fallocated and 150-220 us on growing files (ext4 on a virtual disk); zero-filling writes every byte twice and makes each
tail look torn, and a group commit carries many batches per sync under load.

Invariants: the file ends with a whole batch whenever `write` is not running; `next_lsn` is one above the last record.
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
from actors.protocol.errors import DiskFull, LogCorrupt, LogFailed, StateFolderError
from actors.protocol.records import Record, RecordType
from runtime.storage.files import ASIDE, Files, LogFile, write_all
from runtime.storage.report import MARK_CLOSED, RecoveryReport
from runtime.storage.segment import (
    BARRIER,
    SEGMENT_HEADER_BYTES,
    LogPlace,
    SegmentInfo,
    pack_records,
    pack_segment_header,
    segment_name,
)

NO_SPACE: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""Errors that more room mends: of the disk, the user's quota, the process's limit on file sizes."""
BATCH_BYTES: Final = 8 << 20


class LogWriter:
    """Appends to the log that `report` describes.

    Args:
        place: Folder and uuid of the log.
        files: The seam to the disk.
        report: From reading this log to its end just before.
        segment_bytes: A segment is closed when it is larger.
        first_no: Number of the first segment of a new log.

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
    ) -> None:
        self._place = place
        self._files = files
        self._segment_bytes = segment_bytes
        self._failed = ""
        self._turn = threading.Lock()
        self._clean = True
        self._in_doubt = False
        self._closed = report.segments[:-1]
        self.next_lsn = report.next_lsn
        """LSN that the next record must have."""
        if report.gaps:
            raise LogCorrupt(
                "the log was read by salvage and must be mended before it is written", report.gaps[0].segment
            )
        self._remove_aside()
        if report.segments:
            self._active = report.segments[-1]
            self._file = self._continue(self._active)
        else:
            self._active, self._file = self._begin_segment(first_no)

    def write(self, records: Sequence[Record], *, sync: bool) -> None:
        """Append a batch; with `sync` return when it is durable.

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

    def _write(self, records: Sequence[Record], *, sync: bool) -> None:
        if self._failed:
            raise LogFailed(self._failed)
        if records:
            if self.changes_segment:
                self._rotate()
            flag = BARRIER if self._clean else 0
            pieces, size = pack_records(records, self._place.seed, self.next_lsn, flag)
            self._append(pieces)
            self._clean, self._in_doubt = False, True
            self.next_lsn += len(records)
            no, first_lsn, _last, old_size = self._active
            self._active = SegmentInfo(no, first_lsn, self.next_lsn - 1, old_size + size)
        if sync and not self._clean:
            self._sync()

    def segments(self) -> list[SegmentInfo]:
        """All segments, oldest first; the last is the active one."""
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
            self._remove_below(no)

    def _remove_below(self, no: int) -> None:
        if not self._clean and not self._failed:
            self._sync()  # the records that made the old ones needless must not go while those are gone
        keep = tuple(info for info in self._closed if info.no >= no)
        for info in self._closed[: len(self._closed) - len(keep)]:
            try:
                self._files.remove(self._path(info.no))
                self._files.sync_folder(self._place.folder)  # each by itself: no crash may leave a hole among them
            except FileNotFoundError:
                pass
            except OSError as error:
                raise StateFolderError(f"cannot remove log segment {segment_name(info.no)}: {error}") from error
            self._closed = self._closed[1:]

    def close(self) -> None:
        """Make everything durable, say so in the log, and close the file. Closing twice is harmless.

        Raises:
            LogFailed: The last batches may not be durable. The file is closed all the same.
        """
        with self._turn:
            try:
                if not self._failed:
                    self._write((), sync=True)
                    if self._in_doubt:
                        with suppress(DiskFull):
                            self._write([Record(self.next_lsn, RecordType.MARK, MARK_CLOSED)], sync=True)
            finally:
                self._failed = self._failed or "the log is closed"
                self._file.close()

    def abandon(self) -> None:
        """Close the file as it is, as a crash would: for whoever was interrupted, perhaps in the middle of a write."""
        self._failed = self._failed or "the log was abandoned"
        self._file.close()

    def _path(self, no: int) -> str:
        return f"{self._place.folder}/{segment_name(no)}"

    def _fail(self, doing: str, error: OSError) -> NoReturn:
        """Refuse everything from now on."""
        self._failed = f"{doing} failed: {error}"
        raise LogFailed(self._failed) from error

    def _sync(self) -> None:
        try:
            self._file.sync()
        except OSError as error:
            self._fail(f"syncing log segment {segment_name(self._active.no)}", error)
        self._clean = True

    def _append(self, pieces: Sequence[bytes]) -> None:
        try:
            write_all(self._file, pieces)
        except OSError as error:
            try:
                self._file.truncate(self._active.bytes)
            except OSError as second:
                self._fail(f"cutting off a batch after {error}", second)
            if error.errno in NO_SPACE:
                raise DiskFull(f"no space for {sum(map(len, pieces))} bytes in {self._place.folder}") from error
            self._fail(f"writing log segment {segment_name(self._active.no)}", error)

    def _rotate(self) -> None:
        """Close the active segment and go on in a new one. DiskFull leaves the old one active."""
        if not self._clean:
            self._sync()
        old, old_file = self._active, self._file
        self._active, self._file = self._begin_segment(old.no + 1)
        self._closed = (*self._closed, old)
        old_file.close()

    def _begin_segment(self, no: int) -> tuple[SegmentInfo, LogFile]:
        """Make a segment aside and put it in place, durable with its name."""
        path = self._path(no)
        file: LogFile | None = None
        try:
            file = self._files.create(path + ASIDE)
            write_all(file, [pack_segment_header(no, self.next_lsn, self._place)])
            file.sync()
            self._files.rename(path + ASIDE, path)
            self._files.sync_folder(self._place.folder)
        except OSError as error:
            if file is not None:
                file.close()
            if error.errno in NO_SPACE:
                self._forget(path + ASIDE)
                raise DiskFull(f"no space for a new log segment in {self._place.folder}") from error
            self._fail(f"beginning log segment {segment_name(no)}", error)
        return SegmentInfo(no, self.next_lsn, self.next_lsn - 1, SEGMENT_HEADER_BYTES), file

    def _continue(self, tail: SegmentInfo) -> LogFile:
        """Open the last segment, cut it to `tail.bytes`, and make it and its name durable."""
        file: LogFile | None = None
        try:
            file = self._files.open(self._path(tail.no))
            size = file.size()
            if size > tail.bytes:
                file.truncate(tail.bytes)
            file.sync()
            self._files.sync_folder(self._place.folder)
        except OSError as error:
            if file is not None:
                file.close()
            self._fail(f"opening log segment {segment_name(tail.no)}", error)
        if size < tail.bytes:
            file.close()
            name = segment_name(tail.no)
            raise LogCorrupt(f"segment {name} became shorter while it was opened", name, size)
        return file

    def _forget(self, path: str) -> None:
        """Remove a file if possible: the space it holds is needed, and a retry shall not build on it."""
        with suppress(OSError):
            self._files.remove(path)

    def _remove_aside(self) -> None:
        """Remove segments that a crash left before they were in place."""
        try:
            for name in self._files.list(self._place.folder):
                if name.endswith(ASIDE):
                    self._files.remove(f"{self._place.folder}/{name}")
        except OSError as error:
            self._fail("tidying the log folder", error)


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
