"""Events for asyncio: `async for event in rt.events(...)`. See `runtime.event_stream`, of which this is the other face.

The log is read in the loop's executor, one reading at a time; the loop itself only hears that there is more.

Concurrency: one task reads a stream; everything is called from the loop's thread.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncIterator
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Self

from actors.event_kinds import Event
from actors.protocol import limits
from actors.protocol.errors import MainspringError
from actors.protocol.event_errors import CursorTooOld, SubscriberTooSlow
from runtime.event_batches import Batching
from runtime.event_buffer import EventBuffer, EventKey, EventStatistics, WhenFull
from runtime.event_cursor import EventCursor
from runtime.event_reader import EventReader
from runtime.profile.ledger.kinds import SUBSCRIPTION
from runtime.profile.ledger.named import enter, leave
from runtime.profile.ledger.sites import user_place

if TYPE_CHECKING:
    from runtime.host.client import EngineClient


class AsyncEventStream:
    """See the module; arguments and methods as `runtime.event_stream.EventStream`."""

    def __init__(
        self,
        reader: EventReader,
        client: EngineClient,
        *,
        follow: bool = True,
        when_full: WhenFull = "block",
        holds: int = limits.EVENTS_HELD,
        key: EventKey = "node",
        cursor: EventCursor | None = None,
    ) -> None:
        self.closed = True
        self._cursor = cursor
        try:
            self._loop = asyncio.get_running_loop()
            self._buffer = EventBuffer(reader, when_full, holds, key)
        except BaseException:
            reader.close()
            raise
        self.closed = False
        self._reader = reader
        self._client = client
        self._follow = follow
        self._upto: int | None = None
        self._news = asyncio.Event()
        self._filling: asyncio.Future[bool] | None = None
        self._entry = 0 if cursor is not None else enter(SUBSCRIPTION, self, "events", user_place())
        self._token = object()
        client.horizon.watch(self._token, client.lock, partial(_tell, weakref.ref(self)))
        self._words = 0 if follow else client.horizon.refresh(client.lock)

    def hear(self) -> None:
        """There is news: said by whoever reads for the client."""
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._news.set)

    # --- reading --------------------------------------------------------------------------------------------------

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        event = await self.get()
        if event is None:
            raise StopAsyncIteration
        return event

    async def get(self, timeout: float | None = None) -> Event | None:
        """The next event; see `runtime.event_stream.EventStream.get`.

        Args:
            timeout: Seconds to wait; None waits as long as it takes.

        Returns:
            None: the time is over, or there will be none.
        """
        found = await self._take(1, None if timeout is None else self._loop.time() + timeout)
        return found[0] if found else None

    def batches(
        self, most: int = 1000, *, window: float = 0.0, by: EventKey | None = None, latest: bool = False
    ) -> AsyncIterator[list[Event]]:
        """Events by the batch; see `runtime.event_stream.EventStream.batches`.

        Args:
            most: Events in a batch at most.
            window: Seconds that a batch waits for more after its first event.
            by: Give out events of one key together.
            latest: Of each key only the last event of the batch.

        Returns:
            An iterator that ends as the stream does.
        """
        return self._batches(Batching(most, window, by, latest))

    async def _batches(self, batching: Batching) -> AsyncIterator[list[Event]]:
        while events := await self._take(batching.most, None):
            until = self._loop.time() + batching.window
            while batching.window and len(events) < batching.most:
                more = await self._take(batching.most - len(events), until)
                if not more:
                    break
                events += more
            for group in batching.groups(events):
                yield group

    async def _take(self, most: int, deadline: float | None) -> list[Event]:
        """Some events; none: the time is over, or it has ended."""
        horizon = self._client.horizon
        while not self.closed:
            self._news.clear()
            ended = horizon.closed
            waits_for_word = not ended and (not horizon.lsn if self._follow else horizon.words <= self._words)
            if not waits_for_word:
                if self._upto is None and not self._follow:
                    self._upto = horizon.lsn
                if await self._fill(None if ended else horizon.lsn if self._follow else self._upto):
                    return self._given(most)
                if ended or not self._follow:
                    return []
            left = None if deadline is None else deadline - self._loop.time()
            if left is not None and left <= 0:
                return []
            with suppress(TimeoutError):
                await asyncio.wait_for(self._news.wait(), left)
        return []

    def _given(self, most: int) -> list[Event]:
        """Give out what is held."""
        if self._cursor is None:
            return self._buffer.take(most)
        events = self._buffer.take(self._cursor.room(most))
        self._cursor.given(events)
        return events

    def _read_on(self, upto: int | None) -> bool:
        """In the executor: read, and write the cursor of a subscription where there is time for it."""
        cursor = self._cursor
        while True:
            try:
                found = self._buffer.fill(upto)
            except CursorTooOld as gone:
                if cursor is None:
                    raise
                cursor.skip(gone)
                continue
            if not found and cursor is not None:
                cursor.pause(self._buffer.held)
            return found

    async def _fill(self, upto: int | None) -> bool:
        """Read on in the executor, where a task that was cancelled left off."""
        if self._buffer.held and self._filling is None and self._buffer.is_patient:
            return True
        if self._filling is None:
            self._filling = self._loop.run_in_executor(None, self._read_on, upto)
        filling = self._filling
        try:
            return await asyncio.shield(filling)
        except SubscriberTooSlow:
            self.close()
            raise
        except MainspringError:
            if self.closed:  # its files were closed meanwhile
                return False
            raise
        finally:
            if filling.done():
                self._filling = None

    # --- the end --------------------------------------------------------------------------------------------------

    def statistics(self) -> EventStatistics:
        """What it read, gave out and dropped, and where it is."""
        cursor = self._cursor
        if cursor is None:
            return self._buffer.statistics()
        return self._buffer.statistics(cursor.unacknowledged, cursor.dead)

    def close(self) -> None:
        """End it; who waits in it is woken. Again is harmless."""
        if self.closed:
            return
        self.closed = True
        self._client.horizon.leave(self._token, self._client.lock)
        self._news.set()
        filling = self._filling
        if filling is None or filling.done():
            self._release()
        else:
            filling.add_done_callback(self._filled_late)

    def _filled_late(self, filling: asyncio.Future[bool]) -> None:
        self._release()
        if not filling.cancelled():
            filling.exception()

    def _release(self) -> None:
        self._entry = leave(self._entry)
        self._reader.close()
        if self._cursor is not None:
            self._cursor.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if not self.closed:
            self._reader.close()
            if self._cursor is not None:
                self._cursor.file.close()
            self._client.reader.later(partial(self._client.horizon.leave, self._token, self._client.lock))


def _tell(stream: weakref.ref[AsyncEventStream]) -> None:
    """News for a stream, if anybody still holds it."""
    found = stream()
    if found is not None:
        found.hear()
