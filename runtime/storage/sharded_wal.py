"""The writer of a log in shards: `LogWriter` for one that lies in several folders; see `merge` for how it is read.

    records ──► part by run ──► shard 0: write ─┐            ┌─► sync ─┐
                           ├──► shard 1: write ─┼─ all taken ┼─► sync ─┼─► durable
                           └──► shard 2: write ─┘            └─► sync ─┘   (side by side)

Opening cuts every shard off where the merged log ends, and makes durable what is left, before anything is written: what
one shard has behind a gap must not come back between the records of another time. It removes segments that a crash left
in some shards only: above the last one of shard 0 (being made), and below its first one (being removed).

Failures are those of `LogWriter`, for the batch as a whole: no space on one shard cuts the batch off all of them
(`DiskFull`); a failed sync of one is `LogFailed` for ever, and what the others made durable was not acknowledged.

Invariants: `wal`'s; and all shards have the same segments, with the same first LSN.
Concurrency: as `LogWriter`. Threads that sync live as long as the writer.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Final, NoReturn

from actors.protocol import limits
from actors.protocol.errors import DiskFull, LogCorrupt, LogFailed, StateFolderError
from actors.protocol.records import Record, RecordType
from actors.record_runs import shard_of
from runtime.storage.files import ASIDE, Files, LogFile, write_all
from runtime.storage.merge import segments_in
from runtime.storage.report import MARK_CLOSED, RecoveryReport
from runtime.storage.segment import (
    AHEAD_MAX,
    AHEAD_SHIFT,
    ALL_BEFORE,
    BARRIER,
    SEGMENT_HEADER_BYTES,
    LogPlace,
    SegmentInfo,
    pack_records,
    pack_segment_header,
    segment_name,
    segment_no,
)
from runtime.storage.wal import NO_SPACE, LogWriter

Syncs = Callable[[Sequence[LogFile]], None]
"""Makes all of some files durable, or raises OSError when one of them is not."""


class SyncThreads:
    """`Syncs` side by side: the caller takes one file, a thread each of the others.

    Args:
        shards: Files at most.
    """

    def __init__(self, shards: int) -> None:
        self._threads = ThreadPoolExecutor(max(1, shards - 1), "mainspring-log-sync")

    def __call__(self, files: Sequence[LogFile]) -> None:
        others = [self._threads.submit(file.sync) for file in files[1:]]
        try:
            files[0].sync()
        finally:
            failures = [failure for other in others if (failure := other.exception()) is not None]
        for failure in failures:
            raise failure

    def close(self) -> None:
        """End the threads."""
        self._threads.shutdown()


class ShardedWriter:
    """Appends to the log in shards that `report` describes. Arguments and faults as `wal.LogWriter`.

    Args:
        place: Folder, uuid and number of shards.
        files: The seam to the disk.
        report: From reading this log to its end just before.
        segment_bytes: A segment is closed when its files together are larger.
        first_no: Number of the first segment of a new log.
        syncs: How files are synced together; None: by threads.
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
        self._parts: Final = place.parts()
        self._files = files
        self._segment_bytes = segment_bytes
        self._failed = ""
        self._turn = threading.Lock()
        self._dirty: set[int] = set()
        self._in_doubt = False
        self._closed = report.segments[:-1]
        self.next_lsn = report.next_lsn
        """LSN that the next record must have."""
        if report.gaps:
            raise LogCorrupt(
                "the log was read by salvage and must be mended before it is written", report.gaps[0].segment
            )
        self._remove_leftovers(report.segments)
        if report.segments:
            self._active = report.segments[-1]
            self._sizes = list(report.ends)
            self._open = self._continue(self._active.no)
        else:
            self._active, self._open, self._sizes = self._begin_segment(first_no)
        self._threads = SyncThreads(place.shards) if syncs is None else None
        self._syncs: Syncs = self._threads or syncs  # type: ignore[assignment]

    def write(self, records: Sequence[Record], *, sync: bool) -> None:
        """Append a batch; with `sync` return when it is durable on all shards. See `LogWriter.write`."""
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
        """Remove segments with smaller numbers from all shards, oldest first. See `LogWriter.remove_below`."""
        with self._turn:
            if self._dirty and not self._failed:
                self._sync()  # the records that made the old ones needless must not go while those are gone
            for info in [info for info in self._closed if info.no < no]:
                for shard in range(self._place.shards):
                    self._remove(shard, info.no)
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
        """Close the files as they are, as a crash would."""
        self._let_go("the log was abandoned")

    def _let_go(self, why: str) -> None:
        self._failed = self._failed or why
        for file in self._open:
            file.close()
        if self._threads is not None:
            self._threads.close()

    # --- writing --------------------------------------------------------------------------------------------------

    def _write(self, records: Sequence[Record], *, sync: bool) -> None:
        if self._failed:
            raise LogFailed(self._failed)
        if records:
            if self.changes_segment:
                self._rotate()
            packed = self._packed(records)
            self._append(packed)
            self._in_doubt = True
            self._dirty.update(shard for shard, _, _ in packed)
            self.next_lsn += len(records)
            no, first_lsn, _last, old_size = self._active
            size = sum(size for _, _, size in packed)
            self._active = SegmentInfo(no, first_lsn, self.next_lsn - 1, old_size + size)
        if sync and self._dirty:
            self._sync()

    def _packed(self, records: Sequence[Record]) -> list[tuple[int, list[bytes], int]]:
        """Each shard's part of a batch: shard, buffers and bytes. Raises ProtocolError: nothing was packed."""
        shards = self._place.shards
        parts: dict[int, list[Record]] = {}
        for record in records:
            parts.setdefault(shard_of(record[1], record[2], shards), []).append(record)
        expected = range(self.next_lsn, self.next_lsn + len(records))
        if any(record[0] != lsn for record, lsn in zip(records, expected, strict=True)):
            pack_records(records, 0, self.next_lsn, 0)  # says which one
        packed = []
        for shard, part in parts.items():
            flags = 0 if shard in self._dirty else BARRIER
            ahead = part[0].lsn - self.next_lsn
            if not self._dirty and ahead <= AHEAD_MAX:
                flags |= ALL_BEFORE | ahead << AHEAD_SHIFT
            packed.append((shard, *pack_records(part, self._parts[shard].seed, self.next_lsn, flags, sparse=True)))
        return packed

    def _append(self, packed: list[tuple[int, list[bytes], int]]) -> None:
        try:
            for shard, pieces, _ in packed:
                write_all(self._open[shard], pieces)
        except OSError as error:
            try:
                for shard, _, _ in packed:
                    if self._open[shard].size() > self._sizes[shard]:
                        self._open[shard].truncate(self._sizes[shard])
            except OSError as second:
                self._fail(f"cutting off a batch after {error}", second)
            if error.errno in NO_SPACE:
                size = sum(size for _, _, size in packed)
                raise DiskFull(f"no space for {size} bytes in {self._place.folder}") from error
            self._fail(f"writing log segment {segment_name(self._active.no)}", error)
        for shard, _, size in packed:
            self._sizes[shard] += size

    def _sync(self) -> None:
        """Make all shards durable, side by side."""
        try:
            self._syncs([self._open[shard] for shard in sorted(self._dirty)])
        except OSError as error:
            self._fail(f"syncing log segment {segment_name(self._active.no)}", error)
        self._dirty.clear()

    def _fail(self, doing: str, error: OSError) -> NoReturn:
        """Refuse everything from now on."""
        self._failed = f"{doing} failed: {error}"
        raise LogFailed(self._failed) from error

    # --- segments -------------------------------------------------------------------------------------------------

    def _path(self, shard: int, no: int) -> str:
        return f"{self._parts[shard].folder}/{segment_name(no)}"

    def _rotate(self) -> None:
        """Close the active segment of all shards and go on in a new one. DiskFull leaves the old one active."""
        if self._dirty:
            self._sync()
        old, old_files = self._active, self._open
        self._active, self._open, self._sizes = self._begin_segment(old.no + 1)
        self._closed = (*self._closed, old)
        for file in old_files:
            file.close()

    def _begin_segment(self, no: int) -> tuple[SegmentInfo, list[LogFile], list[int]]:
        """Make a segment in all shards, shard 0 last, each durable with its name."""
        made: list[LogFile] = []
        try:
            for shard in reversed(range(self._place.shards)):
                made.insert(0, self._begin_file(shard, no))
        except OSError as error:
            for file in made:
                file.close()
            if error.errno in NO_SPACE:
                with suppress(OSError):
                    self._take_back(no)
                raise DiskFull(f"no space for a new log segment in {self._place.folder}") from error
            self._fail(f"beginning log segment {segment_name(no)}", error)
        shards = self._place.shards
        info = SegmentInfo(no, self.next_lsn, self.next_lsn - 1, SEGMENT_HEADER_BYTES * shards)
        return info, made, [SEGMENT_HEADER_BYTES] * shards

    def _take_back(self, no: int) -> None:
        """Remove a segment that could not be begun: the space it holds is needed. Shard 0 first: then it is none."""
        for shard in range(self._place.shards):
            with suppress(FileNotFoundError):
                self._files.remove(self._path(shard, no) + ASIDE)
            with suppress(FileNotFoundError):
                self._files.remove(self._path(shard, no))
                self._files.sync_folder(self._parts[shard].folder)

    def _begin_file(self, shard: int, no: int) -> LogFile:
        path = self._path(shard, no)
        file = self._files.create(path + ASIDE)
        try:
            write_all(file, [pack_segment_header(no, self.next_lsn, self._parts[shard])])
            file.sync()
            self._files.rename(path + ASIDE, path)
            self._files.sync_folder(self._parts[shard].folder)
        except OSError:
            file.close()
            raise
        return file

    def _continue(self, no: int) -> list[LogFile]:
        """Open the last segment, cut each shard where the merged log ends, and make all of it durable."""
        opened: list[LogFile] = []
        try:
            for shard, part in enumerate(self._parts):
                file = self._files.open(self._path(shard, no))
                opened.append(file)
                size = file.size()
                if size > self._sizes[shard]:
                    file.truncate(self._sizes[shard])
                file.sync()
                self._files.sync_folder(part.folder)
                if size < self._sizes[shard]:
                    name = part.prefix + segment_name(no)
                    raise LogCorrupt(f"segment {name} became shorter while it was opened", name, size)
        except BaseException as error:
            for file in opened:
                file.close()
            if isinstance(error, OSError):
                self._fail(f"opening log segment {segment_name(no)}", error)
            raise
        return opened

    def _remove(self, shard: int, no: int) -> None:
        part = self._parts[shard]
        try:
            self._files.remove(self._path(shard, no))
            self._files.sync_folder(part.folder)  # each by itself: no crash may leave a hole among them
        except FileNotFoundError:
            pass
        except OSError as error:
            name = part.prefix + segment_name(no)
            raise StateFolderError(f"cannot remove log segment {name}: {error}") from error

    def _remove_leftovers(self, segments: Sequence[SegmentInfo]) -> None:
        """Remove what a crash left: files not yet in place, and segments that only some of the shards have."""
        kept = range(segments[0].no, segments[-1].no + 1) if segments else range(0)
        try:
            for part in self._parts:
                for name in self._files.list(part.folder):
                    if name.endswith(ASIDE):
                        self._files.remove(f"{part.folder}/{name}")
                for name in segments_in(part, self._files):
                    if segment_no(name) not in kept:
                        self._files.remove(f"{part.folder}/{name}")
                        self._files.sync_folder(part.folder)
        except OSError as error:
            self._fail("tidying the log folders", error)


LogWriting = LogWriter | ShardedWriter
"""The writer of a log, in one piece or in shards."""


def open_log(
    place: LogPlace,
    files: Files,
    report: RecoveryReport,
    *,
    segment_bytes: int = limits.SEGMENT_BYTES,
    first_no: int = 1,
) -> LogWriting:
    """The writer of a log, in one piece or in shards. Arguments and faults as `LogWriter`."""
    kind = LogWriter if place.shards == 1 else ShardedWriter
    return kind(place, files, report, segment_bytes=segment_bytes, first_no=first_no)
