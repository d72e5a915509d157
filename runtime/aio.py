"""AsyncRuntime: the runtime for asyncio programs.

    async with AsyncRuntime("state/", tasks) as rt:
        handle = await rt.submit(transform, rows)        # returns once durable
        print(await handle)
        async for square in rt.map(math.sqrt, range(1_000_000)): ...

The engine's frames are read by the running loop itself (`add_reader` on the link's bell), without a thread in
between; asyncio's own loops and uvloop will do. Starting, closing and writing large values are done in the loop's
executor. A wait that is cancelled leaves the task as it is. See `runtime.engine` for what opening and closing mean.

Concurrency: one loop, one thread. For several threads use `Runtime`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterable, Sequence
from functools import partial
from typing import Any, Generic, ParamSpec, Self, TypeAlias, TypeVar, Unpack, overload

from actors.protocol.errors import CallerError, QueueFull, RuntimeClosed
from runtime import views
from runtime.aio_handle import AsyncHandle, AsyncRunHandle, AsyncTaskHandle, answer_of, settled
from runtime.calls import BlobNeeded
from runtime.config import (
    DRAIN_TIMEOUT_S,
    Durability,
    MissingHandler,
    NodeType,
    Priority,
    Retention,
    RuntimeConfig,
)
from runtime.dispatch import Dispatch
from runtime.engine import new_client
from runtime.flow import Flow
from runtime.host.client import EXIT_S, EngineClient, EngineStarter
from runtime.mapping import Mapping
from runtime.registry import Options, TaskRegistry
from runtime.submitter import flow_arguments, raise_if_refused
from runtime.views import RunStatus

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
A = TypeVar("A", bound=AsyncHandle)
Fn: TypeAlias = Callable[..., R]
AsyncFn: TypeAlias = Callable[..., Coroutine[Any, Any, R]]

SMALL_FLOW_NODES = 2_000
"""Flows up to this size are made into a frame in the loop's thread (about 2 ms), larger ones in its executor."""


class AsyncSubmitter:
    """Submits with one set of options; made by `AsyncRuntime.options`, and the runtime itself is one."""

    _client: EngineClient
    _dispatch: Dispatch

    @overload
    async def submit(self, fn: Flow, /, *, run_id: str | None = ...) -> AsyncRunHandle: ...
    @overload
    async def submit(
        self, fn: AsyncFn[R], /, *args: Any, priority: Priority | str, **kwargs: Any
    ) -> AsyncTaskHandle[R]: ...
    @overload
    async def submit(self, fn: Fn[R], /, *args: Any, priority: Priority | str, **kwargs: Any) -> AsyncTaskHandle[R]: ...
    @overload
    async def submit(
        self, fn: AsyncFn[R], /, *args: Any, timeout: float | None, **kwargs: Any
    ) -> AsyncTaskHandle[R]: ...
    @overload
    async def submit(self, fn: Fn[R], /, *args: Any, timeout: float | None, **kwargs: Any) -> AsyncTaskHandle[R]: ...
    @overload
    async def submit(self, fn: AsyncFn[R], /, *args: Any, run_id: str | None, **kwargs: Any) -> AsyncTaskHandle[R]: ...
    @overload
    async def submit(self, fn: Fn[R], /, *args: Any, run_id: str | None, **kwargs: Any) -> AsyncTaskHandle[R]: ...
    @overload
    async def submit(
        self, fn: Callable[P, Coroutine[Any, Any, R]], /, *args: P.args, **kwargs: P.kwargs
    ) -> AsyncTaskHandle[R]: ...
    @overload
    async def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> AsyncTaskHandle[R]: ...
    async def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Submit a task or a flow; returns its handle once it is durable. See `runtime.submitter.Submitter.submit`.

        Cancelling this call leaves open whether the task was taken; a `run_id` makes it safe to call again.
        """
        handle = await self._sent(fn, args, kwargs)
        wait = self._client.acknowledged(handle.seq)
        await settled(self._client, wait)
        raise_if_refused(wait._state, wait._value, handle)
        return handle

    @overload
    def submit_nowait(self, fn: AsyncFn[R], /, *args: Any, **kwargs: Any) -> AsyncTaskHandle[R]: ...
    @overload
    def submit_nowait(self, fn: Fn[R], /, *args: Any, **kwargs: Any) -> AsyncTaskHandle[R]: ...

    def submit_nowait(self, fn: Fn[Any], /, *args: Any, **kwargs: Any) -> AsyncTaskHandle[Any]:
        """Submit a task without waiting for durability. Never blocks: a value that has to go to a file is refused.

        Raises:
            QueueFull: The engine is full; nothing was accepted. CallerError: a value is large; use `submit`.
        """
        try:
            return self._dispatch.send(AsyncTaskHandle, fn, args, kwargs)  # type: ignore[no-any-return]
        except BlobNeeded:
            raise CallerError(
                "submit_nowait takes small values only, because large ones are written to files"
            ) from None

    async def _sent(self, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> AsyncHandle:
        dispatch, loop = self._dispatch, asyncio.get_running_loop()
        while True:
            try:
                if isinstance(fn, Flow):
                    send = partial(dispatch.send_flow, AsyncRunHandle, fn, **flow_arguments(fn, args, kwargs))
                    small = len(fn) <= SMALL_FLOW_NODES and not fn.has_large_values
                    found = send() if small else await loop.run_in_executor(None, send)
                else:
                    try:
                        found = dispatch.send(AsyncTaskHandle, fn, args, kwargs)
                    except BlobNeeded:
                        send = partial(dispatch.send_large, AsyncTaskHandle, fn, args, kwargs)
                        found = await loop.run_in_executor(None, send)
                return found  # type: ignore[no-any-return]
            except QueueFull:
                await settled(self._client, self._client.half_acknowledged())

    @overload
    def map(
        self,
        fn: AsyncFn[R],
        /,
        *iterables: Iterable[Any],
        window: int | None = ...,
        ordered: bool = ...,
        chunk: int | None = ...,
        return_exceptions: bool = ...,
    ) -> AsyncMapIterator[R]: ...
    @overload
    def map(
        self,
        fn: Fn[R],
        /,
        *iterables: Iterable[Any],
        window: int | None = ...,
        ordered: bool = ...,
        chunk: int | None = ...,
        return_exceptions: bool = ...,
    ) -> AsyncMapIterator[R]: ...

    def map(
        self,
        fn: Callable[..., Any],
        /,
        *iterables: Iterable[Any],
        window: int | None = None,
        ordered: bool = True,
        chunk: int | None = None,
        return_exceptions: bool = False,
    ) -> AsyncMapIterator[Any]:
        """A durable task for each item of an iterable; results with `async for`. See `runtime.submitter.Submitter.map`.

        The iterable is read in the loop's thread.
        """
        return AsyncMapIterator(Mapping(self._dispatch, fn, iterables, window, ordered, chunk, return_exceptions))

    def options(self, **changes: Unpack[Options]) -> AsyncSubmitter:
        """Submit with other scheduling options, see `TaskOptions`. Raises ConfigurationError."""
        return _Derived(self._client, self._dispatch.with_options(changes))


class _Derived(AsyncSubmitter):
    """A submitter with options changed."""

    def __init__(self, client: EngineClient, dispatch: Dispatch) -> None:
        self._client = client
        self._dispatch = dispatch


class AsyncRuntime(AsyncSubmitter):
    """See the module; arguments as `runtime.engine.Runtime`. Opened by `async with`, or by `await rt.open()`."""

    def __init__(
        self,
        state_dir: str | os.PathLike[str],
        tasks: TaskRegistry | None = None,
        *,
        node_types: Sequence[NodeType] | None = None,
        durability: Durability = "fsync",
        retention: Retention | None = None,
        salvage: bool = False,
        missing_handler: MissingHandler = "park",
        starter: EngineStarter | None = None,
    ) -> None:
        self.config = RuntimeConfig(
            os.fspath(state_dir), node_types or (), durability, retention or Retention(), salvage, missing_handler
        )
        self._tasks = tasks or TaskRegistry()
        self._starter = starter
        self._opened = self._closed = False

    def __getattr__(self, name: str) -> Any:
        if name in ("_client", "_dispatch"):
            raise RuntimeClosed("this AsyncRuntime is not open: use `async with`, or `await rt.open()`")
        raise AttributeError(name)

    async def open(self) -> Self:
        """Start the engine and recover the folder.

        Raises:
            RuntimeClosed: It was opened before. StateFolderError, EngineUnavailable, ...: as `Runtime`.
        """
        if self._opened:
            raise RuntimeClosed("an AsyncRuntime is opened once")
        self._opened = True
        loop = asyncio.get_running_loop()
        starting = loop.run_in_executor(None, _started, self.config, self._starter)
        try:
            self._client = await asyncio.shield(starting)
        except asyncio.CancelledError:
            await loop.run_in_executor(None, _stopped, await starting)
            raise
        self._dispatch = Dispatch(self._client, self.config, self._tasks)
        self._client.attach_loop(loop)
        return self

    @property
    def recovery(self) -> dict[str, Any]:
        """What the engine found, cut and resumed when it opened the folder."""
        return dict(self._client.intake.recovery)

    async def run(self, flow: Flow, /, *, run_id: str | None = None, timeout: float | None = None) -> AsyncRunHandle:
        """Submit a flow, wait for its end and raise if it did not succeed.

        Args:
            flow: The flow.
            run_id: Identity of the run, see `submit`.
            timeout: Seconds to wait; None waits as long as it takes.

        Returns:
            The handle, whose results can be taken.

        Raises:
            TaskFailed: A node failed. WaitTimeout: the time is over; the run goes on. Otherwise as `submit`.
        """
        handle = await self.submit(flow, run_id=run_id)
        return await handle.raise_if_failed(timeout)

    async def handle(self, run_id: str) -> AsyncRunHandle:
        """Find a run of any session and program again.

        Args:
            run_id: Its id.

        Returns:
            A handle.

        Raises:
            UnknownRun: The folder has no such run, or no longer.
        """
        handle = AsyncRunHandle(self._client, run_id, foreign=True)
        handle.seq = 0
        await handle.look(watch=True)
        if not handle.done():
            self._client.watch(run_id, handle)
        return handle

    async def runs(self) -> AsyncIterator[RunStatus]:
        """The runs that the folder knows, latest first."""
        cursor: Any = None
        while True:
            reply = await answer_of(self._client, self._client.ask(*views.ask_runs(cursor)))
            for status in views.read_runs(reply):
                yield status
            cursor = reply.get("next")
            if cursor is None:
                return

    async def as_completed(self, handles: Iterable[A]) -> AsyncIterator[A]:
        """Wait for handles, one after the other.

        Args:
            handles: Of this runtime.

        Returns:
            The handles in the order in which they end.
        """
        ended: asyncio.Queue[A] = asyncio.Queue()
        waiting = list(handles)
        reader = self._client.reader
        hooks = [(handle, partial(_put, ended, handle)) for handle in waiting]
        try:
            for handle, hook in hooks:
                if not reader.add_hook(handle, hook):
                    ended.put_nowait(handle)
            for _ in waiting:
                yield await ended.get()
        finally:
            for handle, hook in hooks:
                reader.drop_hook(handle, hook)

    async def statistics(self) -> dict[str, Any]:
        """What the engine says of itself: its state, its log, its pools and workers."""
        found: dict[str, Any] = await answer_of(self._client, self._client.ask("engine", {}))
        return found

    async def processes(self) -> list[dict[str, Any]]:
        """Every process of this runtime; see `runtime.engine.Runtime.processes`."""
        return views.read_processes(await self.statistics())

    async def close(self, drain: bool = True, timeout: float | None = None) -> None:
        """Stop: take nothing more, and end the engine. Again is harmless. See `runtime.engine.Runtime.close`.

        Args:
            drain: Wait until what was submitted is durable, and let running attempts finish.
            timeout: Seconds for that; None for `config.DRAIN_TIMEOUT_S`.
        """
        if self._closed or not self._opened:
            return
        self._closed = True
        client, loop = self._client, asyncio.get_running_loop()
        deadline = loop.time() + (DRAIN_TIMEOUT_S if timeout is None else timeout)
        flushed = client.begin_close(drain)
        if flushed is None:
            return
        try:
            await settled(client, flushed, deadline - loop.time())
            left = max(0.0, deadline - loop.time())
            await settled(client, client.say_stop(drain, left), left + EXIT_S)
        finally:
            client.reader.stop()
            await asyncio.shield(loop.run_in_executor(None, client.stop_engine))
            client.settle_all()

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        drain = kind is None or not issubclass(kind, (KeyboardInterrupt, asyncio.CancelledError))
        await self.close(drain=drain)


class AsyncMapIterator(Generic[R_co]):
    """Results of a `map`. Leaving the loop with `aclose`, as a context manager, or by dropping it cancels the rest."""

    def __init__(self, mapping: Mapping) -> None:
        self._items: AsyncGenerator[R_co, None] = _items(mapping)

    def __aiter__(self) -> AsyncIterator[R_co]:
        return self._items

    async def __anext__(self) -> R_co:
        return await anext(self._items)

    async def aclose(self) -> None:
        """Cancel what is outstanding."""
        await self._items.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


async def _items(mapping: Mapping) -> AsyncGenerator[Any, None]:
    try:
        while True:
            found, error = mapping.take()
            if found or error:
                if error is None and mapping.is_fast:
                    await _submit(mapping)
                for item in found:
                    yield item
                if error is not None:
                    raise error
            elif mapping.finished:
                return
            elif not (mapping.wants_more and await _submit(mapping)):
                cell = mapping.stir()
                if cell is not None:
                    await settled(mapping.client, cell)
    finally:
        mapping.cancel_rest()


async def _submit(mapping: Mapping) -> bool:
    """Submit a chunk; False when the engine is full and there is something to wait for."""
    if not mapping.wants_more:
        return True
    try:
        try:
            mapping.submit_next()
        except BlobNeeded:
            await asyncio.get_running_loop().run_in_executor(None, mapping.submit_next_large)
    except QueueFull:
        if mapping.has_open:
            return False
        await settled(mapping.client, mapping.client.half_acknowledged())
    return True


def _started(config: RuntimeConfig, starter: EngineStarter | None) -> EngineClient:
    client = new_client(config, starter)
    client.start()
    return client


def _stopped(client: EngineClient) -> None:
    """End a client that nobody is attached to."""
    client.stop_engine()
    client.settle_all()


def _put(queue: asyncio.Queue[A], handle: A, _: object) -> None:
    queue.put_nowait(handle)
