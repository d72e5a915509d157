"""Tests that are coroutines end the tasks that they created."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from contextvars import Context
from typing import Any

import pytest

from runtime.errors import LeaksFound
from runtime.profile.leak_check.coroutines import ends_clean
from runtime.profile.ledger.books import LEDGER
from runtime.profile.ledger.kinds import TASK

pytestmark = pytest.mark.slow
KEPT: list[asyncio.Task[Any]] = []


async def wait() -> None:
    await asyncio.get_running_loop().create_future()


async def leave() -> int:
    KEPT.append(asyncio.create_task(wait(), name="orders"))
    return 3


async def turns() -> None:
    for _ in range(2):
        await asyncio.sleep(0)


async def leave_for_a_moment() -> int:
    KEPT.append(asyncio.create_task(turns()))
    return 3


async def leave_a_servers() -> int:
    """As what a fixture began does, in its own context, while the test runs."""
    create = asyncio.get_running_loop().create_task
    asyncio.get_running_loop().call_soon(lambda: KEPT.append(create(wait())), context=Context())
    await asyncio.sleep(0)
    return 3


async def leave_one_of_asyncios() -> int:
    """Within `wait_for`, which runs as a task, so that no line of ours is above it."""
    KEPT.append(asyncio.create_task(asyncio.wait_for(wait(), 600)))
    await asyncio.sleep(0)
    return 3


def run(test: Callable[[], Awaitable[int]], settle: float = 60.0, ignore: tuple[str, ...] = ()) -> list[LeaksFound]:
    """What is told."""
    told: list[LeaksFound] = []

    async def main() -> None:
        assert await ends_clean(test, "a test", settle, ignore, told.append)() == 3
        assert asyncio.get_running_loop().get_task_factory() is None

    KEPT.clear()
    asyncio.run(main())
    assert all(task.done() for task in KEPT)
    KEPT.clear()
    return told


def test_what_it_leaves_is_named_with_its_line() -> None:
    live = LEDGER.count(LEDGER.book(TASK)).live
    (found,) = run(leave, 0.0)
    assert "1 x task (orders)" in str(found)
    assert f"created at leave ({__file__}:{leave.__code__.co_firstlineno + 1})" in str(found)
    assert "waits at wait (" in str(found)
    assert LEDGER.count(LEDGER.book(TASK)).live == live


@pytest.mark.parametrize("test", [leave_for_a_moment, leave_a_servers])
def test_what_ends_by_itself_or_is_anothers_may_stay(test: Callable[[], Awaitable[int]]) -> None:
    assert not run(test)


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="wait_for creates no task")
def test_what_asyncio_creates_is_named_by_its_own_line() -> None:
    (found,) = run(leave_one_of_asyncios, 0.0)
    assert f"created at wait ({__file__}:{wait.__code__.co_firstlineno})" in str(found)


def test_what_is_named_may_stay() -> None:
    assert not run(leave, 0.0, ("wait",))
