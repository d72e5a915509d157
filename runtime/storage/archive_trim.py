"""Takes runs whose time is over out of the archive, step by step, and gives their space back.

    due ──► row deleted, tombstone in `going`, orphans in `leaving` ──► parts deleted, a few MiB a step
        ──► files removed ──► free pages given back, as many as a step takes

Each step is one short transaction, so that whoever reads or archives meanwhile waits a moment only; a crash between two
steps leaves what the next one goes on with. What is listed as here has all its parts: the row goes first.

Concurrency: as `archive`; two that trim at once do the same work, one after the other.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Final, NamedTuple

from actors.archived import ArchiveRule
from runtime.storage.archive import ArchiveFile
from runtime.storage.folder import ARCHIVED_BLOBS_NAME

STEP_RUNS: Final = 256
"""Runs whose rows go in one step."""
STEP_PARTS: Final = 512
STEP_BYTES: Final = 4 << 20
"""Parts, and bytes of them, that are deleted in one step."""
STEP_PAGES: Final = 1024
"""Free pages that are given back in one step: the same 4 MiB, where a page has 4 KiB."""
STEP_FILES: Final = 64
"""Large values whose files are removed in one step."""


class Trimmed(NamedTuple):
    """What a step did, and whether there is more to do at once."""

    runs: int = 0
    parts: int = 0
    files: int = 0
    more: bool = False


class Trimmer:
    """Trims one archive.

    Args:
        archive: Opened to be written.
        folder: Path of the state folder.
        rule: How long runs stay.
    """

    def __init__(self, archive: ArchiveFile, folder: str, rule: ArchiveRule) -> None:
        self._archive = archive
        self._blobs = os.path.join(folder, ARCHIVED_BLOBS_NAME)
        self._rule = rule
        archive.obey(rule)

    def step(self, now_ns: int) -> Trimmed:
        """Do a little of what is to be done at this time (wall clock).

        Raises:
            DiskFull: There is no room for the journal. ArchiveUnusable, StateFolderError: SQLite refuses.
        """
        runs = self._let_go(now_ns)
        parts = self._delete_parts()
        files = self._remove_files()
        left = self._archive.give_back(STEP_PAGES)
        return Trimmed(runs, parts, files, bool(runs or parts or files or left))

    def due_ns(self) -> int | None:
        """When the next run goes because its time is over; None: none does."""
        return self._archive.due_ns(self._rule.bytes_max)

    def _let_go(self, now_ns: int) -> int:
        """Rows of runs whose time is over, and of the oldest where all take too much."""
        bytes_max = self._rule.bytes_max
        with self._archive.transaction() as database:
            due = database.execute(
                "SELECT no FROM run WHERE expires_ns <= ? ORDER BY expires_ns LIMIT ?", (now_ns, STEP_RUNS)
            )
            numbers = [no for (no,) in due]
            if bytes_max is not None and len(numbers) < STEP_RUNS:
                over = (database.execute("SELECT sum(bytes) FROM run").fetchone()[0] or 0) - bytes_max
                oldest = database.execute("SELECT no, bytes FROM run ORDER BY ended_ns, no LIMIT ?", (STEP_RUNS,))
                for no, size in oldest if over > 0 else ():
                    if over <= 0:
                        break
                    numbers.append(no)
                    over -= size
            return ArchiveFile.let_go(database, numbers)

    def _delete_parts(self) -> int:
        with self._archive.transaction() as database:
            budget, count = STEP_BYTES, 0
            for (no,) in database.execute("SELECT run FROM going LIMIT ?", (STEP_RUNS,)).fetchall():
                found = database.execute(
                    "SELECT rowid, length(body) FROM part WHERE run = ? LIMIT ?", (no, STEP_PARTS - count + 1)
                ).fetchall()
                taken = []
                for row_id, size in found[: STEP_PARTS - count]:
                    if budget <= 0:
                        break
                    taken.append((row_id,))
                    budget -= size
                database.executemany("DELETE FROM part WHERE rowid = ?", taken)
                count += len(taken)
                if len(taken) < len(found):
                    return count
                database.execute("DELETE FROM going WHERE run = ?", (no,))
            return count

    def _remove_files(self) -> int:
        """Files first, so that a crash leaves names to go on with."""
        with self._archive.transaction() as database:
            names = [name for (name,) in database.execute("SELECT name FROM leaving LIMIT ?", (STEP_FILES,))]
            for name in names:
                path = os.path.join(self._blobs, name)
                with suppress(OSError):
                    os.unlink(path)
                with suppress(OSError):
                    os.rmdir(os.path.dirname(path))
            database.executemany("DELETE FROM leaving WHERE name = ?", [(name,) for name in names])
            return len(names)
