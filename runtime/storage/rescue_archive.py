"""The archive in a salvage: what can be read of it comes into the new folder, with its large values.

    old/archive.db ──► each run by itself: row and parts whole? ──► new/archive.db, under the new folder's identity
    old/archive/   ──► those that such runs name, and that are whole ──► new/archive/

Runs keep their numbers; how far the archive goes is said in the new log's own LSNs. A run that is damaged is lost; a
large value that is missing or damaged is told of no more, and its run stays.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final, NamedTuple

from actors.archived import ArchiveRule
from actors.protocol.archive_errors import ArchiveUnusable
from runtime.mail.blobs import BlobStore
from runtime.storage.archive import ArchiveFile
from runtime.storage.archive_rows import ArchiveEntry
from runtime.storage.files import DiskFiles
from runtime.storage.folder import StateFolder
from runtime.storage.past_runs import core_of
from runtime.storage.verify_archive import lost_values

BATCH_BYTES: Final = 8 << 20
"""Of parts, in one transaction."""


class ArchiveRescue(NamedTuple):
    """How many runs of the archive were kept and lost, and the number above all of them."""

    runs: int = 0
    lost: int = 0
    next_no: int = 0


def rescue_archive(old: StateFolder, new: StateFolder, lsn_of: Callable[[int], int]) -> ArchiveRescue:
    """Copy the archive of a folder, if it has one.

    Args:
        old: The folder to be read.
        new: The folder that is made.
        lsn_of: For an LSN of the old log, how far that is in the new one.

    Raises:
        DiskFull, StateFolderError: The new one cannot be written. OSError: A large value cannot be copied.
    """
    try:
        archive = ArchiveFile.read(old.path, old.uuid)
        if archive is None:
            return ArchiveRescue()
    except ArchiveUnusable:
        return ArchiveRescue()
    with archive, ArchiveFile.write(new.path, new.uuid) as target:
        rule = _rule_of(archive)
        kept, next_no, waiting, size = 0, 0, list[ArchiveEntry](), 0
        numbers = _numbers_of(archive)
        for no in numbers:
            next_no = max(next_no, no + 1)
            entry = _entry(archive, no, rule, old)
            if entry is None:
                continue
            _copy_values(entry, old, new)
            kept += 1
            waiting.append(entry)
            size += sum(len(part.body) for part in entry.parts)
            if size >= BATCH_BYTES:
                target.put(waiting)
                waiting, size = [], 0
        target.put(waiting)
        target.settle(lsn_of(archive.lsn), rule)
        with suppress(ArchiveUnusable):
            for no in archive.forgotten():
                target.forget(no)
    _sync(new)
    return ArchiveRescue(kept, len(numbers) - kept, next_no)


def _numbers_of(archive: ArchiveFile) -> list[int]:
    try:
        return archive.numbers()
    except ArchiveUnusable:
        return []


def _rule_of(archive: ArchiveFile) -> ArchiveRule:
    with suppress(ArchiveUnusable, ValueError, TypeError, KeyError):
        return archive.rule or ArchiveRule(None)
    return ArchiveRule(None)


def _entry(archive: ArchiveFile, no: int, rule: ArchiveRule, old: StateFolder) -> ArchiveEntry | None:
    """A run with its parts, and those of its large values that can be read; None: it cannot be read."""
    try:
        row = next(archive.summaries(before_no=no + 1), None)
        if row is None or row.no != no:
            return None
        parts = archive.run(no)
        run = core_of(row, parts).scheduler.book.finished[no]
        lost = lost_values(run, BlobStore(old.archived_blobs_path, fsync=False))
        return ArchiveEntry(row, rule.expires_ns(row), parts, [name for name in archive.blobs(no) if name not in lost])
    except (ArchiveUnusable, LookupError, ValueError, TypeError):
        return None


def _copy_values(entry: ArchiveEntry, old: StateFolder, new: StateFolder) -> None:
    for name in entry.blobs:
        target = os.path.join(new.archived_blobs_path, name)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        shutil.copyfile(os.path.join(old.archived_blobs_path, name), target)
        with open(target, "rb+") as file:
            os.fsync(file.fileno())


def _sync(new: StateFolder) -> None:
    """Names of what was copied."""

    def folders() -> Iterator[str]:
        for at, _, _ in os.walk(new.archived_blobs_path):
            yield at

    files = DiskFiles()
    for folder in (*folders(), new.path):
        files.sync_folder(folder)
