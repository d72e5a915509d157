"""Where lending runs: how a borrower waits, and how what must be awaited is, without two versions of `lender`.

What lends is written as coroutines. On a loop (`OnLoop`) they are awaited as any. Where there is none (`OnThread`: the
main thread of a worker of mode "process", or a thread of its handler) nothing in them ever suspends: `wait` blocks the
thread, `run` runs a coroutine to its end on the loop that the worker keeps, and `drive` takes the result at the first
step. So a pool of plain things needs no asyncio.

Concurrency: `guard` excludes threads from the books, and on the main thread holds back the exception that stops an
attempt, so books are changed wholly or not at all. Waiters are told under the guard, from any thread.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from actors.policy.object_pool import Granted
from actors.protocol.errors import InternalError
from actors.protocol.pool_errors import UnknownPool

if TYPE_CHECKING:
    import asyncio

T = TypeVar("T")


def drive(lends: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that never suspends."""
    try:
        lends.send(None)
    except StopIteration as done:
        found: T = done.value
        return found
    lends.close()
    raise InternalError("what lends waited where there is no loop")


class Waiter(Protocol):
    """Who waits for a thing; called when it is granted. `told`: it was; `grant` None then: the pool is drained."""

    told: bool
    grant: Granted | None

    def __call__(self, grant: Granted | None) -> None:
        """It is granted."""


class PoolHost(Protocol):
    """See the head of the file."""

    def guard(self) -> AbstractContextManager[None]:
        """Books may be changed inside."""

    def waiter(self) -> Waiter:
        """One that `wait` can wait for."""

    async def wait(self, waiter: Any, timeout: float | None) -> None:
        """Until it is told, or the time is over."""

    async def run(self, waits: Awaitable[Any]) -> Any:
        """The result of what must be awaited on the loop."""

    async def later(self, closes: Coroutine[Any, Any, None]) -> None:
        """Do it, at once or behind the attempt."""


class BlockedThread:
    """A thread that waits."""

    def __init__(self) -> None:
        self.told = False
        self.grant: Granted | None = None
        self.event = threading.Event()

    def __call__(self, grant: Granted | None) -> None:
        self.grant, self.told = grant, True
        self.event.set()


class OnThread:
    """Lending where there is no loop.

    Args:
        lock: Of the books.
        shield: Holds back what stops the attempt; does nothing off the main thread.
        run: Runs an awaitable to its end on the loop that is kept, and keeps what it leaves running.
    """

    def __init__(
        self,
        lock: threading.Lock,
        shield: Callable[[], AbstractContextManager[None]],
        run: Callable[[Awaitable[Any]], Any],
    ) -> None:
        self._lock = lock
        self._shield = shield
        self._run = run
        self._thread = threading.get_ident()

    @contextmanager
    def guard(self) -> Iterator[None]:
        """See `PoolHost`."""
        with self._shield(), self._lock:
            yield

    def waiter(self) -> BlockedThread:
        """See `PoolHost`."""
        return BlockedThread()

    async def wait(self, waiter: BlockedThread, timeout: float | None) -> None:
        """See `PoolHost`."""
        waiter.event.wait(timeout)

    async def run(self, waits: Awaitable[Any]) -> Any:
        """See `PoolHost`. Raises UnknownPool: the loop is not to be had here."""
        if threading.get_ident() != self._thread or _loop_runs():
            if hasattr(waits, "close"):
                waits.close()
            raise UnknownPool("a pool with coroutines is used with `async with` in a coroutine, and not in a thread")
        return self._run(waits)

    async def later(self, closes: Coroutine[Any, Any, None]) -> None:
        """See `PoolHost`."""
        await closes


class WaitingTask:
    """A task that waits."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.told = False
        self.grant: Granted | None = None
        self.future: asyncio.Future[None] = loop.create_future()
        self._loop = loop
        self._thread = threading.get_ident()

    def __call__(self, grant: Granted | None) -> None:
        self.grant, self.told = grant, True
        if threading.get_ident() == self._thread:
            self._wake()
        else:
            self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        if not self.future.done():
            self.future.set_result(None)


class OnLoop:
    """Lending on the worker's loop.

    Args:
        lock: Of the books.
        loop: The worker's loop.
        keeps: Called with the tasks that a coroutine of the pool left running. None: a worker of mode "asyncio", where
            what runs goes on anyway, and things are closed behind the attempt.
    """

    def __init__(
        self,
        lock: threading.Lock,
        loop: asyncio.AbstractEventLoop,
        keeps: Callable[[set[asyncio.Task[Any]]], None] | None = None,
    ) -> None:
        self._lock = lock
        self.loop = loop
        self._keeps = keeps
        self.closing: set[asyncio.Task[None]] = set()

    def guard(self) -> AbstractContextManager[Any]:
        """See `PoolHost`. What stops a coroutine arrives where it waits, so no shield is needed."""
        return self._lock

    def waiter(self) -> WaitingTask:
        """See `PoolHost`."""
        return WaitingTask(self.loop)

    async def wait(self, waiter: WaitingTask, timeout: float | None) -> None:
        """See `PoolHost`."""
        import asyncio  # lazy: as in `later`

        await asyncio.wait([waiter.future], timeout=timeout)

    async def run(self, waits: Awaitable[Any]) -> Any:
        """See `PoolHost`."""
        if self._keeps is None:
            return await waits
        import asyncio  # lazy: as in `later`

        before = asyncio.all_tasks()
        try:
            return await waits
        finally:
            self._keeps(asyncio.all_tasks() - before)

    async def later(self, closes: Coroutine[Any, Any, None]) -> None:
        """See `PoolHost`."""
        if self._keeps is not None:
            await closes
            return
        task = self.loop.create_task(closes, name="mainspring-pool-closer")
        self.closing.add(task)
        task.add_done_callback(self.closing.discard)


def _loop_runs() -> bool:
    import asyncio  # lazy: workers of mode "process" do without, mostly; who has something to await has imported it

    return asyncio._get_running_loop() is not None
