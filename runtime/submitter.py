"""Submitting for blocking callers: the part of `Runtime` that `rt.options(...)` has too."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from datetime import datetime
from typing import Any, Unpack, overload

from actors.protocol.errors import QueueFull
from runtime.config import Priority
from runtime.flow import Flow
from runtime.handle import RunHandle, TaskHandle
from runtime.handle_base import Handle
from runtime.host.client import EngineClient
from runtime.items import BlobNeeded
from runtime.iterate import MapIterator
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


class Submitter(SubmitterBase):
    """Submits with one set of options; made by `Runtime.options`, and the runtime itself is one."""

    # --- submit ---------------------------------------------------------------------------------------------------

    @overload
    def submit(self, fn: Flow, /, *, run_id: str | None = ...) -> RunHandle: ...
    @overload
    def submit(self, fn: AsyncFn[R], /, *args: Any, priority: Priority | str, **kwargs: Any) -> TaskHandle[R]: ...
    @overload
    def submit(self, fn: Fn[R], /, *args: Any, priority: Priority | str, **kwargs: Any) -> TaskHandle[R]: ...
    @overload
    def submit(self, fn: AsyncFn[R], /, *args: Any, timeout: float | None, **kwargs: Any) -> TaskHandle[R]: ...
    @overload
    def submit(self, fn: Fn[R], /, *args: Any, timeout: float | None, **kwargs: Any) -> TaskHandle[R]: ...
    @overload
    def submit(self, fn: AsyncFn[R], /, *args: Any, tenant: str, **kwargs: Any) -> TaskHandle[R]: ...
    @overload
    def submit(self, fn: Fn[R], /, *args: Any, tenant: str, **kwargs: Any) -> TaskHandle[R]: ...
    @overload
    def submit(self, fn: AsyncFn[R], /, *args: Any, concurrency_key: str | None, **kwargs: Any) -> TaskHandle[R]: ...
    @overload
    def submit(self, fn: Fn[R], /, *args: Any, concurrency_key: str | None, **kwargs: Any) -> TaskHandle[R]: ...
    @overload
    def submit(self, fn: AsyncFn[R], /, *args: Any, rate_key: str | None, **kwargs: Any) -> TaskHandle[R]: ...
    @overload
    def submit(self, fn: Fn[R], /, *args: Any, rate_key: str | None, **kwargs: Any) -> TaskHandle[R]: ...
    @overload
    def submit(self, fn: AsyncFn[R], /, *args: Any, delay: float, **kwargs: Any) -> TaskHandle[R]: ...
    @overload
    def submit(self, fn: Fn[R], /, *args: Any, delay: float, **kwargs: Any) -> TaskHandle[R]: ...
    @overload
    def submit(self, fn: AsyncFn[R], /, *args: Any, due: datetime, **kwargs: Any) -> TaskHandle[R]: ...
    @overload
    def submit(self, fn: Fn[R], /, *args: Any, due: datetime, **kwargs: Any) -> TaskHandle[R]: ...
    @overload
    def submit(self, fn: AsyncFn[R], /, *args: Any, expires: float | None, **kwargs: Any) -> TaskHandle[R]: ...
    @overload
    def submit(self, fn: Fn[R], /, *args: Any, expires: float | None, **kwargs: Any) -> TaskHandle[R]: ...
    @overload
    def submit(
        self, fn: AsyncFn[R], /, *args: Any, deadline: float | datetime | None, **kwargs: Any
    ) -> TaskHandle[R]: ...
    @overload
    def submit(self, fn: AsyncFn[R], /, *args: Any, unique: bool | str | None, **kwargs: Any) -> TaskHandle[R]: ...
    @overload
    def submit(self, fn: AsyncFn[R], /, *args: Any, debounce: float | None, **kwargs: Any) -> TaskHandle[R]: ...
    @overload
    def submit(self, fn: AsyncFn[R], /, *args: Any, idempotency_key: str | None, **kwargs: Any) -> TaskHandle[R]: ...
    @overload
    def submit(self, fn: AsyncFn[R], /, *args: Any, run_id: str | None, **kwargs: Any) -> TaskHandle[R]: ...
    @overload
    def submit(self, fn: Fn[R], /, *args: Any, deadline: float | datetime | None, **kwargs: Any) -> TaskHandle[R]: ...
    @overload
    def submit(self, fn: Fn[R], /, *args: Any, unique: bool | str | None, **kwargs: Any) -> TaskHandle[R]: ...
    @overload
    def submit(self, fn: Fn[R], /, *args: Any, debounce: float | None, **kwargs: Any) -> TaskHandle[R]: ...
    @overload
    def submit(self, fn: Fn[R], /, *args: Any, idempotency_key: str | None, **kwargs: Any) -> TaskHandle[R]: ...
    @overload
    def submit(self, fn: Fn[R], /, *args: Any, run_id: str | None, **kwargs: Any) -> TaskHandle[R]: ...
    @overload
    def submit(self, fn: AskingAsyncFn[P, R], /, *args: P.args, **kwargs: P.kwargs) -> TaskHandle[R]: ...
    @overload
    def submit(self, fn: AskingFn[P, R], /, *args: P.args, **kwargs: P.kwargs) -> TaskHandle[R]: ...
    @overload
    def submit(
        self, fn: Callable[P, Coroutine[Any, Any, R]], /, *args: P.args, **kwargs: P.kwargs
    ) -> TaskHandle[R]: ...
    @overload
    def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> TaskHandle[R]: ...
    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Submit a task or a flow; returns once it is durable.

        Args:
            fn: A task, an importable function, a `functools.partial` of one, or a `Flow`.
            args: Arguments of the handler.
            kwargs: Keyword arguments of the handler. `priority`, `timeout` (seconds), `tenant`, `concurrency_key`,
                `rate_key`, `rate_cost` and `run_id` are options, unless the handler has a parameter of that name or
                takes any keyword; `rt.options(...)` never mixes the two. So are `delay` (seconds), `due` (a datetime
                with a time zone) and `expires` (seconds): a single task starts not before the first or the second, and
                fails with the kind "expired" when it has not started by the third, which counts from this call.
                `deadline` (seconds from this call, or a datetime with a time zone) is by when it must have ended, over
                all attempts and waits: then it is stopped and fails with the kind "deadline".
                A run id is chosen once per state folder: it makes a submission that is repeated after a crash fail with
                DuplicateRun, and `rt.handle(run_id)` finds the run.
                `idempotency_key` makes a repeated submission of a single task start nothing: within
                `idempotency_window` seconds (a day) of the first one under that key, by the wall clock, from any
                program and over restarts, the handle that is returned is one of the first task (`run_id` is the same).
                Its end counts whatever it is: a result, a failure, "expired", a cancel. What the key stands for is
                forgotten by `idempotency_window=0`, which starts the task anew. Large values that go to files are taken
                to be the same; options are not compared.
                `unique=True` is for one at a time: while a task of the same handler and arguments that was submitted so
                waits or runs, the handle that is returned is one of that task; when it has ended, the next call starts
                anew. `unique="key"` tells them by the key only.
                `debounce=` seconds collapses calls: the task starts so long after the latest of them, with that call's
                arguments and options, and all of their handles are of that one task. They belong together by
                `debounce_key`, or by the handler; `debounce_max` seconds after the first it starts anyway (a day, where
                nothing is said). A cancel by any of these handles is one for all.

        Returns:
            Its handle. A full engine makes this call wait.

        Raises:
            HandlerRefused, UnknownNodeType: The function cannot be run here.
            PayloadError: A value cannot be stored exactly; names its path. PayloadTooLarge: it is over the limit.
            CycleError: The flow has a cycle. DuplicateRun: the run id is taken.
            KeyConflict: The key stands for another handler or other arguments. TooManyKeys: no more keys are kept.
            UnknownRun: What the key stands for ended, and its result is no longer kept.
            RuntimeClosed: The runtime was closed. DiskFull, LogFailed, EngineUnavailable: as they say; the message
                tells whether the submission may have been taken.

        What a crash leaves behind: after the return, the task, whatever crashes. Before, the task or nothing.
        """
        handle = self._sent(fn, args, kwargs, wait=True)
        _await_durable(self._client, handle)
        return handle

    @overload
    def submit_nowait(self, fn: Flow, /, *, run_id: str | None = ...) -> RunHandle: ...
    @overload
    def submit_nowait(
        self, fn: AsyncFn[R], /, *args: Any, priority: Priority | str, **kwargs: Any
    ) -> TaskHandle[R]: ...
    @overload
    def submit_nowait(self, fn: Fn[R], /, *args: Any, priority: Priority | str, **kwargs: Any) -> TaskHandle[R]: ...
    @overload
    def submit_nowait(self, fn: AsyncFn[R], /, *args: Any, timeout: float | None, **kwargs: Any) -> TaskHandle[R]: ...
    @overload
    def submit_nowait(self, fn: Fn[R], /, *args: Any, timeout: float | None, **kwargs: Any) -> TaskHandle[R]: ...
    @overload
    def submit_nowait(self, fn: AsyncFn[R], /, *args: Any, tenant: str, **kwargs: Any) -> TaskHandle[R]: ...
    @overload
    def submit_nowait(self, fn: Fn[R], /, *args: Any, tenant: str, **kwargs: Any) -> TaskHandle[R]: ...
    @overload
    def submit_nowait(
        self, fn: AsyncFn[R], /, *args: Any, concurrency_key: str | None, **kwargs: Any
    ) -> TaskHandle[R]: ...
    @overload
    def submit_nowait(self, fn: Fn[R], /, *args: Any, concurrency_key: str | None, **kwargs: Any) -> TaskHandle[R]: ...
    @overload
    def submit_nowait(self, fn: AsyncFn[R], /, *args: Any, rate_key: str | None, **kwargs: Any) -> TaskHandle[R]: ...
    @overload
    def submit_nowait(self, fn: Fn[R], /, *args: Any, rate_key: str | None, **kwargs: Any) -> TaskHandle[R]: ...
    @overload
    def submit_nowait(self, fn: AsyncFn[R], /, *args: Any, delay: float, **kwargs: Any) -> TaskHandle[R]: ...
    @overload
    def submit_nowait(self, fn: Fn[R], /, *args: Any, delay: float, **kwargs: Any) -> TaskHandle[R]: ...
    @overload
    def submit_nowait(self, fn: AsyncFn[R], /, *args: Any, due: datetime, **kwargs: Any) -> TaskHandle[R]: ...
    @overload
    def submit_nowait(self, fn: Fn[R], /, *args: Any, due: datetime, **kwargs: Any) -> TaskHandle[R]: ...
    @overload
    def submit_nowait(self, fn: AsyncFn[R], /, *args: Any, expires: float | None, **kwargs: Any) -> TaskHandle[R]: ...
    @overload
    def submit_nowait(self, fn: Fn[R], /, *args: Any, expires: float | None, **kwargs: Any) -> TaskHandle[R]: ...
    @overload
    def submit_nowait(
        self, fn: AsyncFn[R], /, *args: Any, deadline: float | datetime | None, **kwargs: Any
    ) -> TaskHandle[R]: ...
    @overload
    def submit_nowait(
        self, fn: AsyncFn[R], /, *args: Any, unique: bool | str | None, **kwargs: Any
    ) -> TaskHandle[R]: ...
    @overload
    def submit_nowait(self, fn: AsyncFn[R], /, *args: Any, debounce: float | None, **kwargs: Any) -> TaskHandle[R]: ...
    @overload
    def submit_nowait(
        self, fn: AsyncFn[R], /, *args: Any, idempotency_key: str | None, **kwargs: Any
    ) -> TaskHandle[R]: ...
    @overload
    def submit_nowait(self, fn: AsyncFn[R], /, *args: Any, run_id: str | None, **kwargs: Any) -> TaskHandle[R]: ...
    @overload
    def submit_nowait(
        self, fn: Fn[R], /, *args: Any, deadline: float | datetime | None, **kwargs: Any
    ) -> TaskHandle[R]: ...
    @overload
    def submit_nowait(self, fn: Fn[R], /, *args: Any, unique: bool | str | None, **kwargs: Any) -> TaskHandle[R]: ...
    @overload
    def submit_nowait(self, fn: Fn[R], /, *args: Any, debounce: float | None, **kwargs: Any) -> TaskHandle[R]: ...
    @overload
    def submit_nowait(self, fn: Fn[R], /, *args: Any, idempotency_key: str | None, **kwargs: Any) -> TaskHandle[R]: ...
    @overload
    def submit_nowait(self, fn: Fn[R], /, *args: Any, run_id: str | None, **kwargs: Any) -> TaskHandle[R]: ...
    @overload
    def submit_nowait(self, fn: AskingAsyncFn[P, R], /, *args: P.args, **kwargs: P.kwargs) -> TaskHandle[R]: ...
    @overload
    def submit_nowait(self, fn: AskingFn[P, R], /, *args: P.args, **kwargs: P.kwargs) -> TaskHandle[R]: ...
    @overload
    def submit_nowait(
        self, fn: Callable[P, Coroutine[Any, Any, R]], /, *args: P.args, **kwargs: P.kwargs
    ) -> TaskHandle[R]: ...
    @overload
    def submit_nowait(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> TaskHandle[R]: ...
    def submit_nowait(self, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Submit without waiting for durability; as `submit` otherwise.

        What is large is still written to its file first. A submission that is rejected later gives its error in
        `result()`.

        Raises:
            QueueFull: The engine is full; nothing was accepted. Otherwise as `submit`.

        What a crash leaves behind: a crash of the engine loses nothing, the submission is sent again. When this program
        dies, the submission is in the folder if it had become durable; `close()` waits for that.
        """
        if type(fn) is not Flow:
            try:
                return self._dispatch.send(TaskHandle, fn, args, kwargs)
            except BlobNeeded:
                pass
        return self._sent(fn, args, kwargs, wait=False)

    def _sent(self, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any], *, wait: bool) -> Any:
        dispatch = self._dispatch
        while True:
            try:
                if isinstance(fn, Flow):
                    return dispatch.send_flow(RunHandle, fn, **flow_arguments(fn, args, kwargs))
                try:
                    return dispatch.send(TaskHandle, fn, args, kwargs)
                except BlobNeeded:
                    return dispatch.send_large(TaskHandle, fn, args, kwargs)
            except QueueFull:
                if not wait:
                    raise
                self._client.wait(self._client.half_acknowledged())

    # --- map ------------------------------------------------------------------------------------------------------

    @overload
    def map(self, fn: AsyncFn[R], /, *iterables: Iterable[Any], **options: Unpack[MapOptions]) -> MapIterator[R]: ...
    @overload
    def map(self, fn: Fn[R], /, *iterables: Iterable[Any], **options: Unpack[MapOptions]) -> MapIterator[R]: ...
    def map(self, fn: Fn[Any], /, *iterables: Iterable[Any], **options: Unpack[MapOptions]) -> MapIterator[Any]:
        """A durable task for each item of an iterable, which may be endless; results as an iterator.

        Nothing is submitted before the first result is asked for, and the iterable is read no further than `window`
        items ahead of what was taken. Closing or dropping the iterator early cancels what is outstanding.

        Args:
            fn: A task, an importable function or a `functools.partial` of one.
            iterables: One gives `fn(item)`, several give `fn(*items)` until the shortest ends.
            options: How it goes on, by keyword.
                window: Items submitted and not yet taken, at most; None (the default) for `limits.MAP_WINDOW_ITEMS`.
                ordered: Results in the order of the items (the default), or as they arrive.
                chunk: Items in one message; None (the default) adapts it to the speed of the iterable and of the tasks.
                return_exceptions: Give the exception of a failed item as its result. The default is to raise it at its
                place.

        Raises:
            HandlerRefused, UnknownNodeType, ConfigurationError: At once. TaskFailed, PayloadError: while iterating.

        What a crash leaves behind: the items that were submitted; they are run when the folder is opened again, and
        their results are kept as `Retention` says.
        """
        return MapIterator(Mapping(self._dispatch, fn, iterables, **options))

    def options(self, **changes: Unpack[Options]) -> Submitter:
        """Submit with other scheduling options: `rt.options(priority="high", timeout=5).submit(fn, x)`.

        Args:
            changes: Options that replace those of the tasks, see `TaskOptions`.

        Raises:
            ConfigurationError: An option is unknown or out of range.
        """
        return Submitter(self._client, self._dispatch.with_options(changes))


def _await_durable(client: EngineClient, handle: Handle) -> None:
    """Wait for the acknowledgement; raise what the engine answered instead."""
    wait = client.acknowledged(handle.seq)
    client.wait(wait)
    raise_if_refused(wait._state, wait._value, handle)
