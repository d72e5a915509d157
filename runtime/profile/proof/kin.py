"""What the mark treats apart: which types of objects have which part in waking a task; and what a task consists of."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import functools
import gc
import re
import weakref
from collections import deque
from types import (
    AsyncGeneratorType,
    BuiltinMethodType,
    CodeType,
    CoroutineType,
    FrameType,
    FunctionType,
    GeneratorType,
    MethodType,
    ModuleType,
    TracebackType,
)
from typing import Any, Final

from runtime.profile.model import Frame

PLAIN: Final = 0
ATOM: Final = 1
"""Refers to nothing."""
WEAK: Final = 2
PROXY: Final = 3
FUTURE: Final = 4
HANDLE: Final = 5
"""A callback that a loop will call."""
SUSPENDED: Final = 6
"""Has a frame of its own: a coroutine, a generator."""
TRANSPORT: Final = 7
"""Open, the world outside may wake it."""
WALL: Final = 8
"""A walk from a callback ends here: from a module or a class everything is near."""

_TPFLAGS_HAVE_GC: Final = 1 << 14
_SUSPENDED: Final = (CoroutineType, GeneratorType, AsyncGeneratorType)
_WEAK_BAGS: Final = (weakref.WeakSet, weakref.WeakKeyDictionary, weakref.WeakValueDictionary)
_PASSIVE: Final = (set, dict, list, deque, *_WEAK_BAGS, asyncio.TaskGroup)
"""Methods of these, as callbacks, take a task out and do nothing to it, as `tasks.discard`. A group cancels its tasks
when one of them fails, which is no end that anybody waits for."""
_PASSIVE_MODULES: Final = ("weakref", "_weakrefset", "asyncio.taskgroups", "collections")
_FUTURES: Final = (asyncio.Future, concurrent.futures.Future)
_BOOKS: Final = "runtime.profile."
"""The ledger is told when a task ends, and knows all of them."""
_INTERRUPT: Final = "_on_sigint"
"""What asyncio.run has called on Ctrl-C: it cancels the main task, whatever that does."""
_ASEND: Final = ("async_generator_asend", "async_generator_athrow", "anext_awaitable", "coroutine_wrapper")
_WAKEUP: Final = "wakeup"
"""Methods of tasks that a future calls, whose names end so: what a task waits for says as much."""
_CHAIN_MAX: Final = 1_000
_ADDRESS: Final = re.compile(r" to .* at 0x([0-9a-fA-F]+)>$")


def kind_of(cls: type) -> int:
    """The part that objects of a type have."""
    if not cls.__flags__ & _TPFLAGS_HAVE_GC:
        return ATOM
    if issubclass(cls, weakref.ProxyTypes):
        return PROXY
    if issubclass(cls, weakref.ReferenceType):
        return WEAK
    if issubclass(cls, (asyncio.Future, concurrent.futures.Future)) or hasattr(cls, "_asyncio_future_blocking"):
        return FUTURE
    if issubclass(cls, asyncio.Handle) or (cls.__name__.endswith("Handle") and hasattr(cls, "cancelled")):
        return HANDLE
    if issubclass(cls, _SUSPENDED):
        return SUSPENDED
    if issubclass(cls, asyncio.BaseTransport) or (hasattr(cls, "set_protocol") and hasattr(cls, "is_closing")):
        return TRANSPORT
    walls = (ModuleType, type, asyncio.AbstractEventLoop, contextvars.Context, FrameType, CodeType, TracebackType)
    if issubclass(cls, walls) or cls.__module__ == "runtime.profile.ledger.books":
        return WALL
    return PLAIN


class Kinds(dict[type, int]):
    """`kind_of`, remembered."""

    def __missing__(self, cls: type) -> int:
        try:
            kind = kind_of(cls)
        except Exception:  # noqa: BLE001, RUF100 - a metaclass of users'
            kind = PLAIN
        self[cls] = kind
        return kind


def address_of(proxy: Any) -> int:
    """The identity of what a weak proxy stands for; 0 where that is gone. All but its `repr` is passed on to that."""
    own: Any = type(proxy).__repr__
    found = _ADDRESS.search(own(proxy))
    return 0 if found is None else int(found.group(1), 16)


def waiter_of(task: Any) -> Any:
    """What a task waits for; None when it can run, runs, or says nothing about it."""
    try:
        waiter = None if task.done() else task._fut_waiter
        return None if waiter is None or waiter.done() else waiter
    except Exception:  # noqa: BLE001, RUF100 - a class of users': what cannot be told can run
        return None


def chain_of(task: Any) -> list[Any]:
    """The coroutines of a task from the outermost on, and what lies between them; it ends at what is none."""
    found: list[Any] = []
    try:
        at = task.get_coro()
    except Exception:  # noqa: BLE001, RUF100 - a class of users'
        return found
    while at is not None and len(found) < _CHAIN_MAX:
        if isinstance(at, CoroutineType):
            found.append(at)
            at = at.cr_await
        elif isinstance(at, AsyncGeneratorType):
            found.append(at)
            at = at.ag_await
        elif type(at).__name__ in _ASEND:
            found.append(at)
            at = next((inner for inner in gc.get_referents(at) if isinstance(inner, _SUSPENDED)), None)
        else:
            break
    return found


def stack_of(chain: list[Any]) -> list[Frame]:
    """Where a task waits, the outermost coroutine first, by its `chain_of`."""
    stack = []
    for at in chain:
        frame = getattr(at, "cr_frame", None) or getattr(at, "ag_frame", None)  # None: it has ended
        if frame is not None:
            stack.append(Frame(frame.f_code.co_qualname, frame.f_code.co_filename, frame.f_lineno or 0))
    return stack


def code_of(coroutine: Any) -> CodeType | None:
    """The code of a link of the chain; None of what lies between them."""
    return getattr(coroutine, "cr_code", None) or getattr(coroutine, "ag_code", None)


def beyond(thing: Any) -> list[Any]:
    """What a callback, or something that it has at hand, refers to: of a function not its module."""
    cls = type(thing)
    if cls is FunctionType:
        if (thing.__module__ or "").startswith(_BOOKS):
            return []
        return [cell for cell in (thing.__closure__, thing.__defaults__, thing.__kwdefaults__) if cell is not None]
    if cls is BuiltinMethodType or cls is MethodType:
        owner = thing.__self__
        return [] if _is_passive(owner, thing if cls is BuiltinMethodType else thing.__func__) else [owner]
    if cls is functools.partial and _is_named(thing.func, _INTERRUPT):
        return []
    return gc.get_referents(thing)


def _is_passive(owner: Any, method: Any) -> bool:
    """Whether a method does nothing to the tasks that its owner has; those of users' subclasses may do anything."""
    kind = type(owner)
    if issubclass(kind, _FUTURES):
        return str(getattr(method, "__name__", "")).endswith(_WAKEUP)
    if not issubclass(kind, _PASSIVE):
        return False
    return type(method) is BuiltinMethodType or getattr(method, "__module__", "") in _PASSIVE_MODULES


def _is_named(call: Any, name: str) -> bool:
    return type(call) is MethodType and call.__func__.__name__ == name


def callbacks_of(task: Any) -> list[Any]:
    """What is called when a task ends."""
    try:
        return [row[0] if isinstance(row, tuple) else row for row in task._callbacks or ()]
    except Exception:  # noqa: BLE001, RUF100 - a class of users'
        return []


def owner_of(callback: Any) -> Any:
    """Whose method a callback is; None where it is none, or does not say."""
    try:
        return getattr(callback, "__self__", None)
    except Exception:  # noqa: BLE001, RUF100 - a class of users'
        return None


def is_open(transport: Any) -> bool:
    """Whether the world outside may still say something there."""
    try:
        return not transport.is_closing()
    except Exception:  # noqa: BLE001, RUF100 - a class of users': open, as far as this can be told
        return True


def is_cancelled(handle: Any) -> bool:
    """Whether a callback will not be called."""
    try:
        return bool(handle.cancelled())
    except Exception:  # noqa: BLE001, RUF100 - a class of users'
        return False
