"""What is iterated with `async for`: results of a map, handles as they end, and lists that come page by page.

A wait that is cancelled leaves all of it as it is, as with a handle: `asyncio.wait_for(anext(results), 1.0)` may be too
late and be called again, and nothing is lost. An asynchronous generator alone would have ended with its wait, and say
from then on that there is nothing more.

Concurrency: the thread of the loop, except finalisers, which take no locks.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from actors.protocol.errors import QueueFull
from runtime.aio_handle import AsyncHandle, settled
from runtime.items import BlobNeeded
from runtime.mapping import Mapping

if TYPE_CHECKING:
    from runtime.host.reader import Reader

A = TypeVar("A", bound=AsyncHandle)
T = TypeVar("T")
R_co = TypeVar("R_co", covariant=True)


class AsyncMapIterator(Generic[R_co]):
    """Results of a `map`. Leaving the loop with `aclose`, as a context manager, or by dropping it cancels the rest."""

    def __init__(self, mapping: Mapping) -> None:
        self._feed = _Feed(mapping)
        self._items: AsyncGenerator[R_co, None] = _items(self._feed)

    def __aiter__(self) -> AsyncIterator[R_co]:
        return self._going_on()

    async def __anext__(self) -> R_co:
        return await anext(self._going_on())

    async def aclose(self) -> None:
        """Cancel what is outstanding."""
        await self._items.aclose()
        self._feed.end()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def _going_on(self) -> AsyncGenerator[R_co, None]:
        """The generator; where its wait was cancelled, another one of the same feed."""
        if self._feed.cut:
            self._feed.cut = False
            self._items = _items(self._feed)
        return self._items


class _Feed:
    """Where a map stands: outlives a generator whose wait was cancelled, and cancels the rest when nobody has it."""

    __slots__ = ("_writing", "cut", "held", "mapping", "over")

    def __init__(self, mapping: Mapping) -> None:
        self.mapping = mapping
        self.over = False
        self.cut = False
        """Whether the generator ended because its wait was cancelled."""
        self.held: list[Any] = []
        """Taken from the map, and not given out yet."""
        self._writing: asyncio.Future[None] | None = None

    def end(self) -> None:
        """Nothing more is wanted."""
        if self.over:
            return
        self.over = True
        if self._writing is None:
            self.mapping.cancel_rest()
        else:
            self._writing.add_done_callback(partial(_written_in_vain, self.mapping))

    def __del__(self) -> None:
        if not self.over:
            self.mapping.cancel_rest()

    async def submit(self) -> bool:
        """Submit a chunk; False when the engine is full and there is something to wait for."""
        mapping = self.mapping
        if self._writing is None and not mapping.wants_more:
            return True
        try:
            await self._submit_next()
        except QueueFull:
            if mapping.has_open:
                return False
            await settled(mapping.client, mapping.client.half_acknowledged())
        return True

    async def _submit_next(self) -> None:
        if self._writing is None:
            try:
                self.mapping.submit_next()
                return
            except BlobNeeded:
                write = self.mapping.submit_next_large
                self._writing = asyncio.get_running_loop().run_in_executor(None, write)
        await asyncio.wait((self._writing,))  # the thread goes on where this wait is cancelled
        written, self._writing = self._writing, None
        written.result()


def _written_in_vain(mapping: Mapping, written: asyncio.Future[None]) -> None:
    if not written.cancelled():
        written.exception()  # nobody is there to hear it
    mapping.cancel_rest()


async def _items(feed: _Feed) -> AsyncGenerator[Any, None]:
    mapping = feed.mapping
    try:
        while not feed.over:
            error: Exception | None = None
            found, feed.held = feed.held, []
            if not found:
                found, error = mapping.take()
            if found or error:
                if error is None and mapping.is_fast:
                    feed.held = found
                    await feed.submit()
                    feed.held = []
                for item in found:
                    yield item
                if error is not None:
                    raise error
            elif mapping.finished:
                break
            elif not (mapping.wants_more and await feed.submit()):
                cell = mapping.stir()
                if cell is not None:
                    await settled(mapping.client, cell)
    except asyncio.CancelledError:
        feed.cut = True
        raise
    except BaseException:
        feed.end()
        raise
    feed.end()


class EndingOrder(Generic[A]):
    """Handles in the order in which they end.

    Args:
        reader: Of their runtime.
        handles: To wait for.
    """

    def __init__(self, reader: Reader, handles: Iterable[A]) -> None:
        self._ended: asyncio.Queue[A] = asyncio.Queue()
        self._reader = reader
        self._hooks = [(handle, partial(_put, self._ended, handle)) for handle in handles]
        self._left = len(self._hooks)
        for handle, hook in self._hooks:
            if not reader.add_hook(handle, hook):
                self._ended.put_nowait(handle)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> A:
        if not self._left:
            raise StopAsyncIteration
        handle = await self._ended.get()
        self._left -= 1
        return handle

    def __del__(self) -> None:
        if self._left:
            self._reader.later(partial(_drop, self._reader, self._hooks))


def _put(queue: asyncio.Queue[A], handle: A, _: object) -> None:
    queue.put_nowait(handle)


def _drop(reader: Reader, hooks: list[tuple[A, partial[None]]]) -> None:
    for handle, hook in hooks:
        reader.drop_hook(handle, hook)


class Pages(Generic[T]):
    """A list that is asked for page by page.

    Args:
        ask: Gets a page; called with where it begins, None for the first. Returns its rows, and where the next begins.
    """

    def __init__(self, ask: Callable[[Any], Awaitable[tuple[list[T], Any]]]) -> None:
        self._ask = ask
        self._rows: deque[T] = deque()
        self._next: Any = None
        self._over = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        while not self._rows:
            if self._over:
                raise StopAsyncIteration
            rows, self._next = await self._ask(self._next)
            self._over = self._next is None
            self._rows.extend(rows)
        return self._rows.popleft()
