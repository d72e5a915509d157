"""Asyncio's part of the ledger: the tasks and asynchronous generators of a worker's loop, with where they were created.

A task factory enters each task that code in the loop creates, at the line of its `create_task`; a callback releases it
when it is done. Attempts are entered by the worker itself, as created at the first line of their handler. So what is
there is known without asyncio's debug mode, which keeps a stack of each (30 us) and is never on where it would help.

A task that was collected while it waited is an event of its own (`destroyed`, row 2): its entry goes when the loop says
so, or when somebody looks. That, and that nobody took its exception (row 4), is said of the line that created it, with
the labels that it had: the entry of what failed is kept for as long as that may still be said.

Concurrency: the loop's thread. Known limits: tasks of loops that handlers run in threads are seen (`snapshot`) and not
entered; a handler that sets a task factory of its own has none of its tasks entered, nor is what is made with
`asyncio.Task(...)` itself.
"""

from __future__ import annotations

import asyncio
import sys
import weakref
from collections.abc import Callable, Generator
from functools import partial
from types import CodeType
from typing import Any, Final

from runtime.profile.ledger.books import LEDGER
from runtime.profile.ledger.events import EventHooks
from runtime.profile.ledger.kinds import DESTROYED, GENERATOR, TASK, UNREAD
from runtime.profile.ledger.named import enter
from runtime.profile.ledger.origins import ORIGINS
from runtime.profile.ledger.sites import user_place

_DESTROYED: Final = "Task was destroyed but it is pending!"
_OWN: Final = asyncio.__file__.removesuffix("__init__.py")
"""Frames of asyncio itself (`create_task`, `gather`, `TaskGroup`) are not where a task was created."""
_track: Final = LEDGER.track
_drop: Final = LEDGER.drop
_ref: Final = weakref.ref
_UNREAD: Final = "Task exception was never retrieved"
_FAILED_MAX: Final = 1_000
# global: entries of tasks that failed, by their `id`; whoever gets the same one overwrites it when it fails
_FAILED: Final[dict[int, tuple[Any, ...]]] = {}


class LoopBooks:
    """Enters what a loop's code creates. `install` once, before the loop runs."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._before: Callable[[asyncio.AbstractEventLoop, dict[str, Any]], object] | None = None

    def install(self) -> None:
        """From now on."""
        self._loop.set_task_factory(self._made)  # type: ignore[arg-type]  # the stubs ask for a generic callable
        self._before = self._loop.get_exception_handler()
        self._loop.set_exception_handler(self._told)
        EventHooks(enter=True).install(loops=False)
        ORIGINS.install()
        ORIGINS.dress(self._loop)
        LEDGER.audit(TASK, partial(_sweep_and_count, TASK))

    def enters(self) -> bool:
        """Whether all tasks that the loop's factory makes are entered, for it is ours, and not a handler's own."""
        return self._loop.get_task_factory() is LoopBooks._made

    def begin_run(self) -> None:
        """In the loop's thread, after `run_forever` began: it sets hooks of its own for generators each time."""
        hooks = sys.get_asyncgen_hooks()
        if hooks.firstiter is not None and getattr(hooks.firstiter, "__self__", None) is not self:
            self._first = hooks.firstiter
            sys.set_asyncgen_hooks(firstiter=self._iterated, finalizer=hooks.finalizer)

    @staticmethod
    def _made(loop: asyncio.AbstractEventLoop, coro: Generator[Any, None, Any], **more: Any) -> asyncio.Future[Any]:
        task: asyncio.Task[Any] = asyncio.Task(coro, loop=loop, **more)
        if not more or not task.done():  # else it ran to its end at once
            caller = sys._getframe(1)
            while caller.f_code.co_filename.startswith(_OWN) and caller.f_back is not None:
                caller = caller.f_back
            token = _track(TASK, _ref(task), code=caller.f_code, lasti=caller.f_lasti)
            task.add_done_callback(partial(_ended, token))
        return task

    def _iterated(self, generator: Any) -> None:
        self._first(generator)
        task = asyncio.current_task(self._loop)
        owner = None if task is None else _ref(task)
        enter(GENERATOR, generator, generator.__qualname__, user_place(2), owner=owner)

    def _told(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """What the loop would only print."""
        message, task = context.get("message"), context.get("task") or context.get("future")
        coro = task.get_coro() if isinstance(task, asyncio.Task) else None
        code = getattr(coro, "cr_code", None) or getattr(coro, "gi_code", None)
        if message == _DESTROYED and code is not None:
            LEDGER.note(DESTROYED, _name(task), code, _entry_of(task))
            loop.call_soon(sweep, TASK)
        elif message == _UNREAD and code is not None:
            LEDGER.note(UNREAD, _name(task), code, _FAILED.pop(id(task), None))  # global: as there
        if self._before is not None:
            self._before(loop, context)
        else:
            loop.default_exception_handler(context)


def _ended(token: int, task: Any) -> None:
    """A task is done."""
    if task._log_traceback:  # nobody has seen how it failed
        entry = LEDGER.book(TASK).live.get(token)
        if entry is not None:
            _FAILED[id(task)] = entry  # global: as there
            if len(_FAILED) > _FAILED_MAX:
                del _FAILED[next(iter(_FAILED))]  # global: as there
    _drop(token)  # one that was collected while it waited was dropped, and may be woken and end all the same


def _entry_of(task: Any) -> tuple[Any, ...] | None:
    """The entry of a task that is being collected: its weak reference may be gone, its callback is not."""
    for row in getattr(task, "_callbacks", None) or ():
        call = row[0] if isinstance(row, tuple) else row
        if isinstance(call, partial) and call.func is _ended:
            found: tuple[Any, ...] | None = LEDGER.book(TASK).live.get(call.args[0])
            return found
    return None


def _name(task: Any) -> str | None:
    return None if task is None else str(task.get_name())


def enter_attempt(task: asyncio.Task[Any] | None, owner: Any, code: CodeType) -> int:
    """Enter the task of an attempt, as created by its handler; 0 when there is none."""
    return 0 if task is None else _track(TASK, _ref(task), owner=owner, code=code)


def sweep(kind: str) -> int:
    """Take out entries whose thing was collected; returns how many they were. In any thread: a task that ends meanwhile
    is released by its own callback, and collected after that."""
    gone = 0
    for token, entry in LEDGER.book(kind).rows():
        key = entry[2]
        if isinstance(key, weakref.ReferenceType) and key() is None:
            gone += LEDGER.drop(token)
    return gone


def _sweep_and_count(kind: str) -> int:
    """How many tasks of the ledger are not done: what its entries should be."""
    sweep(kind)
    found = 0
    for _, entry in LEDGER.book(kind).rows():
        task = entry[2]() if isinstance(entry[2], weakref.ReferenceType) else None
        found += task is None or not task.done()
    return found
