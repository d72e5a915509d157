"""What may wake a task besides what refers to its future: methods of whoever has it, and finalizers of garbage."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from typing import Any, NoReturn

import pytest

from runtime.profile.proof.prove import LEAK, SUSPECT
from tests.unit.profile.proof.test_prove import PINNED, look, never

pytestmark = [pytest.mark.slow, pytest.mark.fresh]  # it goes over all objects of its process


class Registry(dict[int, asyncio.Task[Any]]):
    """Methods of its own do what they like to the tasks that it has."""

    def expire(self, key: int) -> None:
        self.pop(key).cancel()


class Keeper:
    """Has a task, and a method that is called like one of asyncio's."""

    task: asyncio.Task[Any]

    def on_wakeup(self) -> None:
        self.task.cancel()


@pytest.mark.parametrize("kind", [Registry, Keeper])
def test_a_timer_that_cancels_a_task_by_a_method_of_whoever_has_it_is_no_leak(kind: type) -> None:
    async def plant() -> None:
        owner, loop = kind(), asyncio.get_running_loop()
        task = asyncio.create_task(never())
        PINNED.add(task)
        if isinstance(owner, Registry):
            owner[1] = task
            loop.call_later(3600, owner.expire, 1)
        else:
            owner.task = task
            loop.call_later(3600, owner.on_wakeup)

    assert look(plant).findings == []


class Finalizes:
    """Garbage, in a ring with itself, that wakes somebody when it is collected."""

    def __init__(self, event: asyncio.Event) -> None:
        self.event, self.ring = event, self

    def __del__(self) -> None:
        self.event.set()


def finalizes(event: asyncio.Event, ring: list[Any]) -> Iterator[None]:
    """The same as a generator, which is in `ring`."""
    try:
        yield
    finally:
        event.set()
        ring.clear()


def test_what_a_finalizer_may_wake_is_a_suspect() -> None:
    async def waits(event: asyncio.Event) -> None:
        await event.wait()

    async def plant() -> None:
        first, second = asyncio.Event(), asyncio.Event()
        for event in (first, second):
            PINNED.add(asyncio.create_task(waits(event)))
        Finalizes(first)
        ring: list[Any] = []
        ring.append(finalizes(second, ring))
        next(ring[0])

    gc.collect()
    gc.disable()
    try:
        found = look(plant, never).findings
    finally:
        gc.enable()
    assert sorted(row.grade for row in found) == [LEAK, SUSPECT, SUSPECT]
    assert {"collected" in row.why for row in found if row.grade == SUSPECT} == {True}


def test_a_task_that_has_what_finalizes_itself_is_a_leak() -> None:
    async def waits() -> None:
        event = asyncio.Event()
        mine = Finalizes(event)
        await mine.event.wait()

    assert [row.grade for row in look(waits).findings] == [LEAK]


class Strange(type):
    """Says nothing about its classes."""

    def __getattr__(cls, name: str) -> NoReturn:
        raise RuntimeError(name)


class Stranger(metaclass=Strange):
    """Nor do its objects; can be called."""

    def __getattr__(self, name: str) -> NoReturn:
        raise RuntimeError(name)

    def __call__(self, *_: Any) -> None:
        """A callback."""


def test_things_that_raise_when_they_are_looked_at_hide_no_leak() -> None:
    async def plant() -> None:
        task = asyncio.create_task(never())
        PINNED.add(task)
        task.add_done_callback(Stranger())

    proof_of = look(plant)
    assert ([row.grade for row in proof_of.findings], proof_of.notes) == ([LEAK], [])
