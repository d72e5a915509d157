"""Runs of the engine and of the past as one list, for asyncio; see `runtime.past`.

The archive is read in the executor. A wait that is cancelled leaves it to be awaited again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from runtime import views
from runtime.aio_handle import answer_of
from runtime.past import Merged, Past
from runtime.views import RunStatus

if TYPE_CHECKING:
    from runtime.host.client import EngineClient


class RunPages:
    """Pages for `Pages`, whose cursor only says whether there is more.

    Args:
        client: Of the engine.
        past: Of the folder; None: the engine's runs alone.
    """

    def __init__(self, client: EngineClient, past: Past | None) -> None:
        self._client = client
        self._older: Iterator[list[RunStatus]] = iter(()) if past is None else past.pages()
        self._merged = Merged()
        self._cursor: Any = None
        self._reading: asyncio.Future[list[RunStatus] | None] | None = None

    async def page(self, _: Any) -> tuple[list[RunStatus], Any]:
        """The next page, which may be empty, and None at the end."""
        merged = self._merged
        if "recent" in merged.wanted:
            reply = await answer_of(self._client, self._client.ask(*views.ask_runs(self._cursor)))
            self._cursor = reply.get("next")
            merged.feed_recent(views.read_runs(reply), more=self._cursor is not None)
        if "older" in merged.wanted:
            if self._reading is None:
                self._reading = asyncio.get_running_loop().run_in_executor(None, next, self._older, None)
            page = await asyncio.shield(self._reading)
            self._reading = None
            merged.feed_older(page)
        return merged.take(), None if merged.over else True
