"""Submitting for asyncio: the part of `AsyncRuntime` that `rt.options(...)` has too. See `runtime.submitter`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from datetime import datetime
from functools import partial
from typing import Any, Final, Unpack, overload

from actors.protocol.errors import CallerError, QueueFull
from runtime.aio_handle import AsyncHandle, AsyncRunHandle, AsyncTaskHandle, settled
from runtime.aio_iterators import AsyncMapIterator
from runtime.config import Priority
from runtime.flow import Flow
from runtime.items import BlobNeeded, takes_long
from runtime.mapping import MapOptions, Mapping
from runtime.registry import Options
from runtime.submitter_base import (
    AskingAsyncFn,
    AskingFn,
    AsyncFn,
    Fn,
    P,
    R,
    SubmitterBase,
    flow_arguments,
    raise_if_refused,
)

SMALL_FLOW_NODES: Final = 2_000
"""Flows up to this size are made into a frame in the loop's thread (about 2 ms), larger ones in its executor."""


class AsyncSubmitter(SubmitterBase):
    """Submits with one set of options; made by `AsyncRuntime.options`, and the runtime itself is one."""

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
    async def submit(self, fn: AsyncFn[R], /, *args: Any, tenant: str, **kwargs: Any) -> AsyncTaskHandle[R]: ...
    @overload
    async def submit(self, fn: Fn[R], /, *args: Any, tenant: str, **kwargs: Any) -> AsyncTaskHandle[R]: ...
    @overload
    async def submit(
        self, fn: AsyncFn[R], /, *args: Any, concurrency_key: str | None, **kwargs: Any
    ) -> AsyncTaskHandle[R]: ...
    @overload
    async def submit(
        self, fn: Fn[R], /, *args: Any, concurrency_key: str | None, **kwargs: Any
    ) -> AsyncTaskHandle[R]: ...
    @overload
    async def submit(
        self, fn: AsyncFn[R], /, *args: Any, rate_key: str | None, **kwargs: Any
    ) -> AsyncTaskHandle[R]: ...
    @overload
    async def submit(self, fn: Fn[R], /, *args: Any, rate_key: str | None, **kwargs: Any) -> AsyncTaskHandle[R]: ...
    @overload
    async def submit(self, fn: AsyncFn[R], /, *args: Any, delay: float, **kwargs: Any) -> AsyncTaskHandle[R]: ...
    @overload
    async def submit(self, fn: Fn[R], /, *args: Any, delay: float, **kwargs: Any) -> AsyncTaskHandle[R]: ...
    @overload
    async def submit(self, fn: AsyncFn[R], /, *args: Any, due: datetime, **kwargs: Any) -> AsyncTaskHandle[R]: ...
    @overload
    async def submit(self, fn: Fn[R], /, *args: Any, due: datetime, **kwargs: Any) -> AsyncTaskHandle[R]: ...
    @overload
    async def submit(
        self, fn: AsyncFn[R], /, *args: Any, expires: float | None, **kwargs: Any
    ) -> AsyncTaskHandle[R]: ...
    @overload
    async def submit(self, fn: Fn[R], /, *args: Any, expires: float | None, **kwargs: Any) -> AsyncTaskHandle[R]: ...
    @overload
    async def submit(
        self, fn: AsyncFn[R], /, *args: Any, deadline: float | datetime | None, **kwargs: Any
    ) -> AsyncTaskHandle[R]: ...
    @overload
    async def submit(
        self, fn: AsyncFn[R], /, *args: Any, unique: bool | str | None, **kwargs: Any
    ) -> AsyncTaskHandle[R]: ...
    @overload
    async def submit(
        self, fn: AsyncFn[R], /, *args: Any, debounce: float | None, **kwargs: Any
    ) -> AsyncTaskHandle[R]: ...
    @overload
    async def submit(
        self, fn: AsyncFn[R], /, *args: Any, idempotency_key: str | None, **kwargs: Any
    ) -> AsyncTaskHandle[R]: ...
    @overload
    async def submit(self, fn: AsyncFn[R], /, *args: Any, run_id: str | None, **kwargs: Any) -> AsyncTaskHandle[R]: ...
    @overload
    async def submit(
        self, fn: Fn[R], /, *args: Any, deadline: float | datetime | None, **kwargs: Any
    ) -> AsyncTaskHandle[R]: ...
    @overload
    async def submit(
        self, fn: Fn[R], /, *args: Any, unique: bool | str | None, **kwargs: Any
    ) -> AsyncTaskHandle[R]: ...
    @overload
    async def submit(self, fn: Fn[R], /, *args: Any, debounce: float | None, **kwargs: Any) -> AsyncTaskHandle[R]: ...
    @overload
    async def submit(
        self, fn: Fn[R], /, *args: Any, idempotency_key: str | None, **kwargs: Any
    ) -> AsyncTaskHandle[R]: ...
    @overload
    async def submit(self, fn: Fn[R], /, *args: Any, run_id: str | None, **kwargs: Any) -> AsyncTaskHandle[R]: ...
    @overload
    async def submit(self, fn: AskingAsyncFn[P, R], /, *args: P.args, **kwargs: P.kwargs) -> AsyncTaskHandle[R]: ...
    @overload
    async def submit(self, fn: AskingFn[P, R], /, *args: P.args, **kwargs: P.kwargs) -> AsyncTaskHandle[R]: ...
    @overload
    async def submit(
        self, fn: Callable[P, Coroutine[Any, Any, R]], /, *args: P.args, **kwargs: P.kwargs
    ) -> AsyncTaskHandle[R]: ...
    @overload
    async def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> AsyncTaskHandle[R]: ...
    async def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Submit a task or a flow; returns its handle once it is durable. See `runtime.submitter.Submitter.submit`.

        Cancelling this call leaves open whether the task was taken; an `idempotency_key` makes it safe to call again.
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
                elif takes_long(args, kwargs):
                    found = await loop.run_in_executor(None, self._send_long, fn, args, kwargs)
                else:
                    try:
                        found = dispatch.send(AsyncTaskHandle, fn, args, kwargs)
                    except BlobNeeded:
                        send = partial(dispatch.send_large, AsyncTaskHandle, fn, args, kwargs)
                        found = await loop.run_in_executor(None, send)
                return found  # type: ignore[no-any-return]
            except QueueFull:
                await settled(self._client, self._client.half_acknowledged())

    def _send_long(self, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Send a call that takes long to encode: in the executor."""
        try:
            return self._dispatch.send(AsyncTaskHandle, fn, args, kwargs)
        except BlobNeeded:
            return self._dispatch.send_large(AsyncTaskHandle, fn, args, kwargs)

    @overload
    def map(
        self, fn: AsyncFn[R], /, *iterables: Iterable[Any], **options: Unpack[MapOptions]
    ) -> AsyncMapIterator[R]: ...
    @overload
    def map(self, fn: Fn[R], /, *iterables: Iterable[Any], **options: Unpack[MapOptions]) -> AsyncMapIterator[R]: ...
    def map(self, fn: Fn[Any], /, *iterables: Iterable[Any], **options: Unpack[MapOptions]) -> AsyncMapIterator[Any]:
        """A durable task for each item of an iterable; results with `async for`. See `runtime.submitter.Submitter.map`.

        The iterable is read in the loop's thread.
        """
        return AsyncMapIterator(Mapping(self._dispatch, fn, iterables, **options))

    def options(self, **changes: Unpack[Options]) -> AsyncSubmitter:
        """Submit with other scheduling options, see `TaskOptions`. Raises ConfigurationError."""
        return AsyncSubmitter(self._client, self._dispatch.with_options(changes))
