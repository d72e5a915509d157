"""Who waits for a task, whatever lies between, under asyncio and uvloop."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from types import ModuleType
from typing import Any

import pytest

from runtime.profile.sampling.labels import LABELS, current, expand, labels
from runtime.profile.sampling.parents import (
    above,
    chain_above,
    chain_of,
    context_of,
    parent_of,
    running_task,
    task_frame,
)
from runtime.profile.sampling.threads import walk
from tests.unit.profile.loops import run

Way = Callable[[Callable[[], Awaitable[Any]]], Awaitable[Any]]


async def directly(part: Callable[[], Any]) -> Any:
    return await asyncio.create_task(part())


async def gathered(part: Callable[[], Any]) -> Any:
    return (await asyncio.gather(part(), asyncio.sleep(0)))[0]


async def grouped(part: Callable[[], Any]) -> Any:
    async with asyncio.TaskGroup() as group:
        task = group.create_task(part())
    return task.result()


async def waited(part: Callable[[], Any]) -> Any:
    done, _ = await asyncio.wait([asyncio.create_task(part())])
    return done.pop().result()


async def shielded(part: Callable[[], Any]) -> Any:
    return await asyncio.shield(asyncio.create_task(part()))


async def timed(part: Callable[[], Any]) -> Any:
    return await asyncio.wait_for(asyncio.create_task(part()), 60.0)


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
@pytest.mark.parametrize("way", [directly, gathered, grouped, waited, shielded, timed])
def test_the_task_that_waits_is_found(way: Way, loop: str) -> None:
    async def part() -> Any:
        await asyncio.sleep(0)  # the parent waits by now
        return parent_of(asyncio.current_task()), above(asyncio.current_task())[0]

    async def whole() -> None:
        found, places = await way(part)
        assert found is asyncio.current_task()
        names = [place if isinstance(place, str) else place.co_name for place in places]
        assert names[0] == "<task>"
        assert names[-1] in ("whole", "run")
        assert way.__name__ in names

    run(whole, loop)


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_a_task_for_which_nobody_waits_has_no_parent(loop: str) -> None:
    async def part() -> Any:
        return parent_of(asyncio.current_task())

    async def whole() -> None:
        task = asyncio.create_task(part())
        await asyncio.sleep(0)
        assert task.done()
        assert task.result() is None

    run(whole, loop)


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_a_running_stack_ends_at_its_task_and_goes_on_in_who_waits(loop: str) -> None:
    async def part() -> Any:
        await asyncio.sleep(0)
        return (), running_task() is asyncio.current_task(), stack()

    def stack() -> Any:
        return chain_above(*walk(sys._getframe()))

    async def whole() -> None:
        _, same, (places, offsets) = await asyncio.create_task(part())
        assert same
        names = [place if isinstance(place, str) else place.co_name for place in places]
        assert names[:4] == ["stack", "part", "<task>", "whole"]
        assert len(offsets) == len(places)

    run(whole, loop)


def test_outside_of_a_task_a_stack_stays_as_it_is() -> None:
    assert running_task() is None
    assert chain_above((), ()) == ((), ())


def test_the_context_of_what_waits_is_seen() -> None:
    async def part(event: asyncio.Event) -> None:
        with labels(customer="acme"):
            await event.wait()

    async def whole() -> None:
        event = asyncio.Event()
        task = asyncio.create_task(part(event))
        await asyncio.sleep(0)
        context = context_of(task)
        assert expand(context.get(LABELS)) == (("customer", "acme"),)
        places, offsets = chain_of(task.get_coro())
        assert [place.co_name for place in places if not isinstance(place, str)] == ["part", "wait"]
        assert len(offsets) == 2
        event.set()
        await task
        assert current() == ()

    asyncio.run(whole())


def test_names_of_tasks_are_few() -> None:
    async def whole() -> None:
        names = {"Task-12": "<task>", "fetch 17": "<task fetch #>", "checkout/pay@run8": "<task checkout/pay>"}
        for name, shown in names.items():
            task = asyncio.create_task(asyncio.sleep(0), name=name)
            assert task_frame(task) == shown
            assert task_frame(task) is task_frame(task)
            await task

    asyncio.run(whole())


@pytest.mark.parametrize("name", ["asyncio", "asyncio.events", "asyncio.tasks"])
def test_a_module_that_is_being_imported_is_no_failure(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tick may come in the midst of an import, when parts of asyncio are there without their functions."""
    monkeypatch.setitem(sys.modules, name, ModuleType(name))
    assert running_task() is None
