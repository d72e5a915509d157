"""Batching handlers of the scenarios. They run in workers, and note how many calls each batch had (see `handlers`)."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from typing import Any, Final

from runtime import Batch, Failed, TaskContext, TaskRegistry
from runtime.errors import SkipNode
from tests.scenarios.handlers import TICK_S, note, wait_for

TASKS: Final = TaskRegistry()
POISON: Final = 13

Call = list[Any]
"""A number, and the file in which is noted what happens to it."""


def noted(calls: list[Call]) -> list[int]:
    """The numbers; how many they are is noted."""
    note(calls[0][1], f"batch-of-{len(calls)}")
    return [number for number, _ in calls]


@TASKS.task(batch=Batch(max_size=5, max_wait=0.5))
def double(calls: list[Call]) -> list[int]:
    """Twice each."""
    return [2 * number for number in noted(calls)]


@TASKS.task(batch=Batch(max_size=5, max_wait=0.5), node_type="io")
async def double_async(calls: list[Call]) -> list[int]:
    """The same, as a coroutine."""
    await asyncio.sleep(0)
    return [2 * number for number in noted(calls)]


@TASKS.task(batch=Batch(max_size=5, max_wait=0.5), node_type="io")
def double_in_thread(calls: list[Call]) -> list[int]:
    """The same, in a thread of a worker of many."""
    return [2 * number for number in noted(calls)]


@TASKS.task(batch=Batch(max_size=4, max_wait=3600.0))
def patient(calls: list[Call]) -> list[int]:
    """Waits for its batch for an hour."""
    return noted(calls)


@TASKS.task(batch=Batch(max_size=8, max_wait=0.5))
def dies_of_poison(calls: list[Call]) -> list[int]:
    """Its worker dies where the poison is among the calls."""
    if POISON in noted(calls):
        os.kill(os.getpid(), signal.SIGKILL)
    return [number for number, _ in calls]


@TASKS.task(batch=Batch(max_size=4, max_wait=0.5), retry=2)
def refuses_poison(calls: list[Call]) -> list[int | Failed]:
    """The poison fails alone."""
    return [Failed(ValueError("poison")) if number == POISON else number for number in noted(calls)]


@TASKS.task(batch=Batch(max_size=4, max_wait=0.5), retry=3)
def fails_once(calls: list[Call], ctx: TaskContext | None = None) -> list[int]:
    """All fail together in their first attempt."""
    assert ctx is not None
    numbers = noted(calls)
    if ctx.attempt == 1:
        raise ConnectionError("the service is down")
    return numbers


@TASKS.task(batch=Batch(max_size=3, max_wait=0.5))
def wrong_result(calls: list[Call]) -> Any:
    """A result that is none, as the first call says."""
    first: Any = calls[0][0]
    return {"short": [1], "number": 7, "generator": (number for number in (1, 2, 3))}[first]


@TASKS.task(batch=Batch(max_size=3, max_wait=0.5))
def held(calls: list[list[Any]]) -> list[str]:
    """Runs until the gate is there. A call: a word, the file of the notes, the gate."""
    note(calls[0][1], f"batch-of-{len(calls)}")
    wait_for(calls[0][2])
    return [word for word, _, _ in calls]


@TASKS.task(batch=Batch(max_size=3, max_wait=0.5), node_type="io")
async def held_async(calls: list[list[Any]]) -> list[str]:
    """The same, in a worker of many."""
    note(calls[0][1], f"batch-of-{len(calls)}")
    while not os.path.exists(calls[0][2]):  # noqa: ASYNC110, ASYNC240  (what opens the gate is another process)
        await asyncio.sleep(TICK_S)
    return [word for word, _, _ in calls]


@TASKS.task(batch=Batch(max_size=3, max_wait=0.5), timeout=2.0)
def slow_in_company(calls: list[Call]) -> list[int]:
    """Takes too long where the poison is among the calls."""
    if POISON in noted(calls):
        wait_for("/nonexistent/gate")
    return [number for number, _ in calls]


@TASKS.task(batch=Batch(max_size=4, max_wait=0.5))
def sizes(calls: list[Call], ctx: TaskContext | None = None) -> list[list[Any]]:
    """What the context says."""
    assert ctx is not None
    return [[ctx.batch_size, key] for key in ctx.idempotency_keys]


@TASKS.task(batch=Batch(max_size=4, max_wait=0.5))
def adds_nodes(calls: list[Call], ctx: TaskContext | None = None) -> list[int]:
    """Tries to add a node."""
    assert ctx is not None
    ctx.spawn(noted, [])
    return [0] * len(calls)


def numbers_of(path: str, count: int) -> Iterator[Call]:
    """Calls."""
    return ([number, path] for number in range(count))


@TASKS.task(batch=Batch(max_size=3, max_wait=0.5), node_type="io", timeout=2.0)
async def slow_in_company_async(calls: list[Call]) -> list[int]:
    """Takes too long where the poison is among the calls."""
    if POISON in noted(calls):
        await asyncio.sleep(3600)
    return [number for number, _ in calls]


@TASKS.task(batch=Batch(max_size=3, max_wait=0.5), node_type="io", timeout=2.0)
def slow_in_company_in_thread(calls: list[Call]) -> list[int]:
    """The same, in a thread."""
    if POISON in noted(calls):
        wait_for("/nonexistent/gate")
    return [number for number, _ in calls]


@TASKS.task(batch=Batch(max_size=4, max_wait=0.5), payloads="pickle")
def backwards(values: list[bytes]) -> list[Any]:
    """What only pickle can store fails no other; a generator in the place of a result does so alone."""
    return [value[::-1] if value else (n for n in "ab") for value in values]


@TASKS.task(batch=Batch(max_size=3, max_wait=0.5))
def skips(calls: list[Call]) -> list[int | Failed]:
    """The poison is skipped."""
    return [Failed(SkipNode("not needed")) if number == POISON else number for number in noted(calls)]


@TASKS.task(batch=Batch(max_size=3, max_wait=0.5))
def increment(numbers: list[int]) -> list[int]:
    """One more than each."""
    return [number + 1 for number in numbers]
