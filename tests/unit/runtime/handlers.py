"""Functions that the tests of the face submit, and some that must be refused."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import datetime
from typing import Any

from runtime import Retry, TaskContext, TaskRegistry
from runtime.errors import SkipNode, TaskFailed

tasks = TaskRegistry()


def add_one(x: int) -> int:
    return x + 1


def total(*values: Any, **named: Any) -> Any:
    return sum(values) + sum(named.values())


def echo(value: Any) -> Any:
    return value


def gather(*values: Any, **named: Any) -> list[Any]:
    return [list(values), named]


def due_of_attempt(context: TaskContext) -> datetime | None:
    return context.due


def fail(text: str) -> None:
    raise ValueError(text)


def odd_only(x: int) -> int:
    if x % 2 == 0:
        raise ValueError(f"{x} is even")
    return x


def skip() -> None:
    raise SkipNode("not today")


def wait_for(timeout: float, priority: str) -> tuple[float, str]:
    return timeout, priority


def any_keyword(**named: Any) -> dict[str, Any]:
    return named


async def slow_echo(value: Any) -> Any:
    return value


@tasks.task
def plain_task(x: int) -> int:
    """A task without options."""
    return x * 2


@tasks.task(node_type="cpu", timeout=5.0, retry=Retry(max_attempts=3, base=0.0), priority="high", name="named")
def full_task(x: int) -> int:
    return x * 3


@tasks.task
def context_task(x: int, context: TaskContext | None = None) -> list[Any]:
    assert context is not None
    return [x, context.node, context.attempt]


@tasks.task
def spawner(n: int, ctx: TaskContext) -> int:
    for i in range(n):
        ctx.spawn(add_one, i)
    return n


def generator(n: int) -> Iterator[int]:
    yield from range(n)


async def async_generator(n: int) -> AsyncIterator[int]:
    for i in range(n):
        yield i


def make_local() -> Callable[[], int]:
    def local() -> int:
        return 1

    return local


def make_method() -> Any:
    class Local:
        def method(self) -> int:
            return 1

    return Local().method, Local.method


class Tool:
    """A class with all kinds of methods."""

    def method(self) -> int:
        return 1

    @classmethod
    def made(cls, x: int) -> str:
        return f"{cls.__name__}{x}"

    @staticmethod
    def double(x: int) -> int:
        return 2 * x


class Callee:
    """Instances can be called."""

    def __call__(self) -> int:
        return 1


class NoHash:
    """Instances can be called and have no hash."""

    __hash__ = None  # type: ignore[assignment]

    def __call__(self) -> int:
        return 1


def replaced() -> int:
    return 1


original_replaced = replaced


def replaced() -> int:  # type: ignore[no-redef]
    return 2


def loud(fn: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(fn)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)

    return wrapper


@loud
def wrapped(x: int) -> int:
    return x


GATE = threading.Event()
"""Held closed by tests whose engine is a thread of their own process."""


def through_gate(x: int) -> int:
    assert GATE.wait(10)
    return x


def first_passes(x: int) -> int:
    """All but the first item wait for the gate."""
    assert x == 0 or GATE.wait(10)
    return x


FLAKY: list[int] = []
CALLS: list[int] = []
MENDED = threading.Event()


def flaky(x: int) -> int:
    FLAKY.append(x)
    if len(FLAKY) < 3:
        raise OSError("not yet")
    return x


def nap(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


class OddError(Exception):
    """Its constructor does not fit its args."""

    def __init__(self, a: int, b: int) -> None:
        super().__init__(a)
        self.b = b


def fail_oddly() -> None:
    raise OddError(1, 2)


def fail_with(*values: Any, **named: Any) -> None:
    raise ValueError("whatever it is called with")


def count_calls(x: int) -> int:
    CALLS.append(x)
    return x


def mendable(x: int) -> int:
    """Fails until it is mended."""
    if not MENDED.is_set():
        raise ValueError("broken")
    return x


def fib(ctx: TaskContext, n: int) -> int:
    return n if n < 2 else ctx.call(fib, n - 1) + ctx.call(fib, n - 2)


def refuse(text: str) -> int:
    raise ValueError(text)


async def asks_in_vain(ctx: TaskContext) -> str:
    """Asks for three, of which one fails."""
    asked = [ctx.ask(add_one, 1), ctx.ask(refuse, "no number"), ctx.ask(add_one, 2)]
    found = ctx.gather(*asked, return_exceptions=True)
    assert found[::2] == [2, 3]
    try:
        await asked[1]
    except TaskFailed as failed:
        return f"{type(failed.__cause__).__name__}: {failed.__cause__}"
    return "nothing failed"
