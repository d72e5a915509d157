"""Executor: `concurrent.futures` on a runtime, as a drop-in for `ProcessPoolExecutor`.

    with Executor(max_workers=4) as pool:
        print(pool.submit(pow, 2, 10).result(), list(pool.map(abs, range(-5, 5))))

Everything that pickle takes can be called: a call travels as one pickled value to a fixed handler. Futures are the
real `concurrent.futures.Future`. Calls wait in this program, where they can be cancelled, and are handed to the
engine only a little ahead of the workers; from then on a future is *running*. So a call lasts as long as its
future: it ends with the program.

What differs from `ProcessPoolExecutor`: a crash of a worker fails its own call with `BrokenProcessPool` and nothing
else; workers are started by a process without threads, so `mp_context` is taken for compatibility, without effect.

Without `state_dir` the state folder is a temporary one, not synced, removed at the end. What a crash leaves behind:
that folder.

Concurrency: any thread. Futures are settled, and their callbacks called, by the thread that reads the engine's frames.
"""

from __future__ import annotations

import atexit
import os
import pickle
import shutil
import tempfile
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Executor as BaseExecutor
from concurrent.futures import Future, process
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, Final, NamedTuple, ParamSpec, TypeVar

from actors.protocol import limits
from actors.protocol.errors import (
    ConfigurationError,
    MainspringError,
    PayloadError,
    PayloadUnreadable,
    QueueFull,
    TaskFailed,
)
from actors.protocol.states import FailureKind
from runtime.config import NodeType
from runtime.engine import Runtime
from runtime.handle import TaskHandle
from runtime.host.pending import Pending
from runtime.invoke import Call, InitializerFailed, call_each, invoke
from runtime.items import BlobNeeded
from runtime.registry import Task, TaskOptions

P = ParamSpec("P")
T = TypeVar("T")

_BREAKING: Final = frozenset({FailureKind.CRASH, FailureKind.MEMORY})
_INITIALIZER_FILE: Final = "initializer.pickle"


class _Work(NamedTuple):
    future: Future[Any]
    call: Call


class _Core:
    """The part that outlives the executor object, until all its calls have ended.

    States: open, shut (no more calls), over (the runtime is closed). `broken` says why no call can be run any more.
    Invariants: `ahead` calls are at the engine, the others in `waiting`; `idle` is set when there is neither.
    """

    def __init__(self, runtime: Runtime, workers: int, folder: str | None) -> None:
        self.runtime = runtime
        self.broken: str | None = None
        self.shut = False
        self.idle = threading.Event()
        self.idle.set()
        self._closer: threading.Thread | None = None
        self._lock = threading.Lock()
        self._folder = folder
        self._workers = workers
        self._waiting: deque[_Work] = deque()
        self._pace_ns = float(limits.EXECUTOR_AHEAD_NS)
        self._ahead = self._last_ns = 0
        self._task: Task[..., Any] = Task(invoke, TaskOptions(payloads="pickle", poison=1))

    def add(self, work: _Work) -> None:
        """Take a call. Raises BrokenProcessPool, or RuntimeError after the end."""
        with self._lock:
            if self.broken is not None:
                raise BrokenProcessPool(self.broken)
            if self.shut:
                raise RuntimeError("cannot schedule new futures after shutdown")
            self._waiting.append(work)
            self.idle.clear()
        self.hand_over()

    def hand_over(self) -> None:
        """Give the engine what the workers need next."""
        while True:
            with self._lock:
                more = min(limits.EXECUTOR_AHEAD_MAX, int(limits.EXECUTOR_AHEAD_NS / max(self._pace_ns, 1.0)))
                if not self._waiting or self._ahead >= self._workers + max(1, more):
                    break
                work = self._waiting.popleft()
                self._ahead += 1
            if work.future.set_running_or_notify_cancel():
                if not self._send(work):
                    return
            else:
                self._left(1)
        self._note_idle()

    def _send(self, work: _Work) -> bool:
        """Submit a call whose future is running. False: the engine is full; it goes on by itself."""
        client, dispatch = self.runtime._client, self.runtime._dispatch
        try:
            try:
                handle = dispatch.send(TaskHandle, self._task, (work.call,), {})
            except BlobNeeded:
                handle = dispatch.send_large(TaskHandle, self._task, (work.call,), {})
        except QueueFull:
            cell = client.half_acknowledged()
            return not client.reader.add_hook(cell, partial(self._send_again, work)) and self._send(work)
        except PayloadError as refused:
            self._settle(work.future, None, refused.__cause__ or pickle.PicklingError(refused.message))
        except (MainspringError, RuntimeError) as refused:
            self._settle(work.future, None, BrokenProcessPool(str(refused)))
        else:
            done = partial(self._done, work.future)
            if not client.reader.add_hook(handle, done):
                done(handle)
        return True

    def _send_again(self, work: _Work, _: Pending) -> None:
        if self._send(work):
            self.hand_over()

    def _done(self, future: Future[Any], handle: Pending) -> None:
        """A call has ended; in the reading thread."""
        assert isinstance(handle, TaskHandle)
        now_ns = time.monotonic_ns()
        if self._last_ns:
            self._pace_ns += (now_ns - self._last_ns - self._pace_ns) / 8
        self._last_ns = now_ns
        try:
            result = handle.result()
        except TaskFailed as failed:
            self._settle(future, None, self._error_of(failed))
        except MainspringError as lost:
            self._settle(future, None, BrokenProcessPool(str(lost)))
        except BaseException as unreadable:  # what unpickling a result may raise, SystemExit included
            self._settle(future, None, BrokenProcessPool(f"the result cannot be unpickled: {unreadable!r}"))
        else:
            self._settle(future, result, None)
        self.hand_over()

    def _error_of(self, failed: TaskFailed) -> BaseException:
        """The exception that `ProcessPoolExecutor` would give."""
        if failed.kind in _BREAKING:
            return BrokenProcessPool(f"the worker process ended abruptly while the call was running: {failed.message}")
        if failed.type_name.endswith(InitializerFailed.__name__):
            self._break(failed.message)
            return BrokenProcessPool(failed.message)
        cause = failed.__cause__
        if failed.kind == FailureKind.PAYLOAD:
            unread = PayloadUnreadable.__name__ in failed.message
            return BrokenProcessPool(failed.message) if unread else pickle.PicklingError(failed.message)
        if cause is None:
            return failed
        remote = getattr(process, "_RemoteTraceback", None)
        if remote is not None and failed.traceback_text:
            cause.__cause__ = remote(f'\n"""\n{failed.traceback_text}"""')
        return cause

    def _settle(self, future: Future[Any], result: Any, error: BaseException | None) -> None:
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)
        self._left(1)

    def _left(self, count: int) -> None:
        with self._lock:
            self._ahead -= count
        self._note_idle()

    def _note_idle(self) -> None:
        with self._lock:
            if not self._waiting and not self._ahead:
                self.idle.set()

    def _break(self, why: str) -> None:
        """No call can be run any more."""
        with self._lock:
            self.broken = self.broken or why
            left, self._waiting = self._waiting, deque()
        for work in left:
            if work.future.set_running_or_notify_cancel():
                work.future.set_exception(BrokenProcessPool(why))

    def cancel_waiting(self) -> None:
        """Cancel what was not handed over."""
        with self._lock:
            left, self._waiting = self._waiting, deque()
        for work in left:
            work.future.cancel()
            work.future.set_running_or_notify_cancel()
        self._note_idle()

    def end(self, *, wait: bool) -> None:
        """Take no more calls; close the runtime when the last one has ended."""
        with self._lock:
            self.shut = True
            if begins := self._closer is None:
                self._closer = threading.Thread(target=self._close, name="mainspring-executor-end")
                try:
                    self._closer.start()
                except RuntimeError:  # since Python 3.12 no thread can be started while the interpreter ends
                    self._closer = threading.current_thread()
        if self._closer is not threading.current_thread():
            self._closer.join(None if wait else 0)
        elif begins:
            self._close()

    def _close(self) -> None:
        self.idle.wait()
        self.runtime.close(drain=False)
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


class Executor(BaseExecutor):
    """A process pool with the interface of `concurrent.futures`. See the module.

    Args:
        max_workers: Worker processes, at most; the number of cores when None. They are started when they are needed.
        mp_context: No effect.
        initializer: Called in each worker before its first call. When it raises, the executor is broken.
        initargs: Its arguments.
        max_tasks_per_child: Replace a worker after this many calls; None never.
        state_dir: A state folder to use; a temporary one when None.

    Raises:
        ValueError: A number is out of range. TypeError: The initializer is not callable.
        MainspringError: As `Runtime`.
    """

    def __init__(
        self,
        max_workers: int | None = None,
        mp_context: object = None,
        initializer: Callable[..., object] | None = None,
        initargs: tuple[Any, ...] = (),
        *,
        max_tasks_per_child: int | None = None,
        state_dir: str | os.PathLike[str] | None = None,
    ) -> None:
        workers = _checked(max_workers, initializer, max_tasks_per_child)
        folder = tempfile.mkdtemp(prefix="mainspring-executor-") if state_dir is None else None
        try:
            node_type = NodeType("executor", workers=(1, workers), recycle_tasks=max_tasks_per_child)
            runtime = Runtime(
                os.path.join(folder, "state") if folder is not None else os.fspath(state_dir or ""),
                node_types=[node_type],
                durability="none" if folder is not None else "fsync",
            )
            self._initializer: str | None = None
            if initializer is not None:
                self._initializer = _keep(runtime, folder, initializer, initargs)
        except BaseException:
            if folder is not None:
                shutil.rmtree(folder, ignore_errors=True)
            raise
        self._max_workers = workers
        self._core = _Core(runtime, workers, folder)
        self._finalizer = weakref.finalize(self, self._core.end, wait=False)
        self._finalizer.atexit = False
        self._at_exit = partial(_Core.end, self._core, wait=True)
        weakref.finalize(self, atexit.unregister, self._at_exit).atexit = False
        atexit.register(self._at_exit)

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Schedule `fn(*args, **kwargs)`.

        Args:
            fn: Anything that can be called and pickled.
            args: Its arguments.
            kwargs: Its keyword arguments.

        Returns:
            Its future, at once.

        Raises:
            RuntimeError: After `shutdown`. BrokenProcessPool: the initializer raised.
        """
        future: Future[T] = Future()
        self._core.add(_Work(future, Call(fn, args, kwargs, self._initializer)))
        return future

    def map(
        self,
        fn: Callable[..., T],
        *iterables: Iterable[Any],
        timeout: float | None = None,
        chunksize: int = 1,
    ) -> Iterator[T]:
        """Call in the workers what `map(fn, *iterables)` calls here.

        Args:
            fn: Called with one item of each iterable.
            iterables: Read to the shortest end before this call returns.
            timeout: Seconds from this call, after which the next result raises TimeoutError.
            chunksize: Items in one call.

        Returns:
            The results in order.

        Raises:
            ValueError: chunksize is below 1.
        """
        if chunksize < 1:
            raise ValueError("chunksize must be >= 1.")
        if chunksize == 1:
            return super().map(fn, *iterables, timeout=timeout)
        rows = zip(*iterables, strict=False)
        chunks = super().map(partial(call_each, fn), _chunked(rows, chunksize), timeout=timeout)
        return _flattened(chunks)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more calls and free the processes when the last call has ended.

        Args:
            wait: Return when that is done.
            cancel_futures: Cancel the calls that were not handed over yet.
        """
        core = self._core
        if cancel_futures:
            with core._lock:
                core.shut = True
            core.cancel_waiting()
        self._finalizer.detach()
        core.end(wait=wait)

    @property
    def _broken(self) -> str | bool:
        """Why no call can be run, as `ProcessPoolExecutor` has it."""
        return self._core.broken or False


def _checked(max_workers: int | None, initializer: object, max_tasks_per_child: int | None) -> int:
    if max_workers is None:
        max_workers = os.cpu_count() or 1
    if max_workers <= 0:
        raise ValueError("max_workers must be greater than 0")
    if initializer is not None and not callable(initializer):
        raise TypeError("initializer must be a callable")
    if max_tasks_per_child is not None:
        if not isinstance(max_tasks_per_child, int):
            raise TypeError("max_tasks_per_child must be an integer")
        if max_tasks_per_child <= 0:
            raise ValueError("max_tasks_per_child must be >= 1")
    return max_workers


def _keep(runtime: Runtime, folder: str | None, initializer: Callable[..., object], initargs: tuple[Any, ...]) -> str:
    """Write the initializer to a file from which each worker reads it once."""
    try:
        data = pickle.dumps((initializer, initargs))
    except Exception as refused:
        runtime.close(drain=False)
        raise ConfigurationError(f"the initializer cannot be pickled: {refused}") from refused
    if folder is None:
        store = runtime._client.blobs
        assert store is not None
        return str(store.folder / store.write(f"{runtime._client.session}-0", "initializer", [data]))
    path = Path(folder) / _INITIALIZER_FILE
    path.write_bytes(data)
    return str(path)


def _chunked(rows: Iterable[tuple[Any, ...]], size: int) -> Iterator[list[tuple[Any, ...]]]:
    source = iter(rows)
    while chunk := list(islice(source, size)):
        yield chunk


def _flattened(chunks: Iterator[list[T]]) -> Generator[T, None, None]:
    """The results of all chunks; closing it cancels the calls that remain."""
    try:
        yield from chain.from_iterable(chunks)
    finally:
        close = getattr(chunks, "close", None)
        if close is not None:
            close()
