"""What one attempt has of the pools of its process: things in its arguments, and those that it asks for itself.

A `Lending` is entered around the handler and the encoding of its result, because a result may be a thing, or hold one,
that `reset` empties. `ThreadWays` and `LoopWays` say how that is done in each mode, see `pool_hosts`.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractContextManager
from time import monotonic_ns
from types import CodeType, TracebackType
from typing import TYPE_CHECKING, Any, Final, Protocol, Self, TypeVar

from actors.policy.object_pool import INTERRUPTED
from actors.protocol import limits
from actors.protocol.pool_errors import UnknownPool
from runtime.borrowed import Borrowed
from runtime.host.handlers import Handler
from runtime.host.lender import Lender, Loan, interrupts
from runtime.host.pool_hosts import OnLoop, OnThread, PoolHost, drive

if TYPE_CHECKING:
    from runtime.context import TaskContext

T = TypeVar("T")
Lends = Callable[[PoolHost], Coroutine[Any, Any, T]]

DRAIN_S: Final = limits.THINGS_CLOSE_NS / 1e9
"""How long an asyncio worker that ends waits for its things to be closed; what closes for longer is left."""


class Ways(Protocol):
    """How lending is done from a thread, and from a coroutine."""

    lender: Lender

    def begin(self, held: list[Loan]) -> None:
        """An attempt begins, with this list of what it has."""

    def now(self, lends: Lends[T]) -> T:
        """In a thread: do it and wait for its end."""

    async def soon(self, lends: Lends[T]) -> T:
        """In a coroutine."""


class Lending:
    """See the head of the file.

    Args:
        ways: Of the worker.
        handler: Of the attempt.
        args: Its arguments, in which things are put.
        kwargs: The same by keyword.
        context: Gets to know the pools; None where there is none.
    """

    def __init__(
        self, ways: Ways, handler: Handler, args: list[Any], kwargs: dict[str, Any], context: TaskContext | None
    ) -> None:
        self._ways = ways
        self._handler = handler
        self._args = args
        self._kwargs = kwargs
        self._held: list[Loan] = []
        if context is not None:
            context.lends(self)

    def __enter__(self) -> Self:
        self._ways.begin(self._held)
        try:
            self._ways.now(self._fill)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        self._ways.now(lambda host: self._ways.lender.end(host, self._held, interrupted=interrupts(kind)))

    async def __aenter__(self) -> Self:
        try:
            await self._ways.soon(self._fill)
        except BaseException:
            await self.__aexit__(None, None, None)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        await self._ways.soon(lambda host: self._ways.lender.end(host, self._held, interrupted=interrupts(kind)))

    def _fill(self, host: PoolHost) -> Coroutine[Any, Any, None]:
        return self._ways.lender.fill(host, self._held, self._handler, self._args, self._kwargs)

    # --- what the handler asks for --------------------------------------------------------------------------------

    def lent(self, name: str, code: CodeType) -> Borrowed:
        """A thing of the pool of this name, when it is entered. Raises UnknownPool: there is no such pool."""
        if name not in self._handler.pools:
            known = ", ".join(sorted(self._handler.pools))
            raise UnknownPool(f"{self._handler.name} has no pool {name!r}; those of its node type: {known}")
        return Borrowed(self, name, code)

    def borrow(self, name: str, code: CodeType) -> Loan:
        """In a thread: take a thing."""
        taker = threading.get_ident()
        return self._ways.now(lambda host: self._lend(host, name, code, taker))

    async def borrow_async(self, name: str, code: CodeType) -> Loan:
        """In a coroutine."""
        taker = id(asyncio.current_task())
        return await self._ways.soon(lambda host: self._lend(host, name, code, taker))

    def _lend(self, host: PoolHost, name: str, code: CodeType, taker: int) -> Coroutine[Any, Any, Loan]:
        pool = self._ways.lender.pool(self._handler.pools[name])
        return pool.lend(host, self._held, self._handler.name, code, taker)

    def give(self, loan: Loan, kind: type[BaseException] | None) -> None:
        """In a thread: give it back, after a block that ended with an exception of this kind."""
        self._ways.now(lambda host: loan.pool.give(host, loan, interrupted=interrupts(kind)))

    async def give_async(self, loan: Loan, kind: type[BaseException] | None) -> None:
        """In a coroutine."""
        await self._ways.soon(lambda host: loan.pool.give(host, loan, interrupted=interrupts(kind)))


class Stops(Protocol):
    """What is needed of `attempts.Stopper`."""

    loop: asyncio.AbstractEventLoop | None

    def shield(self) -> AbstractContextManager[None]:
        """Holds back what stops the attempt."""

    def keep(self, tasks: set[asyncio.Task[Any]]) -> None:
        """These tasks are not the attempt's and do not end with it."""


class ThreadWays:
    """Mode "process": one attempt at a time, on the main thread, and its coroutines on a loop that is kept.

    Args:
        stopper: Of the worker.
        run: Runs an awaitable to its end on the loop, and keeps what it leaves running.
    """

    def __init__(self, stopper: Stops, run: Callable[[Awaitable[Any]], Any]) -> None:
        self.lender = Lender(1)
        self._stopper = stopper
        self._host = OnThread(self.lender.lock, stopper.shield, run)
        self._held: list[Loan] = []

    def begin(self, held: list[Loan]) -> None:
        """What the attempt before this could not give back, because it was stopped while it did, is closed."""
        left, self._held = self._held, held
        for loan in left:
            if not loan.done:
                drive(loan.pool.settle(self._host, loan, INTERRUPTED))

    def now(self, lends: Lends[T]) -> T:
        """See `Ways`."""
        return drive(lends(self._host))

    async def soon(self, lends: Lends[T]) -> T:
        """See `Ways`."""
        loop = asyncio.get_running_loop()
        if loop is not self._stopper.loop:
            raise UnknownPool("`async with` takes things on the worker's own loop only; use `with` here")
        return await lends(OnLoop(self.lender.lock, loop, self._stopper.keep))

    def patience_s(self, most_s: float | None) -> float | None:
        """Between tasks: how long the worker may sleep; closes what is too old."""
        drive(self.lender.expire(self._host))
        due_ns = self.lender.due_ns()
        if due_ns is None:
            return most_s
        due_s = max(0.001, (due_ns - monotonic_ns()) / 1e9)
        return due_s if most_s is None else min(most_s, due_s)

    def close(self) -> None:
        """The worker ends."""
        drive(self.lender.drain(self._host))


class LoopWays:
    """Mode "asyncio": everything on the worker's loop; threads of handlers ask there and wait.

    Args:
        loop: The worker's.
        slots: Tasks that it runs at once.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, slots: int) -> None:
        self.lender = Lender(slots)
        self._loop = loop
        self._host = OnLoop(self.lender.lock, loop)
        self._thread = threading.get_ident()
        self._planned = False

    def begin(self, held: list[Loan]) -> None:
        """Nothing: whatever stops a coroutine arrives where it waits."""

    def now(self, lends: Lends[T]) -> T:
        """See `Ways`."""
        if threading.get_ident() == self._thread:
            raise UnknownPool("a coroutine takes things with `async with`, because it must not hold up the others")
        asked = asyncio.run_coroutine_threadsafe(self._on_loop(lends), self._loop)
        try:
            return asked.result()
        except BaseException:
            asked.cancel()
            raise

    async def soon(self, lends: Lends[T]) -> T:
        """See `Ways`."""
        if asyncio.get_running_loop() is self._loop:
            return await lends(self._host)
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._on_loop(lends), self._loop))

    async def _on_loop(self, lends: Lends[T]) -> T:
        return await lends(self._host)

    def plan(self, then: Callable[[], None]) -> None:
        """The worker goes to sleep: wake it when something is too old, or to be told."""
        due_ns = None if self._planned else self.lender.due_ns()
        if due_ns is not None:
            self._planned = True
            self._loop.call_later(max(0.001, (due_ns - monotonic_ns()) / 1e9), self._due, then)

    def _due(self, then: Callable[[], None]) -> None:
        self._planned = False
        self._loop.create_task(self._expire(then))

    async def _expire(self, then: Callable[[], None]) -> None:
        await self.lender.expire(self._host)
        then()

    def close(self) -> None:
        """The worker ends; its loop does not run any more."""
        self._loop.run_until_complete(self._close())

    async def _close(self) -> None:
        closing = self._loop.create_task(self.lender.drain(self._host))
        await asyncio.wait([closing, *self._host.closing], timeout=DRAIN_S)
