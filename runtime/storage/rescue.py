"""Salvage into a new folder: what can be read of a state folder becomes another one, and the old one stays untouched.

    old/log ──► Sieve ──► new/log          records that fit each other, LSNs anew from the first
    old/blobs ──────────► new/blobs        those that kept runs refer to, and that are whole

Where the log was cut behind a checkpoint, the state that the two give is written as an import of its runs: records of
what was before there are none. Schedules and policy, which no run has, are then those of the program that opens it. A
checkpoint that is damaged is passed over, and what it held is lost.

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
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import orjson

from actors.exported import FORM_VERSION, lines_of
from actors.protocol.errors import DiskFull, InternalError, StateFolderError, StateFolderInUse
from actors.protocol.records import Record
from actors.replay import Replay
from actors.scheduler import Scheduler
from runtime.mail.blobs import BlobStore
from runtime.storage.contents import Blobs, Contents, check_contents, look_up
from runtime.storage.files import DiskFiles
from runtime.storage.folder import StateFolder
from runtime.storage.reader import read_log
from runtime.storage.report import RecoveryReport
from runtime.storage.resume import begin_to_salvage
from runtime.storage.sieve import Sieve
from runtime.storage.transfer import enter_runs
from runtime.storage.wal import NO_SPACE, LogWriter, batches

BATCH_RECORDS: Final = 1024
ASIDE: Final = ".part"


@dataclass(frozen=True, slots=True)
class RescueReport:
    """What went into the new folder. `contents` is what a check of it says; `lost` are the gaps of the old log."""

    source: str
    target: str
    lost: RecoveryReport
    contents: Contents
    blobs_copied: int
    bytes_copied: int

    def to_json(self) -> dict[str, Any]:
        """As plain JSON data."""
        return {
            "source": self.source,
            "target": self.target,
            "lost": self.lost.to_json(),
            "contents": self.contents.to_json(),
            "blobs_copied": self.blobs_copied,
            "bytes_copied": self.bytes_copied,
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
    sieve = Sieve(store.open)
    with StateFolder.open(aside, log_shards=old.log_shards) as new:
        report = _copy_log(old, new, DiskFiles(), sieve)
        found = look_up(sieve, store)
        try:
            copied = copy_blobs(found, old.blobs_path, new.blobs_path)
        except OSError as fault:
            if fault.errno in NO_SPACE:
                raise DiskFull(f"no space for the blobs of {target}: {fault}") from fault
            raise StateFolderError(f"a blob cannot be copied: {fault}") from fault
    contents = check_contents(aside)
    if contents.records_dropped or contents.runs_lost:
        raise InternalError(f"what was salvaged from {old.path} does not fit: {'; '.join(contents.problems)}")
    os.rename(aside, target)  # an empty folder of that name is replaced
    DiskFiles().sync_folder(os.path.dirname(target))
    return RescueReport(old.path, target, report, contents, len(found.sound), copied)


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


def _copy_log(old: StateFolder, new: StateFolder, files: DiskFiles, sieve: Sieve) -> RecoveryReport:
    """Write what passes, with LSNs of its own; returns what reading the old log found."""
    base_lsn = begin_to_salvage(old, sieve.replay, files)
    if base_lsn:
        return _copy_state(old, new, files, sieve, base_lsn)
    reader = read_log(old.log, files, salvage=True)
    writer = _writer_of(new, files)
    first_lsn = writer.next_lsn

    def kept() -> Iterator[Record]:
        for record in reader:
            passed = sieve.take(record, reader.lost)
            if passed is not None:
                yield passed

    def renumbered() -> Iterator[Record]:
        for lsn, record in enumerate(kept(), first_lsn):
            yield record._replace(lsn=lsn)

    try:
        for batch in batches(renumbered(), BATCH_RECORDS):
            writer.write(batch, sync=False)
    finally:
        writer.close()
    return reader.report()


def _copy_state(old: StateFolder, new: StateFolder, files: DiskFiles, sieve: Sieve, base_lsn: int) -> RecoveryReport:
    """The same where the log was cut behind a checkpoint: what was before has no records, so the runs are entered as an
    import enters them; returns what reading the old log found."""
    reader = read_log(old.log, files, salvage=True, after_lsn=base_lsn)
    for record in reader:
        sieve.take(record, reader.lost)
    enter_runs(Replay(Scheduler([])), _writer_of(new, files), BlobStore(new.blobs_path), _lines(sieve.scheduler))
    return reader.report()


def _lines(scheduler: Scheduler) -> Iterator[bytes]:
    runs = [run for _, run in sorted({**scheduler.book.live, **scheduler.book.finished}.items())]
    by_run = scheduler.keys.by_run()
    yield orjson.dumps({"type": "export", "version": FORM_VERSION, "runs": len(runs)})
    for run in runs:
        for line in lines_of(scheduler, run, by_run):
            yield orjson.dumps(line)


def _writer_of(new: StateFolder, files: DiskFiles) -> LogWriter:
    """Of a log that is empty."""
    empty = read_log(new.log, files)
    for _ in empty:
        pass
    return LogWriter(new.log, files, empty.report())
