"""Runs that the engine's memory let go of, for the views: those that the archive has, and those on their way there.

    released in the log ──► GoneSource (until a checkpoint has put them into the archive) ──► ArchiveSource

A row of the archive says what is listed most; a run is read whole when more is asked for. What was submitted after the
moment that is looked at is left out. Of a run that is trimmed between the reading of its row and of the rest nothing
consistent can be said: `ArchiveMoved`, and the query is begun anew.

Known limits: a listing of all runs reads all rows of the archive.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple, Protocol

from actors.archived import ArchivedRun
from actors.replay import Replay
from actors.run import Run
from actors.saved import SavedPart
from actors.saved_run import load_run
from actors.scheduler import Scheduler
from runtime.sql.columns import iso
from runtime.sql.seen import COUNTED
from runtime.sql.sources import NOTHING_KNOWN, Sizes, StoredRun

_PLAIN: Final = ("name", "form", "state", "session", "succeeded", "failed", "cancelled", "skipped")
"""What a row of the archive and one of `runs` call by the same name."""


class ArchiveMoved(Exception):
    """A run went from the archive while it was looked at."""


class Archive(Protocol):
    """An opened archive: what `runtime.storage` gives to read one."""

    lsn: int

    def summaries(
        self, run_id: str | None = None, state: str | None = None, before_no: int | None = None
    ) -> Iterator[ArchivedRun]:
        """Rows, latest run first; all, or those of one id, of one state, with numbers below."""

    def find(self, key: str) -> ArchivedRun | None:
        """The row of a run, also by one task of a bundle; None: there is none."""

    def run(self, no: int) -> Iterable[SavedPart]:
        """All parts of a run; none: it is not there."""

    def totals(self) -> tuple[int, int, int]:
        """Runs, nodes, bytes."""

    def forgotten(self) -> set[int]:
        """Runs that were deleted before they came."""

    def close(self) -> None:
        """Let go of it."""


class GoneRun(NamedTuple):
    """A run that a record let go of."""

    lsn: int
    run: Run
    ended_ns: int | None


class GoneSource:
    """Runs that were let go of, and are not in the archive yet.

    Args:
        gone: They, by number.
        forgotten: Numbers of those that were deleted by hand, and will not come there.
    """

    def __init__(self, gone: Mapping[int, GoneRun], forgotten: Iterable[int] = ()) -> None:
        hidden = frozenset(forgotten)
        self._gone = {no: gone[no] for no in sorted(gone) if no not in hidden}

    def numbers(self) -> Iterable[int]:
        """See `RunSource`."""
        return self._gone

    def numbers_of(self, run_id: str) -> Iterable[int]:
        """See `RunSource`."""
        session = run_id.rpartition("-")[0]
        return [no for no, gone in self._gone.items() if run_id == gone.run.key or session == gone.run.session]

    def get(self, no: int) -> StoredRun | None:
        """See `RunSource`."""
        gone = self._gone.get(no)
        return None if gone is None else StoredRun(no, gone.ended_ns, lambda: gone.run, archived=True)

    def sizes(self) -> Sizes:
        """See `RunSource`."""
        return Sizes(len(self._gone), sum(gone.run.size for gone in self._gone.values()))


class ArchiveSource:
    """The runs of an archive.

    Args:
        archive: Opened; closed by its owner.
        below_no: Runs with this number, or a greater one, were submitted later.
    """

    def __init__(self, archive: Archive, below_no: int) -> None:
        self._archive = archive
        self._below_no = below_no
        self._rows: dict[int, ArchivedRun] = {}
        self._listed: list[int] | None = None
        self._reading = Replay(Scheduler([]))

    def numbers(self) -> Iterable[int]:
        """See `RunSource`."""
        if self._listed is None:
            rows = {row.no: row for row in self._archive.summaries(before_no=self._below_no)}
            self._rows |= rows
            self._listed = sorted(rows)
        return self._listed

    def numbers_of(self, run_id: str) -> Iterable[int]:
        """See `RunSource`."""
        found = list(self._archive.summaries(run_id=run_id))
        if not found and (row := self._archive.find(run_id)) is not None:
            found.append(row)
        rows = {row.no: row for row in found if row.no < self._below_no}
        self._rows |= rows
        return sorted(rows)

    def get(self, no: int) -> StoredRun | None:
        """See `RunSource`."""
        if no not in self._rows and self._listed is None and no < self._below_no:
            row = next(self._archive.summaries(before_no=no + 1), None)
            if row is not None and row.no == no:
                self._rows[no] = row
        row = self._rows.get(no)
        if row is None:
            return None
        return StoredRun(no, row.ended_ns, lambda: self._run(no), said_of(row), archived=True)

    def sizes(self) -> Sizes:
        """See `RunSource`."""
        runs, nodes, _ = self._archive.totals()
        return Sizes(runs, nodes)

    def _run(self, no: int) -> Run:
        parts = list(self._archive.run(no))
        if not parts:
            raise ArchiveMoved
        reading = self._reading
        return load_run(reading.scheduler, (part[1:] for part in parts), reading.accept_node_types)


def said_of(row: ArchivedRun) -> Mapping[str, Any]:
    """What `runs` says of a run, as far as its row in the archive tells that.

    A row that covers one submission may be of a single task that added others: then its state is not that of all.
    """
    if row.covers > 1 or (row.nodes > 1 and row.form not in ("flow", "map")):
        return NOTHING_KNOWN
    said = {name: getattr(row, name) for name in _PLAIN}
    times = {"submitted": row.submitted_ns, "started": row.started_ns, "ended": row.ended_ns}
    for name, wall_ns in times.items():
        said[f"{name}_ns"], said[f"{name}_at"] = wall_ns, iso(wall_ns)
    said.update((name, 0) for name in COUNTED if name not in said)
    said |= {"run_no": row.no, "run_id": row.run_id, "duration_ns": row.ended_ns - row.submitted_ns}
    return said | {"tasks": row.nodes, "archived": 1}
