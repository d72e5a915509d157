"""Tests that are coroutines: what they leave running is looked for within their loop.

Whoever runs such a test, pytest-asyncio or anyio, cancels what is left of its loop before any fixture could look. So
the tasks that the test creates are noted, at the line of their `create_task`, and at its end the loop goes on until
they are done, or named. Tasks of fixtures and of those who run the test are not among them: what is noted was created
in the context of the test, or in one that was copied from it.

Concurrency: the loop's thread. Known limits: of a loop whose task factory the test itself replaces nothing is noted
from then on; asynchronous generators are looked at when the test is over.
"""

from __future__ import annotations

import asyncio
import functools
import weakref
from collections.abc import Awaitable, Callable, Iterable
from contextvars import ContextVar
from typing import Any, Final

from actors.protocol.profile_errors import LeaksFound
from runtime.profile.leak_check.clean import Baseline, Ignore, await_clean
from runtime.profile.leak_check.detectors import Seen
from runtime.profile.ledger.books import LEDGER
from runtime.profile.ledger.kinds import TASK
from runtime.profile.ledger.sites import Place, user_place
from runtime.profile.ledger.tasks import sweep
from runtime.profile.sampling.labels import labels

_ASYNCIO: Final = asyncio.__file__.removesuffix("__init__.py")
_TEST: Final = ContextVar[object]("mainspring-test")
Test = Callable[..., Awaitable[Any]]


def ends_clean(
    test: Test, label: str, settle: float, ignore: Iterable[Ignore], tell: Callable[[LeaksFound], object]
) -> Test:
    """A test at whose end the tasks that it created must be done in time.

    Args:
        test: A coroutine function.
        label: The label "test" of what it makes.
        settle, ignore: As of `assert_clean`.
        tell: Called when some are not.
    """

    @functools.wraps(test)
    async def run(*args: Any, **more: Any) -> Any:
        made = TestTasks(label)
        loop = asyncio.get_running_loop()
        before = loop.get_task_factory()
        loop.set_task_factory(made.factory(before))
        _TEST.set(made)
        try:
            with labels(test=label):
                found = await test(*args, **more)
            left: LeaksFound | None = None
            try:
                if made.some():
                    await await_clean(settle, ignore, baseline=made)
            except LeaksFound as some:
                left = some
            if left is not None:  # here, so that what it raises says nothing twice
                tell(left)
            return found
        finally:
            loop.set_task_factory(before)
            sweep(TASK)

    return run


def _created(coro: Any) -> Place:
    """Where the task that runs creates another one; where only asyncio's own code does, the first line of that."""
    runs = asyncio.current_task()
    place = user_place(3, getattr(runs.get_coro(), "cr_frame", None) if runs is not None else None)
    code = getattr(coro, "cr_code", None)
    return place if code is None or not place[0].co_filename.startswith(_ASYNCIO) else (code, -1)


class TestTasks(Baseline):
    """Everything but the tasks that a test creates from now on."""

    __test__ = False
    machine = False

    def __init__(self, label: str) -> None:
        super().__init__(label)
        self._made = weakref.WeakSet[asyncio.Task[Any]]()

    def knows(self, seen: Seen) -> bool:
        """See `Baseline`."""
        return seen.signature.kind != TASK or all(id(task) != seen.ident for task in self._made)

    def some(self) -> bool:
        """Whether one is not done, or was not collected yet."""
        return any(not task.done() for task in self._made)

    def factory(self, before: Any) -> Any:
        """What creates tasks as before, and notes those of the test."""

        def create(loop: asyncio.AbstractEventLoop, coro: Any, **more: Any) -> Any:
            task = asyncio.Task(coro, loop=loop, **more) if before is None else before(loop, coro, **more)
            if _TEST.get(None) is self and isinstance(task, asyncio.Task) and not task.done():
                self._made.add(task)
                if before is None:
                    code, lasti = _created(coro)
                    token = LEDGER.track(TASK, weakref.ref(task), code=code, lasti=lasti)
                    task.add_done_callback(lambda _: LEDGER.drop(token))
            return task

        return create
