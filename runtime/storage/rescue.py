"""Salvage into a new folder: what can be read of a state folder becomes another one, and the old one stays untouched.

    old/log ──► Sieve ──► new/log               records that fit each other, LSNs anew from the first
    old/blobs ──────────► new/blobs             those that kept runs refer to, and that are whole
    old/checkpoint.db ──► new/checkpoint.db     where the log was cut behind it: then the new log begins where it ends
    old/archive ────────► new/archive           what is whole of it (`rescue_archive`)

So what only the checkpoint has (runs of before, keys, schedules, policy) is kept as the engine wrote it. One that is
damaged is passed over, and what it held is lost. What memory let go of and is not in the archive yet keeps its large
values, too: the next checkpoint takes it there. Subscriptions are not kept: their cursors are places in the old log.

The new folder has an identity of its own and is sound: it is read again from end to end before the report says so.
Opening it goes on with the runs that are open; what had ended and is kept is not executed again.

It is made aside, as `NAME.part`, and gets its name when all of it is durable. A fault removes it again; a crash leaves
what there is of it, to be removed by whoever wants to begin again.

Concurrency: holds the lock of the new folder; refuses an old one that an engine has open. Known limit: the new folder
needs the space of what is kept once more.
"""

from __future__ import annotations

import os
import shutil
from array import array
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final

import orjson

from actors.protocol.errors import DiskFull, InternalError, StateFolderError, StateFolderInUse
from actors.protocol.records import Record, RecordType
from runtime.mail.blobs import BlobStore
from runtime.storage.checkpoint import CheckpointFile
from runtime.storage.clocks import with_clocks
from runtime.storage.contents import Blobs, Contents, check_contents, look_up
from runtime.storage.files import DiskFiles
from runtime.storage.folder import StateFolder
from runtime.storage.openings import Opening, note_opening, read_openings
from runtime.storage.reader import read_log
from runtime.storage.report import RecoveryReport
from runtime.storage.rescue_archive import rescue_archive
from runtime.storage.resume import begin_to_salvage
from runtime.storage.sieve import Sieve
from runtime.storage.wal import NO_SPACE, LogWriter, batches

BATCH_RECORDS: Final = 1024
ASIDE: Final = ".part"


@dataclass(frozen=True, slots=True)
class RescueReport:
    """What went into the new folder. `contents` is what a check of it says; `lost` are the gaps of the old log;
    `archived` and `archived_lost` are runs of its archive that were kept and that could not be read."""

    source: str
    target: str
    lost: RecoveryReport
    contents: Contents
    blobs_copied: int
    bytes_copied: int
    archived: int = 0
    archived_lost: int = 0

    def to_json(self) -> dict[str, Any]:
        """As plain JSON data."""
        return {
            "source": self.source,
            "target": self.target,
            "lost": self.lost.to_json(),
            "contents": self.contents.to_json(),
            "blobs_copied": self.blobs_copied,
            "bytes_copied": self.bytes_copied,
            "archived": self.archived,
            "archived_lost": self.archived_lost,
        }


def rescue(path: str | os.PathLike[str], target: str | os.PathLike[str]) -> RescueReport:
    """Salvage a state folder into a new one.

    Args:
        path: The folder to be read; nothing in it is changed.
        target: A folder that does not exist, or is empty.

    Raises:
        StateFolderInUse: An engine has the old folder open.
        StateFolderError, NewerFormat: It cannot be read as a state folder, or the new one cannot be made or is not new.
        DiskFull: There is no room for the new one.

    Crash: `TARGET.part` is left as far as it was made.
    """
    target = os.path.abspath(os.fspath(target))
    aside = target + ASIDE
    with StateFolder.open(path, create=False, owner=False) as old:
        pid = old.owner_pid()
        if pid is not None:
            raise StateFolderInUse(f"state folder {old.path} is in use by process {pid}", pid)
        for name in (target, aside):
            refuse_not_new(name)
        try:
            return _make(old, aside, target)
        except BaseException:
            shutil.rmtree(aside, ignore_errors=True)
            raise


def _make(old: StateFolder, aside: str, target: str) -> RescueReport:
    store = BlobStore(old.blobs_path, fsync=False)
    sieve = Sieve(store.open, store.has_run)
    with StateFolder.open(aside, log_shards=old.log_shards) as new, closing(_LogCopy(old, new, sieve)) as log:
        log.copy()
        found = look_up(sieve, store)
        try:
            copied = copy_blobs(found, old.blobs_path, new.blobs_path)
            archive = rescue_archive(old, new, log.lsn_of)
        except OSError as fault:
            if fault.errno in NO_SPACE:
                raise DiskFull(f"no space for the blobs of {target}: {fault}") from fault
            raise StateFolderError(f"a blob cannot be copied: {fault}") from fault
        log.number_from(archive.next_no)
    contents = check_contents(aside)
    if contents.records_dropped or contents.runs_lost:
        raise InternalError(f"what was salvaged from {old.path} does not fit: {'; '.join(contents.problems)}")
    os.rename(aside, target)  # an empty folder of that name is replaced
    DiskFiles().sync_folder(os.path.dirname(target))
    lost = log.reader.report()
    return RescueReport(old.path, target, lost, contents, len(found.sound), copied, archive.runs, archive.lost)


def refuse_not_new(target: str | os.PathLike[str]) -> None:
    """Raise StateFolderError unless a folder of this name can be made, or is there and empty."""
    try:
        taken = os.listdir(target)
    except FileNotFoundError:
        return
    except OSError as fault:
        raise StateFolderError(f"{os.fspath(target)} cannot become a state folder: {fault.strerror}") from fault
    if taken:
        raise StateFolderError(f"{os.fspath(target)} is not empty; salvage makes a new folder")


def copy_blobs(found: Blobs, source: str, target: str) -> int:
    """Copy the sound blobs, durably; returns their bytes. Raises OSError."""
    size = 0
    made: set[str] = set()
    for name in found.sound:
        to = os.path.join(target, name)
        parent = os.path.dirname(to)
        os.makedirs(parent, exist_ok=True)
        made.add(parent)
        shutil.copyfile(os.path.join(source, name), to)
        fd = os.open(to, os.O_RDONLY)
        try:
            os.fsync(fd)
            size += os.fstat(fd).st_size
        finally:
            os.close(fd)
    files = DiskFiles()
    for parent in (*made, target):
        files.sync_folder(parent)
    return size


class _LogCopy:
    """Checkpoint and log of the old folder in the new one, the records with LSNs of its own; `close` it.

    Args:
        old: The folder to be read.
        new: The folder that is made.
        sieve: Takes all of the old log.
    """

    def __init__(self, old: StateFolder, new: StateFolder, sieve: Sieve) -> None:
        files = DiskFiles()
        self._old, self._new, self._sieve = old, new, sieve
        self._base_lsn = begin_to_salvage(old, sieve.replay, files)
        self._says_base = not self._base_lsn
        self._passed = array("Q")
        if self._base_lsn:
            _copy_checkpoint(old, new)
            _copy_openings(old, new, self._base_lsn, self._offset_ns)
        self.reader = read_log(old.log, files, salvage=True, after_lsn=self._base_lsn)
        self._writer = LogWriter(new.log, files, RecoveryReport((), 0, 0, self._base_lsn + 1, 0, 0, (), 0))

    def copy(self) -> None:
        """Write what passes. Raises DiskFull, LogFailed."""
        for batch in batches(self._kept(), BATCH_RECORDS):
            self._writer.write(batch, sync=False)
        if not self._says_base:  # so that it is missed, should it be lost
            self._add(RecordType.CHECKPOINT, [self._base_lsn])

    def number_from(self, next_no: int) -> None:
        """Runs to come get no smaller numbers than this: those below are of archived ones."""
        if next_no > self._sieve.scheduler.book.next_run_no:
            clocks = {"now_ns": 0, "wall_ns": self._offset_ns}
            self._add(RecordType.OPENED, {**self._sieve.replay.opened, **clocks, "next_run_no": next_no})

    def lsn_of(self, lsn: int) -> int:
        """How far the new log has come where the old one had come to this LSN."""
        return min(lsn, self._base_lsn) + bisect_right(self._passed, lsn)

    def close(self) -> None:
        """Close the new log."""
        self._writer.close()

    @property
    def _offset_ns(self) -> int:
        """What leads from the engine's clock to the wall clock, as of the record that was taken last."""
        return self._sieve.replay.offset_ns

    def _kept(self) -> Iterator[Record]:
        replay, said_ns = self._sieve.replay, self._offset_ns
        for record in with_clocks(self.reader, replay, self._old.path, self._base_lsn):
            passed = self._sieve.take(record, self.reader.lost)
            if passed is None:
                continue
            if record.type != RecordType.OPENED and self._offset_ns != said_ns:
                yield self._clock_record(record.lsn - 1)
            said_ns = self._offset_ns
            lsn = self._next_lsn
            self._passed.append(record.lsn)
            if record.type == RecordType.CHECKPOINT:
                self._says_base = True
            elif record.type == RecordType.OPENED and self._base_lsn:
                said = replay.opened
                note_opening(self._new.path, Opening(lsn, said["now_ns"], said["wall_ns"]))
            yield passed._replace(lsn=lsn)

    @property
    def _next_lsn(self) -> int:
        return self._base_lsn + 1 + len(self._passed)

    def _clock_record(self, old_lsn: int) -> Record:
        """Says the clock that holds from here on, in the place of an opening that is lost."""
        lsn, next_no = self._next_lsn, self._sieve.scheduler.book.next_run_no
        self._passed.append(old_lsn)
        if self._base_lsn:
            note_opening(self._new.path, Opening(lsn, 0, self._offset_ns))
        said = {**self._sieve.replay.opened, "now_ns": 0, "wall_ns": self._offset_ns, "next_run_no": next_no}
        return Record(lsn, RecordType.OPENED, orjson.dumps(said))

    def _add(self, type_: RecordType, said: Any) -> None:
        self._writer.write([Record(self._writer.next_lsn, type_, orjson.dumps(said))], sync=False)


def _copy_checkpoint(old: StateFolder, new: StateFolder) -> None:
    """Part by part, under the identity of the new folder."""
    source = CheckpointFile.read(old.path, old.uuid)
    if source is None:
        raise StateFolderError(f"another process changed {old.path} meanwhile")
    with source, CheckpointFile.write(new.path, new.uuid) as target:
        target.put(source.lsn, source.parts(), ())


def _copy_openings(old: StateFolder, new: StateFolder, base_lsn: int, offset_ns: int) -> None:
    """How the clocks stood before the new log begins; its own records tell of later openings."""
    known = read_openings(old.path)
    before = [opening for opening in (known.entries if known is not None else ()) if opening.lsn <= base_lsn]
    for opening in before or [Opening(base_lsn, 0, offset_ns)]:
        note_opening(new.path, opening)
