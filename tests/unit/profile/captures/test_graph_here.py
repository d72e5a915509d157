"""Which tasks a task waits for, whatever it waits with."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from runtime.profile.captures.graph import Graph, WaitEdge, WaitNode
from runtime.profile.captures.graph_here import here

Way = Callable[["asyncio.Task[None]", "asyncio.Task[None]"], Awaitable[Any]]


async def group(one: asyncio.Task[None], other: asyncio.Task[None]) -> None:
    async def follow(task: asyncio.Task[None]) -> None:
        await task

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(follow(one), name="follows one")
        tasks.create_task(follow(other), name="follows other")


WAYS: dict[str, Way] = {
    "gather": asyncio.gather,
    "gather of gathers": lambda one, other: asyncio.gather(asyncio.gather(one), asyncio.gather(other)),
    "wait": lambda one, other: asyncio.wait([one, other]),
    "wait_for": lambda one, other: asyncio.wait_for(asyncio.gather(one, other), 60),
    "shield": lambda one, other: asyncio.shield(asyncio.gather(one, other)),
    "group": group,
}


def graph_of(found: tuple[list[WaitNode], list[WaitEdge]]) -> tuple[Graph, dict[str, str]]:
    graph = Graph()
    for node in found[0]:
        graph.nodes[node.id] = node
    for edge in found[1]:
        graph.after.setdefault(edge.waits, {})[edge.waited_for] = edge.how
    return graph, {node.title: node.id for node in found[0]}


@pytest.mark.parametrize("name", WAYS)
def test_a_task_that_waits_for_tasks_is_seen_to(name: str) -> None:
    async def run() -> None:
        gate = asyncio.Event()

        async def part() -> None:
            await gate.wait()

        async def whole() -> None:
            await WAYS[name](one, other)

        one, other = asyncio.create_task(part(), name="one"), asyncio.create_task(part(), name="other")
        waiting = asyncio.create_task(whole(), name="whole")
        for _ in range(5):
            await asyncio.sleep(0)
        graph, ids = graph_of(here("worker 1", os.getpid()))
        below: set[str] = set()
        begin = [ids["whole"]]
        while begin:
            after = graph.after.get(begin.pop(), {})
            below.update(after)
            begin += after
        assert {ids["one"], ids["other"]} <= below
        assert graph.cycles() == []
        assert graph.nodes[ids["one"]].at.startswith("Event.wait")
        gate.set()
        await waiting

    asyncio.run(run())


def test_two_that_wait_for_each_other_are_a_cycle() -> None:
    async def run() -> None:
        tasks: list[asyncio.Task[None]] = []

        async def part(number: int) -> None:
            await asyncio.sleep(0)
            await asyncio.shield(tasks[1 - number])  # a ring without one cannot be cancelled: asyncio recurses

        tasks += [asyncio.create_task(part(number), name=f"part {number}") for number in (0, 1)]
        for _ in range(5):
            await asyncio.sleep(0)
        graph, ids = graph_of(here("worker 1", os.getpid()))
        assert graph.cycles() == [sorted([ids["part 0"], ids["part 1"]])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(run())


def test_a_thread_that_joins_another_one_waits_for_it() -> None:
    gate, begun = threading.Event(), threading.Event()
    inner = threading.Thread(target=gate.wait, name="inner")

    def join() -> None:
        begun.set()
        inner.join()

    outer = threading.Thread(target=join, name="outer")
    inner.start()
    outer.start()
    begun.wait()
    graph, ids = graph_of(here("face", os.getpid()))
    while "outer" in ids and not graph.after.get(ids["outer"]):  # it is about to wait
        graph, ids = graph_of(here("face", os.getpid()))
    assert graph.after[ids["outer"]] == {ids["inner"]: "joins"}
    gate.set()
    outer.join()
