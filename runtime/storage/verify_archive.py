"""What `verify` says of the archive: whether each run in it can be read, is what its row says, and has its files.

Nothing else depends on the archive, so what is wrong with it does not keep a folder from opening. Reads only, beside an
engine that trims it: a run that goes meanwhile is passed over.
"""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from actors.archived import archived_run
from actors.protocol.archive_errors import ArchiveUnusable
from actors.protocol.errors import EnvironmentFault, PayloadError
from actors.protocol.words import counted
from actors.run import Run
from runtime.mail.blobs import BlobStore
from runtime.mail.references import BlobRef, blobs_in
from runtime.storage.archive import ArchiveFile
from runtime.storage.contents import stored_values
from runtime.storage.files import DAMAGED
from runtime.storage.folder import ARCHIVE_NAME, StateFolder
from runtime.storage.gone import gone_before
from runtime.storage.past_runs import core_of, past_of

NAMED_MAX: Final = 20
"""Findings that are told one by one."""


@dataclass(frozen=True, slots=True)
class ArchiveFinding:
    """What was found of an archive: how much is in it, what is wrong, and what is not.

    `runs` and `nodes` are what `export --archived` writes besides what is in memory (where an id was used again, the
    latest of its runs), `submissions` what a query counts, to which each single task is a run. `waiting` of the runs
    are in the log only, and come here with the next checkpoint; `bytes` are those of the file.
    """

    runs: int = 0
    nodes: int = 0
    bytes: int = 0
    lsn: int = 0
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    submissions: int = 0
    waiting: int = 0

    def to_json(self) -> dict[str, Any]:
        """As plain JSON data."""
        return {**asdict(self), "problems": list(self.problems), "notes": list(self.notes)}


def verify_archive(path: str | os.PathLike[str]) -> ArchiveFinding:
    """Check the archive of a state folder; damage is in what it returns. Changes nothing.

    Raises:
        StateFolderError, NewerFormat: It cannot be read as a state folder, or a newer version wrote it.
    """
    with StateFolder.open(path, create=False, owner=False) as folder:
        aside = os.path.join(folder.path, ARCHIVE_NAME + DAMAGED)
        notes = (f"{ARCHIVE_NAME}{DAMAGED}: a damaged archive that was set aside",) if os.path.exists(aside) else ()
        if not os.path.exists(os.path.join(folder.path, ARCHIVE_NAME)) and (gone := gone_before(folder)):
            text = f"there is no {ARCHIVE_NAME}, and the checkpoint has let go of {counted(gone, 'run')}"
            notes = (*notes, f"{text}: what was archived of them is gone")
        return _with_rows(folder, _of_file(folder, notes))


def _of_file(folder: StateFolder, notes: tuple[str, ...]) -> ArchiveFinding:
    try:
        archive = ArchiveFile.read(folder.path, folder.uuid)
        if archive is None:
            return ArchiveFinding(notes=notes)
        with archive:
            store = BlobStore(folder.archived_blobs_path, fsync=False)
            bare: list[str] = []
            problems = _problems(archive, store, bare)
            if bare:
                text = "without some of their large values, which were not there any more when they were archived"
                notes = (*notes, f"{counted(len(bare), 'archived run')} {text}, as {bare[0]}")
            runs, nodes, size = archive.totals()
            return ArchiveFinding(runs, nodes, size, archive.lsn, tuple(problems), notes)
    except ArchiveUnusable as damaged:
        return ArchiveFinding(problems=(damaged.message,), notes=notes)


def _with_rows(folder: StateFolder, found: ArchiveFinding) -> ArchiveFinding:
    """The same with how much there is, also of what is on its way; where that cannot be read, as it is."""
    try:
        rows = list(past_of(folder.path).rows())
    except EnvironmentFault:
        return found
    submissions = sum(row.covers for row in rows)
    waiting = max(0, len(rows) - found.runs)
    return replace(
        found, runs=len(rows), nodes=sum(row.nodes for row in rows), submissions=submissions, waiting=waiting
    )


def _problems(archive: ArchiveFile, store: BlobStore, bare: list[str]) -> list[str]:
    """What is wrong; runs that came without some of their large values are added to `bare`."""
    found = [f"{ARCHIVE_NAME}: {text}" for text in archive.check()]
    for row in archive.summaries():
        try:
            parts = archive.run(row.no)
            if parts:
                run = core_of(row, parts).scheduler.book.finished[row.no]
                lost = lost_values(run, store)
                named = lost.keys() & set(archive.blobs(row.no)) if lost else ()
                found += [f"archived run {row.run_id}: {lost[name]}" for name in sorted(named)]
                if len(named) < len(lost):
                    bare.append(row.run_id)
                if archived_run(run, row.ended_ns)._replace(ended_ns=row.ended_ns) != row:
                    found.append(f"archived run {row.run_id} is not what its row says")
        except ArchiveUnusable as damaged:
            found.append(damaged.message)
        if len(found) > NAMED_MAX:
            return [*found[:NAMED_MAX], f"… and more: {counted(archive.totals()[0], 'run')} were not all looked at"]
    return found


def lost_values(run: Run, store: BlobStore) -> dict[str, str]:
    """Large values of a run that cannot be read, and why: those that its row names were there once.

    Args:
        run: Of the archive.
        store: Where its large values are.
    """
    found: dict[str, str] = {}

    def read(ref: BlobRef) -> Any:
        try:
            return store.read(ref.name, ref.size, ref.checksum)
        except PayloadError as lost:
            found[ref.name] = lost.message
            return None

    for _, wire in stored_values(run):
        for ref in blobs_in(wire, read):
            read(ref)
    return found
