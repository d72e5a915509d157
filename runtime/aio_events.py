"""Events for asyncio: `async for event in rt.events(...)`. See `runtime.event_stream`, of which this is the other face.

The log is read in the loop's executor, one reading at a time; the loop itself only hears that there is more.

Concurrency: one task reads a stream; everything is called from the loop's thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Self

from actors.event_kinds import Event
from actors.protocol.errors import MainspringError, SubscriberTooSlow
from runtime.aio_handle import AsyncHandle
from runtime.event_batches import Batching
from runtime.event_buffer import HOLDS, EventBuffer, EventKey, EventStatistics, WhenFull
from runtime.event_filter import Since, filter_of
from runtime.event_reader import EventReader

if TYPE_CHECKING:
    from runtime.config import RuntimeConfig
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
        holds: int = HOLDS,
        key: EventKey = "node",
    ) -> None:
        self.closed = True
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
        self._token = object()
        client.horizon.watch(self._token, client.lock, self._hear)
        self._words = 0 if follow else client.horizon.refresh(client.lock)

    def _hear(self) -> None:
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
                    return self._buffer.take(most)
                if ended or not self._follow:
                    return []
            left = None if deadline is None else deadline - self._loop.time()
            if left is not None and left <= 0:
                return []
            with suppress(TimeoutError):
                await asyncio.wait_for(self._news.wait(), left)
        return []

    async def _fill(self, upto: int | None) -> bool:
        """Read on in the executor, where a task that was cancelled left off."""
        if self._buffer.held and self._filling is None and self._buffer.is_patient:
            return True
        if self._filling is None:
            self._filling = self._loop.run_in_executor(None, self._buffer.fill, upto)
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
        return self._buffer.statistics()

    def close(self) -> None:
        """End it; who waits in it is woken. Again is harmless."""
        if self.closed:
            return
        self.closed = True
        self._client.horizon.leave(self._token, self._client.lock)
        self._news.set()
        filling = self._filling
        if filling is None or filling.done():
            self._reader.close()
        else:
            filling.add_done_callback(self._filled_late)

    def _filled_late(self, filling: asyncio.Future[bool]) -> None:
        self._reader.close()
        if not filling.cancelled():
            filling.exception()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if not self.closed:
            self.close()


class AsyncEventCalls:
    """`rt.events` of `AsyncRuntime`."""

    _client: EngineClient
    config: RuntimeConfig

    def events(
        self,
        kinds: str | Iterable[str] | None = None,
        *,
        run: AsyncHandle | str | Iterable[AsyncHandle | str] | None = None,
        name: str | Iterable[str] | None = None,
        since: Since = "now",
        follow: bool = True,
        when_full: WhenFull = "block",
        holds: int = HOLDS,
        key: EventKey = "node",
    ) -> AsyncEventStream:
        """What happens, or happened; see `runtime.event_calls.EventCalls.events`.

        Args:
            kinds: Kinds or patterns of them; None for all.
            run: Handles, run ids or patterns of ids; None for all.
            name: Names or patterns of tasks, flows and schedules; None for all.
            since: An LSN, a moment, "begin" or "now".
            follow: Wait for what comes; else it ends with what is durable by now.
            when_full: "block", "drop_oldest", "latest" or "disconnect".
            holds: Events that wait at most.
            key: Of what "latest" keeps one.

        Returns:
            An asynchronous iterator of events, to be closed.
        """
        wanted = filter_of(kinds, run, name)
        client = self._client
        reader = EventReader(self.config.state_dir, wanted, since)
        return AsyncEventStream(reader, client, follow=follow, when_full=when_full, holds=holds, key=key)
