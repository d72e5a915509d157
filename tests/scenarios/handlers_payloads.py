"""Handlers and classes of the scenarios about exceptions and payloads. They run in workers."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from runtime import TaskContext

PAGE: Final = 4096


def echo(value: Any) -> Any:
    """The value itself, after a round trip through the worker's own types."""
    return value


async def echo_async(value: Any) -> Any:
    return value


def echo_all(*args: Any, **kwargs: Any) -> Any:
    return [args, kwargs]


def nothing(*args: Any) -> None:
    """Takes anything."""


def pid() -> int:
    return os.getpid()


def gone(path: str) -> None:
    """Ends when the file is there; a stop ends it earlier."""
    while not os.path.exists(path):
        time.sleep(0.01)


def keep_and_append(number: int, kept: list[int] = []) -> list[int]:  # noqa: B006  the shared list is the case
    kept.append(number)
    return kept


# --- S22: exceptions that cannot be rebuilt --------------------------------------------------------------------------


class TwoArguments(Exception):
    """The classic: two parameters, one of which reaches `args`. Unpickling calls the constructor with one."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code}: {text}")
        self.code = code


class KeywordsOnly(Exception):
    def __init__(self, *, text: str) -> None:
        super().__init__(text)


class RefusesToReduce(Exception):
    def __reduce__(self) -> Any:
        raise RuntimeError("cannot be reduced")


class RefusesText(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


class EndsWhoeverBuildsIt(Exception):
    """Building it a second time would end the process that does."""

    def __init__(self, text: str, built: int = 0) -> None:
        if os.environ.get("BUILT_ONCE"):
            os._exit(3)
        super().__init__(text)


class LiesAboutItsClass(Exception):
    @property
    def __class__(self) -> Any:
        raise RuntimeError("not telling")


class OwnBase(BaseException):
    """Not an Exception: `except Exception` does not see it."""


def raise_two_arguments() -> None:
    raise TwoArguments(7, "seven")


def raise_keywords_only() -> None:
    raise KeywordsOnly(text="by keyword")


def raise_refuses_to_reduce() -> None:
    raise RefusesToReduce("whole")


def raise_refuses_text() -> None:
    raise RefusesText("hidden")


def raise_ends_whoever_builds_it() -> None:
    os.environ.pop("BUILT_ONCE", None)
    error = EndsWhoeverBuildsIt("once only")
    os.environ["BUILT_ONCE"] = "1"
    raise error


def raise_liar() -> None:
    raise LiesAboutItsClass("who am I")


def raise_base() -> None:
    raise OwnBase("from the base")


def raise_exit() -> None:
    raise SystemExit(4)


def raise_interrupt() -> None:
    raise KeyboardInterrupt("typed by nobody")


def raise_stop() -> None:
    raise StopIteration("no more")


def raise_closed() -> None:
    raise GeneratorExit("closed")


def raise_local() -> None:
    class Local(Exception):
        pass

    raise Local("defined in a function")


def raise_group() -> None:
    raise ExceptionGroup("several", [ValueError("one"), TwoArguments(2, "two")])


def raise_chained() -> None:
    try:
        raise_two_arguments()
    except TwoArguments as first:
        raise KeyError("second") from first


def raise_endless_cause() -> None:
    one, two = ValueError("one"), ValueError("two")
    one.__cause__, two.__cause__ = two, one
    raise one


def raise_long() -> None:
    raise ValueError("long " + "x" * 10_000_000)


def raise_deep(depth: int = 5000) -> None:
    raise_deep(depth - 1)


async def raise_in_coroutine() -> None:
    raise TwoArguments(8, "awaited")


RAISING: Final[MappingProxyType[str, Callable[..., Any]]] = MappingProxyType(
    {
        "TwoArguments": raise_two_arguments,
        "KeywordsOnly": raise_keywords_only,
        "RefusesToReduce": raise_refuses_to_reduce,
        "RefusesText": raise_refuses_text,
        "EndsWhoeverBuildsIt": raise_ends_whoever_builds_it,
        "LiesAboutItsClass": raise_liar,
        "OwnBase": raise_base,
        "SystemExit": raise_exit,
        "KeyboardInterrupt": raise_interrupt,
        "StopIteration": raise_stop,
        "GeneratorExit": raise_closed,
        "Local": raise_local,
        "ExceptionGroup": raise_group,
        "KeyError": raise_chained,
        "ValueError": raise_endless_cause,
        "RecursionError": raise_deep,
    }
)
"""Name of the class -> the handler that raises it."""


# --- S23: what cannot be stored --------------------------------------------------------------------------------------


class Holder(Exception):
    """An exception that holds what no other process can have."""

    def __init__(self, thing: Any) -> None:
        super().__init__("holds a thing", thing)
        self.thing = thing


def things() -> dict[str, Any]:
    """One of each kind of value that is bound to its process."""
    ours, theirs = socket.socketpair()
    theirs.close()
    return {
        "lock": threading.Lock(),
        "socket": ours,
        "lambda": lambda: 0,
        "file": open(os.devnull, "rb"),
        "generator": (n for n in range(3)),
        "thread": threading.Thread(),
        "iterator": iter([1]),
        "object": object(),
        "bound": [].append,
    }


def return_thing(kind: str) -> Any:
    return {"rows": [1, {"inner": things()[kind]}]}


def raise_thing(kind: str) -> None:
    raise Holder(things()[kind])


def return_cycle() -> Any:
    found: list[Any] = [1]
    found.append(found)
    return found


def return_deep(depth: int) -> Any:
    found: Any = 1
    for _ in range(depth):
        found = [found]
    return found


# --- S25: odd text ---------------------------------------------------------------------------------------------------


def say_odd(text: str, context: TaskContext) -> str:
    """The text as result, progress, log line and output."""
    context.log(text)
    context.progress(1, 1, text)
    print(text)
    return text


def raise_odd(text: str, context: TaskContext) -> None:
    context.log(text)
    raise ValueError(text)


# --- S26: large values -----------------------------------------------------------------------------------------------


def private_bytes() -> int:
    """Memory of this process that is its own: neither files nor shared."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    return 0


def look_at(array: Any) -> dict[str, Any]:
    """What a worker sees of a large array: reads every page."""
    ends = [float(array[0]), float(array[-1])]
    array.reshape(-1).view("u1")[::PAGE].sum()
    return {
        "shape": list(array.shape),
        "ends": ends,
        "owns": bool(array.flags.owndata),
        "writeable": bool(array.flags.writeable),
        "private": private_bytes(),
    }


def private_with(value: Any) -> int:
    return private_bytes()


def make_array(count: int) -> Any:
    import numpy as np  # lazy: most scenarios need no arrays

    return np.arange(count, dtype=np.float64)


def make_bytes(count: int) -> bytes:
    return b"\0\xff" * (count // 2)


def make_sparse(path: str, count: int) -> Any:
    """An array of a size that nobody has memory for: a view of a file with a hole."""
    import numpy as np  # lazy: as above

    with open(path, "wb") as file:
        file.truncate(count)
    return np.asarray(np.memmap(path, dtype=np.uint8, mode="r"))


def large_and_lock(count: int) -> Any:
    return [make_array(count), threading.Lock()]


def first_of(value: Any) -> Any:
    return float(value[0])


# --- S27: generators -------------------------------------------------------------------------------------------------


def generator_handler(count: int) -> Any:
    yield from range(count)


async def async_generator_handler(count: int) -> Any:
    for number in range(count):
        yield number


def returns_generator(count: int) -> Any:
    return (number for number in range(count))


def returns_async_generator(count: int) -> Any:
    return async_generator_handler(count)


def returns_iterator(count: int) -> Any:
    return map(abs, range(count))


async def awaits_generator(count: int) -> Any:
    return generator_handler(count)


class CallableGenerator:
    def __call__(self, count: int) -> Any:
        yield count


# --- S28: what has no importable name --------------------------------------------------------------------------------


class Greeter:
    """Methods of it: two have an importable name, one is bound to an instance."""

    def greet(self, name: str) -> str:
        return f"hello {name}"

    @classmethod
    def of_class(cls, name: str) -> str:
        return f"{cls.__name__} {name}"

    @staticmethod
    def of_nobody(name: str) -> str:
        return f"static {name}"


def replaced(name: str) -> str:
    return f"first {name}"


original = replaced


def replaced(name: str) -> str:
    return f"second {name}"


def local_function() -> Callable[..., Any]:
    def inner(name: str) -> str:
        return name

    return inner


def closure(word: str) -> Callable[..., Any]:
    def inner(name: str) -> str:
        return word + name

    return inner


def local_class_method() -> Callable[..., Any]:
    class Local:
        @classmethod
        def method(cls, name: str) -> str:
            return name

    return Local.method


as_lambda = lambda name: name  # noqa: E731  a lambda with a name is still a lambda
