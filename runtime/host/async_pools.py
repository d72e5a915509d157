"""The pools of a worker of mode "asyncio", which has none before a handler uses one. Light: imports the rest then."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import orjson

from runtime.host.attempts import needs_settling
from runtime.host.handlers import Handler

if TYPE_CHECKING:
    from runtime.context import TaskContext
    from runtime.host.async_attempt import Attempt
    from runtime.host.lending import Lending, LoopWays
    from runtime.host.worker_async import AsyncWorker


class AsyncPools:
    """See the module.

    Args:
        loop: The worker's.
        slots: Tasks that it runs at once.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, slots: int) -> None:
        self._loop = loop
        self._slots = slots
        self._ways: LoopWays | None = None

    def lending(
        self, handler: Handler, args: list[Any], kwargs: dict[str, Any], context: TaskContext | None
    ) -> Lending:
        """What an attempt has of the pools."""
        from runtime.host.lending import Lending, LoopWays  # lazy: workers without pools do without

        if self._ways is None:
            self._ways = LoopWays(self._loop, self._slots)
        return Lending(self._ways, handler, args, kwargs, context)

    def report(self, now_ns: int, tell: Callable[[bytes], None], *, last: bool = False) -> None:
        """Tell the engine what is new."""
        if self._ways is not None and (rows := self._ways.lender.report(now_ns, last=last)) is not None:
            tell(b"R" + orjson.dumps(rows))

    def plan(self, then: Callable[[], None]) -> None:
        """The worker goes to sleep: wake it when something is too old, or to be told."""
        if self._ways is not None:
            self._ways.plan(then)

    def close(self, now_ns: int, tell: Callable[[bytes], None]) -> None:
        """The worker ends, and its loop does not run any more."""
        if self._ways is not None:
            self._ways.close()
            self.report(now_ns, tell, last=True)


async def lent_value(
    worker: AsyncWorker,
    attempt: Attempt,
    handler: Handler,
    args: list[Any],
    kwargs: dict[str, Any],
    context: TaskContext | None,
) -> tuple[Any, BaseException | None]:
    """What a handler returns that uses pools, as it is kept: settled before its things go back.

    What it raises is raised here, but for StopIteration, which no coroutine can raise: it is returned.
    """
    try:
        async with worker.pools.lending(handler, args, kwargs, context):
            if handler.coroutine:
                value, exc = await handler.fn(*args, **kwargs), None
            else:
                value, exc = await worker.in_thread(attempt, handler, args, kwargs)
            if exc is not None:
                raise exc
            if needs_settling(value):
                value = await worker.settled(handler, value, attempt.place.run_key)
            return value, None
    except StopIteration as exc:
        return None, exc
