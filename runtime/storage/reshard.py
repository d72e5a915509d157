"""Moves the log of a state folder into another number of shards, offline.

    log/ ──► read, merged ──► log-2/0 log-2/1 ... ──► read again, compared ──► mainspring.json names log-2 ──► log/ goes

Every record keeps its LSN, the log's own marks too, so cursors, checkpoint and archive stay what they are. The switch
is one rename of the identity file: a crash before it leaves the old log in use, and a part of a new one that the next
reshard removes; a crash behind it leaves the new log in use, and the old one, which the next reshard removes.

Concurrency: holds the lock of the folder; refuses one that an engine has open. Known limits: needs the space of the log
once more; a damaged log or checkpoint is refused, salvage comes first.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, Final

import xxhash

from actors.protocol import limits
from actors.protocol.errors import CheckpointUnusable, ConfigurationError, DiskFull, InternalError, StateFolderError
from actors.protocol.records import LSN_FIRST, Record, RecordType
from actors.replay import Replay
from actors.saved import load
from actors.scheduler import Scheduler
from runtime.storage.checkpoint import CheckpointFile
from runtime.storage.files import DiskFiles, Files
from runtime.storage.folder import StateFolder, is_log_name, next_log_name
from runtime.storage.reader import list_segments, read_log, segment_heads
from runtime.storage.report import MARK_CLOSED, RecoveryReport, lsn_behind_mark
from runtime.storage.resume import first_lsn, missing_checkpoint
from runtime.storage.segment import LogPlace
from runtime.storage.wal import NO_SPACE, LogWriter, batches

BATCH_RECORDS: Final = 4096


@dataclass(frozen=True, slots=True)
class ReshardReport:
    """What was moved: `shards` from and to, records (as `verify` counts them), bytes of the new log, its folder; and
    folders left over before."""

    path: str
    shards_before: int
    shards: int
    records: int
    bytes: int
    log: str
    removed: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As plain JSON data."""
        return {**asdict(self), "removed": list(self.removed)}


def reshard(path: str | os.PathLike[str], shards: int, *, files: Files | None = None) -> ReshardReport:
    """Move the log of a state folder into so many shards.

    Args:
        path: The folder; no engine may have it open.
        shards: 1 for a log in one piece.
        files: The seam to the disk.

    Returns:
        What was moved. Where the log lies in so many shards already, what a crash left is removed, and that is all.

    Raises:
        ConfigurationError: `shards` is out of range.
        StateFolderInUse: An engine has the folder open. StateFolderError, NewerFormat: It is no state folder.
        LogCorrupt, CheckpointUnusable: The log is damaged before its tail, or the checkpoint is, or it is missing;
            nothing was moved.
        DiskFull: There is no room for the log once more; the old one is as it was.

    Crash: see the module.
    """
    if type(shards) is not int or not 1 <= shards <= limits.LOG_SHARDS_MAX:
        raise ConfigurationError(f"a log lies in 1 to {limits.LOG_SHARDS_MAX} shards, not in {shards!r:.40}")
    files = files or DiskFiles()
    with StateFolder.open(path, create=False, files=files) as folder:
        before = folder.log_shards
        removed = _remove_others(folder, files)
        count = size = 0
        if shards != before:
            _refuse_unusable(folder, files)
            count, size = _move(folder, shards, files)
            _remove_others(folder, files)
        return ReshardReport(folder.path, before, shards, count, size, folder.log_name, removed)


def _refuse_unusable(folder: StateFolder, files: Files) -> None:
    """A folder that does not open would not open afterwards; raise what an opening would."""
    checkpoint = CheckpointFile.read(folder.path, folder.uuid)
    begins, lsn = first_lsn(folder, files) or LSN_FIRST, 0
    if checkpoint is not None:
        with checkpoint:
            lsn = checkpoint.lsn
            load(Replay(Scheduler([])), checkpoint.parts())
    if begins > lsn + 1 and (why := missing_checkpoint(folder, files, begins)) is not None:
        raise CheckpointUnusable(why)


def _move(folder: StateFolder, shards: int, files: Files) -> tuple[int, int]:
    """Write the log anew beside the old one, and switch. Returns records and bytes of the new one."""
    name = next_log_name(folder.log_name)
    to = LogPlace(os.path.join(folder.path, name), folder.uuid, shards)
    try:
        files.make_folder(to.folder)
        for part in to.parts():
            files.make_folder(part.folder)
        files.sync_folder(to.folder)
        files.sync_folder(folder.path)
        wanted = _copy(folder.log, to, files)
        reader = read_log(to, files, marks=True)
        got = _Digest(reader)
        if got.value != wanted.value:
            raise InternalError(f"the log that was written to {to.folder} is not the one that was read")
        folder.move_log(name, shards, files)
    except BaseException as fault:
        if folder.log_name != name:
            shutil.rmtree(to.folder, ignore_errors=True)
        if isinstance(fault, OSError) and fault.errno in NO_SPACE:
            raise DiskFull(f"no space in {folder.path} for its log once more") from fault
        raise
    return got.records, reader.report().bytes


def _copy(log: LogPlace, to: LogPlace, files: Files) -> _Digest:
    """Write all records with their LSNs, the last one when all others are durable: then none of them is in doubt."""
    first_no, first_lsn = next(((no, lsn) for no, lsn, _ in _heads(log, files)), (1, LSN_FIRST))
    empty = RecoveryReport((), 0, 0, first_lsn, 0, 0, (), 0)
    digest = _Digest(())
    writer = LogWriter(to, files, empty, first_no=first_no)
    try:
        last: Record | None = None
        for batch in batches(read_log(log, files, marks=True), BATCH_RECORDS):
            batch, last = [*([] if last is None else [last]), *batch[:-1]], batch[-1]
            _write(writer, batch)
            digest.take(batch)
        if last is not None:
            ends = last.type == RecordType.MARK and last.payload == MARK_CLOSED
            before = [] if ends else [last]
            _write(writer, before)
            closed = last if ends else Record(writer.next_lsn, RecordType.MARK, MARK_CLOSED)
            writer.write((), sync=True)
            _write(writer, [closed])
            digest.take([*before, closed])
        writer.write((), sync=True)
    finally:
        writer.abandon()  # it has its mark, and every record its LSN
    return digest


def _heads(log: LogPlace, files: Files) -> Iterator[tuple[int, int, int]]:
    for no, lsn, size in segment_heads(log, files, list_segments(log, files)):
        if lsn is not None:
            yield no, lsn, size


def _write(writer: LogWriter, records: list[Record]) -> None:
    """Write records that are contiguous, but behind marks that stand for several."""
    start = 0
    for index, record in enumerate(records):
        if record.type == RecordType.MARK:
            writer.write(records[start : index + 1], sync=False)
            writer.next_lsn = lsn_behind_mark(record.lsn, record.payload)
            start = index + 1
    if start < len(records):
        writer.write(records[start:], sync=False)


class _Digest:
    """Of some records in their order."""

    def __init__(self, records: Iterable[Record]) -> None:
        self._hasher = xxhash.xxh3_128()
        self.records = 0
        """How many there are, without the log's own marks."""
        self.take(records)

    def take(self, records: Iterable[Record]) -> None:
        """Add records."""
        for lsn, type_, payload in records:
            self._hasher.update(b"%d %d %d " % (lsn, type_, len(payload)))
            self._hasher.update(payload)
            self.records += type_ != RecordType.MARK

    @property
    def value(self) -> bytes:
        """Of all up to now."""
        return self._hasher.digest()


def _remove_others(folder: StateFolder, files: Files) -> tuple[str, ...]:
    """Remove logs that are not in use: what a crash left of one that was made, or the one before."""
    others = [name for name in files.list(folder.path) if is_log_name(name) and name != folder.log_name]
    if others and not list_segments(folder.log, files):
        raise StateFolderError(f"{folder.log.folder} has no log, but there is {', '.join(others)}: which one is it?")
    for name in others:
        shutil.rmtree(os.path.join(folder.path, name))
    if others:
        files.sync_folder(folder.path)
    return tuple(others)
