"""Queries of a state folder, one after the other: each goes on where the one before had read the log to.

    query("state/", "SELECT state, count(*) FROM runs GROUP BY state")       beside a running engine, or without

Concurrency: any thread; one query at a time, the others wait for their turn within their time. Nothing is asked of the
engine, and nothing is locked that it needs.
Known limits: the state is in the memory of whoever asks, from the first query on.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, nullcontext, suppress
from datetime import datetime
from typing import Any, Final

from actors.protocol.errors import ConfigurationError, StateFolderError
from actors.protocol.query_errors import BadQuery
from runtime.checks import is_number, is_whole, refuse
from runtime.sql.archive_source import Archive, ArchiveMoved, ArchiveSource, GoneSource
from runtime.sql.budget import ROWS_MAX, TIMEOUT_S, Budget
from runtime.sql.rows import QueryRows
from runtime.sql.snapshot import FolderState, Snapshot
from runtime.sql.sources import RunSource
from runtime.storage.archive import ArchiveFile
from runtime.storage.folder import StateFolder
from runtime.storage.moments import NOW, Moment, moment_of

MOVED_TRIES_MAX: Final = 5
Params = Sequence[Any] | Mapping[str, Any]


class SqlQuery:
    """A query as it is asked for, checked. Its time begins here.

    Args:
        sql: One SELECT over the views.
        params: What its parameters stand for: a list for `?`, a mapping for `:name`.
        at: As of which moment: an LSN, a time with a time zone, "begin", or a `Moment`; None: now.
        timeout: Seconds for all of it; None: as long as it takes.
        rows_max: Rows at most.

    Raises:
        ConfigurationError: What it may take cannot be. BadQuery: it is no text, or its parameters are none.
    """

    def __init__(
        self, sql: str, params: Params, at: int | datetime | Moment | None, timeout: float | None, rows_max: int
    ) -> None:
        self.moment = moment_of(at, "query: at")
        refuse(
            "query",
            (timeout is None or is_number(timeout, 0, above=True), "timeout must be above 0 seconds, or None"),
            (is_whole(rows_max), f"rows_max must be a whole number from 1 on, not {rows_max!r:.60}"),
        )
        if not isinstance(sql, str):
            raise BadQuery(f"a statement is text, not {type(sql).__name__}")
        if isinstance(params, str | bytes) or not isinstance(params, Sequence | Mapping):
            raise BadQuery("parameters are a list or a mapping, one value for each ? or :name")
        self.sql = sql
        self.params = params
        self.rows_max = rows_max
        self.budget = Budget(timeout)


class FolderQueries:
    """See the module.

    Args:
        state_dir: The state folder.
        archive_of: Opens the archive of a state folder; None: it has none.
        archives: Whether what is let go of will be archived, also where there is no archive yet.
    """

    def __init__(
        self,
        state_dir: str | os.PathLike[str],
        archive_of: Callable[[str | os.PathLike[str]], Archive | None] | None = None,
        *,
        archives: bool = False,
    ) -> None:
        self._state_dir = state_dir
        self._archive_of = archive_of or open_archive
        self._archives = archives
        self._state = FolderState(state_dir)
        self._turn = threading.Lock()

    def answer(self, asked: SqlQuery, readable: Callable[[], int | None] = lambda: None) -> QueryRows:
        """Run a query.

        Args:
            asked: The query.
            readable: Gives the last record (LSN) that may be read; None: all that is written.

        Returns:
            The rows, with the LSN of which they speak.

        Raises:
            QueryTooLong: It took too long. ConfigurationError: the package `apsw` is missing. Otherwise as `query`.
        """
        run_statement = _runner()
        left = asked.budget.left()
        if not self._turn.acquire(timeout=-1 if left is None else left):
            asked.budget.check()
        try:
            upto_lsn = readable()
            for _ in range(MOVED_TRIES_MAX):
                with suppress(ArchiveMoved):
                    return self._answer(asked, upto_lsn, run_statement)
            raise StateFolderError("runs go from the archive faster than they can be read; ask again")
        finally:
            self._turn.release()

    def _answer(self, asked: SqlQuery, upto_lsn: int | None, run_statement: Callable[..., QueryRows]) -> QueryRows:
        """Run a query once. Raises ArchiveMoved: it saw two states of the archive."""
        budget = asked.budget
        archive = self._archive_of(self._state_dir)
        with nullcontext() if archive is None else closing(archive):
            archived_lsn = (0 if self._archives else None) if archive is None else archive.lsn
            if asked.moment == NOW:
                snapshot = self._state.now(upto_lsn, budget, archived_lsn)
            else:
                snapshot = self._state.then(asked.moment, upto_lsn, budget, archived_lsn)
            more = (GoneSource(snapshot.gone),) if archive is None else sources_of(snapshot, archive)
            return run_statement(snapshot, asked.sql, asked.params, asked.rows_max, budget, more)


def sources_of(snapshot: Snapshot, archive: Archive) -> tuple[RunSource, ...]:
    """Where runs are that memory let go of."""
    gone = {no: run for no, run in snapshot.gone.items() if run.lsn > archive.lsn}
    return GoneSource(gone, archive.forgotten()), ArchiveSource(archive, snapshot.scheduler.book.next_run_no)


def open_archive(state_dir: str | os.PathLike[str]) -> Archive | None:
    """The archive of a state folder, to be closed; None: it has none. Raises ArchiveUnusable, StateFolderError."""
    with StateFolder.open(state_dir, create=False, owner=False) as folder:
        return ArchiveFile.read(folder.path, folder.uuid)


def query(
    state_dir: str | os.PathLike[str],
    sql: str,
    params: Params = (),
    *,
    at: int | datetime | None = None,
    timeout: float | None = TIMEOUT_S,
    rows_max: int = ROWS_MAX,
) -> QueryRows:
    """Ask a state folder in SQL, with or without a running engine; reads all of it each time.

    Args:
        state_dir: The state folder.
        sql: One SELECT over the views `runs` and `tasks`.
        params: What its parameters stand for: a list for `?`, a mapping for `:name`.
        at: As of which moment: an LSN, or a time with a time zone; None is now: all that is written.
        timeout: Seconds; None takes as long as it takes.
        rows_max: Rows at most.

    Returns:
        The rows, with the LSN of which they speak.

    Raises:
        BadQuery: SQLite does not understand it. QueryRefused: it does something else than reading.
        QueryTooLong, QueryTooLarge: It takes too long, or has too many rows. UnknownMoment: the log does not reach
        there. ConfigurationError: an argument is out of range, or the package `apsw` is missing.
        StateFolderError, NotAStateFolder, NewerFormat, LogCorrupt, CheckpointUnusable, ArchiveUnusable: it cannot be
        read.
    """
    return FolderQueries(state_dir).answer(SqlQuery(sql, params, at, timeout, rows_max))


def _runner() -> Callable[..., QueryRows]:
    """What runs statements, which takes a package that few programs need."""
    try:
        from runtime.sql.statement import run_statement  # lazy: loads SQLite's virtual tables
    except ImportError as missing:
        if (missing.name or "").partition(".")[0] != "apsw":
            raise
        raise ConfigurationError(f"queries need the package apsw, which cannot be loaded: {missing}") from missing
    return run_statement
