"""`rt.query`: history in SQL, for blocking callers; see `runtime.sql`.

A part of `Runtime`, in a file of its own. What it takes is loaded when it is asked for first: most programs do not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from actors.protocol.errors import RuntimeClosed
from runtime.host.horizon import FIRST_WORD_S, Horizon
from runtime.sql.budget import ROWS_MAX, TIMEOUT_S, Budget

if TYPE_CHECKING:
    from runtime.config import RuntimeConfig
    from runtime.host.client import EngineClient
    from runtime.sql.folder import FolderQueries
    from runtime.sql.rows import QueryRows

LOOK_S: Final = 0.1
"""Between two looks whether the runtime was closed meanwhile."""


class QueryCalls:
    """See the module."""

    _client: EngineClient
    config: RuntimeConfig

    def query(
        self,
        sql: str,
        params: Sequence[Any] | Mapping[str, Any] = (),
        *,
        at: int | datetime | None = None,
        timeout: float | None = TIMEOUT_S,
        rows_max: int = ROWS_MAX,
    ) -> QueryRows:
        """Ask what is and was, in SQL, over the views `runs` and `tasks`; on one consistent state, at one LSN.

        The state is read from checkpoint and log in this process, where it stays in memory: the engine and its writing
        wait for nothing. A second query reads what the log has new since the first.

        Args:
            sql: One SELECT, as SQLite understands it.
            params: What its parameters stand for: a list for `?`, a mapping for `:name`.
            at: As of which moment: an LSN, or a time with a time zone; None is now: all that is durable.
            timeout: Seconds for all of it; None takes as long as it takes.
            rows_max: Rows at most.

        Returns:
            A sequence of rows, `lsn` of which says at which record; each is a tuple whose values have names.

        Raises:
            BadQuery: SQLite does not understand it. QueryRefused: it does something else than reading.
            QueryTooLong, QueryTooLarge: it takes too long, or has too many rows.
            UnknownMoment: the log does not reach there. RuntimeClosed: the runtime is closed.
            ConfigurationError: an argument is out of range, or the package `apsw` is missing.
            StateFolderError, LogCorrupt, CheckpointUnusable, ArchiveUnusable: the folder cannot be read.
        """
        from runtime.sql.folder import SqlQuery  # lazy: see the module

        client = self._client
        asked = SqlQuery(sql, params, at, timeout, rows_max)
        refuse_closed(client)
        return queries_of(self).answer(asked, lambda: _durable_lsn(client, asked.budget))


def queries_of(runtime: Any) -> FolderQueries:
    """What a runtime has read for its queries."""
    from runtime.sql.folder import FolderQueries  # lazy: see the module

    found: FolderQueries | None = runtime.__dict__.get("_queries")
    if found is None:
        archives = runtime.config.archive_rule is not None
        found = runtime.__dict__.setdefault("_queries", FolderQueries(runtime.config.state_dir, archives=archives))
    return found


def refuse_closed(client: EngineClient) -> None:
    """Raise RuntimeClosed when nobody has the runtime open."""
    if client.closed or client.closing:
        raise RuntimeClosed("the runtime is closed")


def is_told(client: EngineClient, words: int) -> bool:
    """Whether the engine said how far the log is written since `words` was asked, or will not say."""
    horizon = client.horizon
    return horizon.words > words or horizon.closed or client.closed or client.refusal is not None


def readable_lsn(client: EngineClient) -> int | None:
    """How far the log may be read; None: as far as it is written, because nobody writes it any more."""
    horizon: Horizon = client.horizon
    if horizon.closed or client.closed or client.refusal is not None:
        return None
    return horizon.lsn or None


def _durable_lsn(client: EngineClient, budget: Budget) -> int | None:
    """How far the log is written by now."""
    horizon, token, waited = client.horizon, object(), Budget(FIRST_WORD_S)
    horizon.watch(token, client.lock)
    try:
        words = horizon.refresh(client.lock)
        while not is_told(client, words) and not waited.over():
            budget.check()
            horizon.wait(1 << 62, LOOK_S, lambda: is_told(client, words))
    finally:
        horizon.leave(token, client.lock)
    return readable_lsn(client)
