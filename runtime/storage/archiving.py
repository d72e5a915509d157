"""Takes runs into the archive while a checkpoint is taken: those that the log, as it is folded, lets go of.

    fold ──► a run is let go of ──► row, parts, links to its large values ──► archive.db ──┐ before
    fold ──► all that is kept ────────────────────────────────────────────► checkpoint.db ◄┘

So a run is in the log, in the checkpoint or here, and no crash loses it: before the checkpoint is written the next try
folds the same records and puts the same runs. Records up to `ArchiveFile.lsn` have been through that, and are passed.

Large values are linked, not copied, where the file system can: the engine removes its own names of them when it has
heard of the checkpoint (`runtime.host.blob_reclaimer`).

A damaged archive is set aside, by the opening that sees it or by the next checkpoint, and begun anew: nothing may keep
the log from being cut for ever. The file is made when the first run comes.

Concurrency: one at a time, in the process that takes the checkpoint.
"""

from __future__ import annotations

import errno
import os
import shutil
from contextlib import suppress
from functools import partial
from typing import Any, Final, Self

from actors.archived import ArchiveRule, archived_run, credible
from actors.once import folders
from actors.protocol.archive_errors import ArchiveUnusable
from actors.protocol.errors import EnvironmentFault, PayloadError
from actors.replay import Replay
from actors.run import Run
from actors.saved import SavedPart
from actors.saved_run import save_run
from runtime.mail.blobs import BlobStore
from runtime.mail.references import BlobRef, blobs_in
from runtime.storage.archive import ArchiveFile
from runtime.storage.archive_rows import ArchiveEntry
from runtime.storage.contents import stored_values
from runtime.storage.files import DAMAGED, Files
from runtime.storage.folder import ARCHIVE_NAME, StateFolder

BATCH_RUNS: Final = 512
"""Runs that are put in one transaction, or BATCH_BYTES of their parts."""
BATCH_BYTES: Final = 8 << 20
LINK_TRIES_MAX: Final = 5
_NO_LINKS: Final = frozenset({errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP, errno.ENOSYS, errno.EACCES})


class Archiver:
    """Takes the runs of one fold.

    Args:
        folder: The state folder.
        replay: What it lets go of is taken, until `close`.
        rule: Which runs stay, and how long.
        now_ns: Wall clock: what would go at once is not taken.
        files: The seam to the disk.
    """

    def __init__(self, folder: StateFolder, replay: Replay, rule: ArchiveRule, now_ns: int, files: Files) -> None:
        self._replay = replay
        self._rule = rule
        self._now_ns = now_ns
        self._files = files
        self._store = BlobStore(folder.blobs_path, fsync=False)
        self._folder = folder.path
        self._place = folder.archived_blobs_path
        self._open = partial(_opened, folder)
        self._archive = self._open() if os.path.exists(os.path.join(folder.path, ARCHIVE_NAME)) else None
        self._waiting: list[ArchiveEntry] = []
        self._waiting_bytes = 0
        self._linked: set[str] = set()
        self.runs = self.bytes = 0
        """How many were put, and their bytes as they are stored."""
        replay.let_go = self._take

    def finish(self, lsn: int) -> int | None:
        """All records up to this one were folded: make the archive durable. Returns when it is to be trimmed.

        Raises:
            DiskFull, ArchiveUnusable, StateFolderError, OSError: It cannot be; the checkpoint must not be taken.
        """
        self._put()
        archive = self._archive
        if archive is None:
            return None
        if lsn > archive.lsn:
            archive.settle(lsn, self._rule)
        return archive.due_ns(self._rule.bytes_max)

    def close(self) -> None:
        """Close the archive."""
        self._replay.let_go = None
        if self._archive is not None:
            self._archive.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _take(self, run: Run, ended_ns: int | None) -> None:
        if self._archive is not None and self._replay.scheduler.lsn <= self._archive.lsn:
            return
        row = archived_run(run, ended_ns)
        known = run.no not in self._replay.guessed and credible(run, ended_ns) is not None
        expires_ns = self._rule.expires_ns(row if known else row._replace(ended_ns=self._now_ns))
        if expires_ns is not None and expires_ns <= self._now_ns:
            return
        parts = [SavedPart(run.no, *piece) for piece in save_run(run)]
        self._waiting.append(ArchiveEntry(row, expires_ns, parts, self._link(run)))
        self._waiting_bytes += sum(len(part.body) for part in parts)
        self.runs += 1
        if len(self._waiting) >= BATCH_RUNS or self._waiting_bytes >= BATCH_BYTES:
            self._put()

    def _put(self) -> None:
        for folder in sorted(self._linked):
            with suppress(FileNotFoundError):
                self._files.sync_folder(folder)
        self._linked.clear()
        if self._waiting:
            if self._archive is None:
                self._archive = self._open()
            self._archive.obey(self._rule)  # before: who ended by a clock that is lost stays longer than it says
            self.bytes += self._archive.put(self._waiting)
            self._waiting, self._waiting_bytes = [], 0

    def _link(self, run: Run) -> list[str]:
        """Links to the large values of a run; returns their names. What is not there is passed over."""
        blobs = self._store.folder
        if not any(os.path.isdir(blobs / name) for name in folders(run)):
            return []
        names = sorted({ref.name for _, wire in stored_values(run) for ref in blobs_in(wire, self._content)})
        return [name for name in names if self._link_one(name)]

    def _link_one(self, name: str) -> bool:
        try:
            source = str(self._store.path(name))
        except PayloadError:
            return False
        target = os.path.join(self._place, name)
        place = os.path.dirname(target)
        for _ in range(LINK_TRIES_MAX):
            if not os.path.isdir(place):
                os.makedirs(place, exist_ok=True)
                self._linked.update((self._folder, self._place))
            try:
                os.link(source, target)
            except FileExistsError:  # a try before this one, which did not come to its end
                pass
            except FileNotFoundError:
                if os.path.exists(source):  # the trimmer found the folder empty and removed it
                    continue
                return False
            except OSError as refused:
                if refused.errno not in _NO_LINKS:
                    raise
                if not _copy(source, target):
                    return False
            self._linked.add(place)
            return True
        return False

    def _content(self, ref: BlobRef) -> Any:
        try:
            return self._store.read(ref.name, ref.size, ref.checksum)
        except PayloadError:
            return None


def _copy(source: str, target: str) -> bool:
    """For file systems without links. Written aside and renamed; False: it is not there."""
    part = target + ".part"
    try:
        shutil.copyfile(source, part)
    except FileNotFoundError:
        return False
    with open(part, "rb+") as file:
        os.fsync(file.fileno())
    os.replace(part, target)
    return True


def _opened(folder: StateFolder) -> ArchiveFile:
    try:
        return ArchiveFile.write(folder.path, folder.uuid)
    except ArchiveUnusable:
        _set_aside(folder)
        return ArchiveFile.write(folder.path, folder.uuid)


def set_aside_damaged(folder: StateFolder) -> str:
    """At an opening: set the archive aside when it is seen to be damaged without reading all of it.

    Returns:
        What is wrong with it; empty when nothing is, as far as one sees.
    """
    try:
        found = ArchiveFile.read(folder.path, folder.uuid)
    except ArchiveUnusable as damaged:
        _set_aside(folder)
        return damaged.message
    except EnvironmentFault:  # a newer version's, or it cannot be opened: nothing to judge, and whoever asks is told
        return ""
    if found is not None:
        found.close()
    return ""


def _set_aside(folder: StateFolder) -> None:
    path = os.path.join(folder.path, ARCHIVE_NAME)
    os.replace(path, path + DAMAGED)
    with suppress(FileNotFoundError):
        os.replace(path + "-journal", path + "-journal" + DAMAGED)
