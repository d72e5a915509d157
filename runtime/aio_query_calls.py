"""`rt.query` of `AsyncRuntime`; see `runtime.query_calls`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any

from runtime.host.horizon import FIRST_WORD_S
from runtime.query_calls import LOOK_S, is_told, queries_of, readable_lsn, refuse_closed
from runtime.sql.budget import ROWS_MAX, TIMEOUT_S, Budget

if TYPE_CHECKING:
    from runtime.config import RuntimeConfig
    from runtime.host.client import EngineClient
    from runtime.sql.rows import QueryRows


class AsyncQueryCalls:
    """See the module."""

    _client: EngineClient
    config: RuntimeConfig

    async def query(
        self,
        sql: str,
        params: Sequence[Any] | Mapping[str, Any] = (),
        *,
        at: int | datetime | None = None,
        timeout: float | None = TIMEOUT_S,
        rows_max: int = ROWS_MAX,
    ) -> QueryRows:
        """Ask what is and was, in SQL; see `runtime.query_calls.QueryCalls.query`. Done in the loop's executor.

        Args:
            sql: One SELECT over the views `runs` and `tasks`.
            params: What its parameters stand for.
            at: As of which moment.
            timeout: Seconds for all of it.
            rows_max: Rows at most.

        Returns:
            The rows, with the LSN of which they speak. Who is cancelled while it runs ends it.

        Raises:
            BadQuery, QueryRefused, QueryTooLong, QueryTooLarge, UnknownMoment, RuntimeClosed, ...: As there.
        """
        from runtime.sql.folder import SqlQuery  # lazy: few programs ask

        client = self._client
        asked = SqlQuery(sql, params, at, timeout, rows_max)
        refuse_closed(client)
        upto_lsn = await _durable_lsn(client, asked.budget)
        queries = queries_of(self)
        try:
            return await asyncio.get_running_loop().run_in_executor(
                None, lambda: queries.answer(asked, lambda: upto_lsn)
            )
        finally:
            asked.budget.stop()


async def _durable_lsn(client: EngineClient, budget: Budget) -> int | None:
    """How far the log is written by now."""
    loop, news, token, waited = asyncio.get_running_loop(), asyncio.Event(), object(), Budget(FIRST_WORD_S)

    def hear() -> None:
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(news.set)

    client.horizon.watch(token, client.lock, hear)
    try:
        words = client.horizon.refresh(client.lock)
        while not is_told(client, words) and not waited.over():
            budget.check()
            news.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(news.wait(), LOOK_S)
    finally:
        client.horizon.leave(token, client.lock)
    return readable_lsn(client)
