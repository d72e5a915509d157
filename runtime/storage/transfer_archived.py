"""Runs of the archive, and on their way there, for an export: those asked for, or all with ids that memory has not."""

from __future__ import annotations

import io
import os
from collections.abc import Collection, Iterator, Sequence

from actors.archived import ArchivedRun
from actors.protocol.errors import ConfigurationError, StateFolderError, UnknownRun
from actors.run import Run
from actors.scheduler import Scheduler
from runtime.storage.past_runs import core_of, past_of, stands_for


class ArchivedRuns:
    """See the module. What is chosen is fixed when this is made.

    Args:
        path: The state folder.
        keys: Ids of runs, or of single tasks of a bundle; all where `everything`.
        known: Ids of runs that are exported already: of several runs of an id the latest counts.
        everything: Whether all are chosen.
    """

    def __init__(
        self, path: str | os.PathLike[str], keys: Sequence[str], known: Collection[str], *, everything: bool
    ) -> None:
        self._past = past_of(path)
        self.found: set[str] = set()
        """Those of the keys that are here."""
        chosen: dict[str, ArchivedRun] = {}
        for row in self._past.rows():
            asked = [key for key in keys if stands_for(row, key)]
            if row.run_id not in known and row.run_id not in chosen and (asked or everything):
                chosen[row.run_id] = row
                self.found.update(asked)
        self._rows = sorted(chosen.values(), key=lambda row: row.no)

    def __len__(self) -> int:
        return len(self._rows)

    def runs(self) -> Iterator[tuple[Scheduler, Run]]:
        """The runs, in order of submission, each with a scheduler that knows it.

        Raises:
            ArchiveUnusable: One is damaged. StateFolderError: One went meanwhile.
        """
        for row in self._rows:
            parts = self._past.parts(row)
            if not parts:
                raise StateFolderError(f"run {row.run_id!r} went from the archive meanwhile; export again")
            scheduler = core_of(row, parts).scheduler
            yield scheduler, scheduler.book.finished[row.no]


def not_in_memory(path: str | os.PathLike[str], key: str) -> UnknownRun:
    """The error for a run that memory does not have: it says so where the archive has it."""
    if past_of(path).scheduler_with(key) is None:
        return UnknownRun(f"no run {key!r} is known")
    found = UnknownRun(f"run {key!r} is in the archive only")
    return found.hinting("ask for the archive, too: export --archived, or export_runs(..., archived=True)")


def refuse_text(out: object) -> None:
    """Raise ConfigurationError when what an export is to be written to takes text and no bytes."""
    if isinstance(out, io.TextIOBase):
        raise ConfigurationError("export: out must be a binary file, such as open(name, 'wb') or io.BytesIO()")
