"""Runs one statement over the views, and nothing else: it reads, for so long, and so much.

SQLite's authorizer is asked while a statement is prepared; all that is not reading, a function or a recursion is
refused. The database is in memory and empty, so there is nothing that a statement could reach but the views.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import apsw

from actors.protocol import limits
from actors.protocol.query_errors import BadQuery, QueryRefused, QueryTooLarge
from runtime.sql.budget import Budget
from runtime.sql.rows import QueryRows
from runtime.sql.snapshot import Snapshot
from runtime.sql.sources import AllSources, RunSource, StateSource
from runtime.sql.views import RunsView, TasksView

STEPS: Final = 1000
"""Of SQLite's machine between two looks at the time: some 10 us."""
VALUE_BYTES_MAX: Final = 64 * limits.MIB
_ALLOWED: Final = frozenset(
    {apsw.SQLITE_SELECT, apsw.SQLITE_READ, apsw.SQLITE_FUNCTION, apsw.SQLITE_RECURSIVE}
)  # fmt: skip
_UNWRITABLE: Final = re.compile(r"may not be (modified|altered)")
_FUNCTIONS_REFUSED: Final = frozenset({"load_extension"})


def run_statement(
    snapshot: Snapshot,
    sql: str,
    params: Sequence[Any] | Mapping[str, Any],
    rows_max: int,
    budget: Budget,
    more: Sequence[RunSource] = (),
) -> QueryRows:
    """Run a statement.

    Args:
        snapshot: What is known.
        sql: One SELECT.
        params: What its parameters stand for.
        rows_max: Rows at most.
        budget: How long it may take.
        more: Further sources of runs, behind what the snapshot has.

    Raises:
        BadQuery: SQLite does not understand it. QueryRefused: it does something else than reading.
        QueryTooLong, QueryTooLarge: As they say.
    """
    connection = apsw.Connection(":memory:")
    try:
        statement = _Statement(connection, AllSources([StateSource(snapshot.scheduler), *more]), budget)
        columns, rows = statement.run(sql, params, rows_max)
    finally:
        connection.close(True)
    return QueryRows(columns, rows, snapshot.lsn, snapshot.at_ns)


class _Statement:
    """One statement on its own connection."""

    def __init__(self, connection: apsw.Connection, sources: AllSources, budget: Budget) -> None:
        self._connection = connection
        self._budget = budget
        self._refused = ""
        self._columns: list[str] | None = None
        views: dict[str, Any] = {"runs": RunsView(sources, budget), "tasks": TasksView(sources, budget)}
        for name, view in views.items():
            connection.create_module(
                name, view, use_bestindex_object=True, eponymous=True, eponymous_only=True, read_only=True
            )
        connection.limit(apsw.SQLITE_LIMIT_LENGTH, VALUE_BYTES_MAX)
        connection.limit(apsw.SQLITE_LIMIT_ATTACHED, 0)
        connection.set_authorizer(self._allow)
        connection.set_progress_handler(budget.over, STEPS)
        connection.set_exec_trace(self._begins)

    def run(
        self, sql: str, params: Sequence[Any] | Mapping[str, Any], rows_max: int
    ) -> tuple[list[str], list[Sequence[Any]]]:
        """Columns and rows."""
        rows: list[Sequence[Any]] = []
        try:
            for row in self._connection.execute(sql, params):
                if len(rows) >= rows_max:
                    raise QueryTooLarge(f"the query has more than {rows_max:,} rows")
                rows.append(row)
        except apsw.InterruptError:
            self._budget.check()
            raise
        except apsw.TooBigError as error:
            raise QueryTooLarge(f"a value would have more than {VALUE_BYTES_MAX:,} bytes") from error
        except apsw.Error as error:
            if self._refused:
                raise QueryRefused(f"a query does not {self._refused}") from error
            if _UNWRITABLE.search(_words(error)):
                raise QueryRefused(f"a query only reads: {_words(error)}") from error
            raise BadQuery(_words(error), getattr(error, "error_offset", -1)) from error
        except (TypeError, ValueError, OverflowError, KeyError) as error:
            if self._columns is not None:  # it runs: that is no mistake of the caller's
                raise
            raise BadQuery(f"text or a parameter cannot be given to SQLite: {error!r}") from error
        if self._columns is None:
            raise BadQuery("there is no statement")
        return self._columns, rows

    def _allow(self, action: int, one: str | None, two: str | None, *_: str | None) -> int:
        """Whether a statement may do this."""
        if action == apsw.SQLITE_FUNCTION and (two or "").lower() in _FUNCTIONS_REFUSED:
            self._refused = f"call {two}()"
        elif action not in _ALLOWED:
            name = str(apsw.mapping_authorizer_function[action]).removeprefix("SQLITE_").replace("_", " ")
            self._refused = f"{name} {one}" if one else name
        else:
            return apsw.SQLITE_OK
        return apsw.SQLITE_DENY

    def _begins(self, cursor: apsw.Cursor, sql: str, _: Any) -> bool:
        """A statement is about to run."""
        if not sql.strip():
            return True
        if self._columns is not None:
            raise QueryRefused("a query is one statement")
        self._columns = [column[0] for column in cursor.get_description()]
        if not self._columns:
            raise QueryRefused("the statement gives no rows")
        return True


def _words(error: apsw.Error) -> str:
    """What SQLite says."""
    return str(error) or type(error).__name__
