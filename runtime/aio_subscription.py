"""Durable subscriptions for asyncio: `runtime.subscription`, awaited."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from actors.event_kinds import Event
from actors.protocol import limits
from runtime.aio_events import AsyncEventStream
from runtime.event_buffer import EventKey, WhenFull
from runtime.event_cursor import EventCursor
from runtime.host.client import EngineClient
from runtime.subscription import ATTEMPTS, PAUSE_S, PAUSE_S_MAX, check_run


class AsyncSubscription(AsyncEventStream):
    """An `AsyncEventStream` with a cursor that is kept; see `runtime.subscription.Subscription`."""

    def __init__(
        self,
        cursor: EventCursor,
        client: EngineClient,
        *,
        follow: bool = True,
        when_full: WhenFull = "block",
        holds: int = limits.EVENTS_HELD,
        key: EventKey = "node",
    ) -> None:
        try:
            super().__init__(
                cursor.reader, client, follow=follow, when_full=when_full, holds=holds, key=key, cursor=cursor
            )
        except BaseException:
            cursor.close()
            raise
        self._kept = cursor

    @property
    def lost(self) -> list[tuple[int, int]]:
        """LSNs, from and to, that were removed from the log before they were read."""
        return list(self._kept.lost)

    async def ack(self, upto: Event | int) -> None:
        """This event, and all that were given out before it, are dealt with: they are not delivered again.

        Args:
            upto: The event; or an LSN, for all events of its record, too.

        Raises:
            CallerError: The event was not given out.
        """
        if self._kept.acknowledge(upto):
            await self._loop.run_in_executor(None, self._kept.save)

    def dead(self) -> Iterator[dict[str, Any]]:
        """The events that `run` gave up, oldest first, with `error` and `attempts`."""
        return self._kept.file.dead()

    async def run(
        self, callback: Callable[[Event], Awaitable[object]], *, attempts: int = ATTEMPTS, pause: float = PAUSE_S
    ) -> None:
        """Await a function for each event, and acknowledge it; until the subscription or its runtime is closed.

        Args:
            callback: Called for one event at a time, in order. What it raises means: try again.
            attempts: Calls for one event; then it is a dead letter, and the next one has its turn.
            pause: Seconds before the second call; each further pause is twice as long, up to 30.

        Raises:
            ConfigurationError: It cannot be.
        """
        check_run(callback, attempts, pause)
        async for event in self:
            for attempt in range(1, attempts + 1):
                try:
                    await callback(event)
                    break
                except Exception as error:
                    if attempt == attempts:
                        while not self._kept.give_up(event, error, attempts):
                            await asyncio.sleep(PAUSE_S)
                            if self.closed:
                                return
                        break
                await asyncio.sleep(min(PAUSE_S_MAX, pause * 2 ** (attempt - 1)))
                if self.closed:
                    return
            if self._kept.acknowledge(event):
                await self._loop.run_in_executor(None, self._kept.save_with_room)
