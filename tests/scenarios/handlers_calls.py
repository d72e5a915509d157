"""Handlers of the scenarios about calls: tasks that call tasks and wait for them."""

from __future__ import annotations

import asyncio

from runtime import Retry, TaskContext, TaskRegistry, errors
from tests.scenarios.handlers import note, wait_for

tasks = TaskRegistry()


def leaf(path: str, value: int) -> int:
    note(path, f"leaf-{value}")
    return value * value


def fib(ctx: TaskContext, n: int) -> int:
    """The classic, by calls only: nested n deep."""
    if n < 2:
        return n
    return ctx.call(fib, n - 1) + ctx.call(fib, n - 2)


def deep(ctx: TaskContext, n: int) -> int:
    """A chain of calls, n deep."""
    return 1 + ctx.call(deep, n - 1) if n else 0


def endless(ctx: TaskContext, n: int) -> int:
    return ctx.call(endless, n + 1)


def parent(ctx: TaskContext, path: str, number: int) -> int:
    """Three children at once."""
    note(path, f"parent-{number}")
    return sum(ctx.gather(*(ctx.ask(leaf, path, 3 * number + i) for i in range(3))))


async def parent_async(ctx: TaskContext, path: str, number: int) -> int:
    """The same as a coroutine."""
    note(path, f"parent-{number}")
    found = await asyncio.gather(*(ctx.acall(leaf, path, 3 * number + i) for i in range(3)))
    return sum(found)


async def parent_group(ctx: TaskContext, path: str, number: int) -> int:
    """The same with a task group."""
    note(path, f"parent-{number}")
    async with asyncio.TaskGroup() as group:
        asked = [group.create_task(ctx.acall(leaf, path, 3 * number + i)) for i in range(3)]
    return sum(one.result() for one in asked)


def one_after_the_other(ctx: TaskContext, path: str, count: int) -> int:
    note(path, "began")
    return sum(ctx.call(leaf, path, value) for value in range(count))


def fails(message: str) -> int:
    raise ValueError(message)


def catches(ctx: TaskContext) -> str:
    try:
        ctx.call(fails, "as planned")
    except errors.TaskFailed as failed:
        return f"{type(failed.__cause__).__name__}: {failed.__cause__}"
    return "no failure"


def lets_it_pass(ctx: TaskContext) -> int:
    return ctx.call(fails, "as planned")


def swallows(ctx: TaskContext, path: str) -> int:
    try:
        return ctx.call(leaf, path, 1)
    except BaseException:
        return -1


def never_waits(ctx: TaskContext, path: str) -> int:
    ctx.ask(leaf, path, 1)
    return 0


def asks_anew(ctx: TaskContext, path: str) -> int:
    """Calls something else each time."""
    note(path, "again")
    with open(path) as file:
        return ctx.call(leaf, path, len(file.readlines()))


@tasks.task(retry=Retry(max_attempts=3, base=0.0))
def fails_after_its_call(ctx: TaskContext, path: str) -> int:
    value = ctx.call(leaf, path, 7)
    note(path, f"attempt-{ctx.attempt}")
    if ctx.attempt < 3:
        raise RuntimeError("once more")
    return value


@tasks.task(timeout=0.5)
def short_of_time(ctx: TaskContext, path: str, gate: str) -> int:
    """Its timeout is shorter than what it waits for."""
    note(path, "short")
    return ctx.call(slow, path, gate)


def slow(path: str, gate: str) -> int:
    note(path, "slow")
    wait_for(gate)
    return 5


def calls_slow(ctx: TaskContext, path: str, gate: str) -> int:
    note(path, "calls")
    return ctx.call(slow, path, gate)


def calls_calls_slow(ctx: TaskContext, path: str, gate: str) -> int:
    return ctx.call(calls_slow, path, gate)


def spawns_and_calls(ctx: TaskContext, path: str) -> int:
    ctx.spawn(leaf, path, 100)
    return ctx.call(leaf, path, 2)


@tasks.task(concurrency_key="printer")
def holds_key(ctx: TaskContext, path: str) -> int:
    return ctx.call(wants_key, path)


@tasks.task(concurrency_key="printer")
def wants_key(path: str) -> int:
    note(path, "printed")
    return 3
