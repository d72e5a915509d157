"""A thing of a pool, from its factory to its end, whatever form the factory has.

A factory is a function or coroutine function that returns the thing; a generator or asynchronous generator that yields
it once and cleans up behind that; or a function that returns a context manager of `contextlib`. Other context managers
(a database connection, an HTTP session) are things themselves, and are closed, not entered.

An asynchronous one is entered and left by one task, its keeper, which waits in between: scopes of cancellation belong
to the task that entered them, and attempts come and go.

Functions here are coroutines that wait only in `host.run`, see `runtime.host.pool_hosts`.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from functools import partial
from types import AsyncGeneratorType, GeneratorType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from actors.protocol.errors import HandlerRefused

if TYPE_CHECKING:
    import asyncio

    from runtime.pools import Pool


class Runs(Protocol):
    """What is needed of a host."""

    async def run(self, waits: Awaitable[Any]) -> Any:
        """The result of what must be awaited on the loop."""


class Made(NamedTuple):
    """A thing, and how its factory is left; None: there is nothing to leave."""

    value: Any
    leave: Callable[[], Any] | None


async def make_thing(pool: Pool[Any], host: Runs) -> Made:
    """Call the factory. Runs user code; raises what that raises."""
    made = pool.fn()
    if isinstance(made, GeneratorType):
        return Made(_first(made), partial(_finish, made))
    if isinstance(made, AsyncGeneratorType):
        return await _kept(host, made.__anext__, partial(_finish_async, made))
    kind = type(made)
    if kind.__module__ == "contextlib":
        if hasattr(kind, "__enter__"):
            return Made(made.__enter__(), partial(made.__exit__, None, None, None))
        return await _kept(host, made.__aenter__, partial(made.__aexit__, None, None, None))
    if inspect.isawaitable(made):
        made = await host.run(made)
    return Made(made, None)


async def close_thing(pool: Pool[Any], made: Made, host: Runs) -> None:
    """End a thing. Runs user code; raises what that raises."""
    close = pool.settings.close
    if close is None and made.leave is None:
        own = getattr(made.value, "aclose", None) or getattr(made.value, "close", None)
        await _called(host, own) if callable(own) else None
        return
    try:
        if close is not None:
            await _called(host, partial(close, made.value))
    finally:
        if made.leave is not None:
            await _called(host, made.leave)


async def _called(host: Runs, fn: Callable[[], Any]) -> Any:
    found = fn()
    return await host.run(found) if inspect.isawaitable(found) else found


def _first(generator: GeneratorType[Any, None, Any]) -> Any:
    for thing in generator:
        return thing
    raise HandlerRefused(f"{generator.__qualname__} yielded nothing; the factory of a pool yields one thing")


def _finish(generator: GeneratorType[Any, None, Any]) -> None:
    try:
        next(generator)
    except StopIteration:
        return
    generator.close()
    raise HandlerRefused(f"{generator.__qualname__} yielded twice; the factory of a pool yields one thing")


async def _finish_async(generator: AsyncGeneratorType[Any, None]) -> None:
    try:
        await anext(generator)
    except StopAsyncIteration:
        return
    await generator.aclose()
    raise HandlerRefused(f"{generator.__qualname__} yielded twice; the factory of a pool yields one thing")


async def _kept(host: Runs, enter: Callable[[], Awaitable[Any]], leave: Callable[[], Awaitable[Any]]) -> Made:
    keeper = Keeper(enter, leave)
    return Made(await host.run(keeper.start()), keeper.end)


class Keeper:
    """The task that enters and leaves. States: entering, holding, leaving, ended."""

    def __init__(self, enter: Callable[[], Awaitable[Any]], leave: Callable[[], Awaitable[Any]]) -> None:
        self._enter = enter
        self._leave = leave
        self._entered: asyncio.Future[Any] | None = None
        self._ends: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> Any:
        """Enter; returns the thing."""
        import asyncio  # lazy: workers of mode "process" do without, mostly

        loop = asyncio.get_running_loop()
        self._entered, self._ends = loop.create_future(), loop.create_future()
        self._task = loop.create_task(self._keep(self._entered, self._ends), name="mainspring-pool-keeper")
        try:
            return await self._entered
        except asyncio.CancelledError:
            if self._entered.cancelled():
                self._task.cancel()
            else:  # it was entered, or failed, at the same moment
                self._ends.set_result(None)
            await asyncio.wait([self._task])
            raise

    async def end(self) -> None:
        """Leave; raises what that raises."""
        if self._task is not None and self._ends is not None:
            if not self._ends.done():
                self._ends.set_result(None)
            await self._task

    async def _keep(self, entered: asyncio.Future[Any], ends: asyncio.Future[None]) -> None:
        try:
            thing = await self._enter()
        except BaseException as exc:
            if not entered.done():
                entered.set_exception(
                    exc if isinstance(exc, Exception) else RuntimeError(f"the factory ended: {exc!r}")
                )
            return
        if not entered.done():
            entered.set_result(thing)
            await ends
        await self._leave()
