"""Soundness of the mark (acceptance 5 of the profiler): on any graph of tasks, futures and boxes, whatever it proves to
be a leak is one, by a second and simpler account of who can wake whom; and without unseen references it finds them all.

The graph is real: tasks that wait for real futures and have others at hand. Only the heap is small: what was there
before counts as alive and is not looked into.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.profile.proof.kin import waiter_of
from runtime.profile.proof.mark import Mark
from runtime.profile.proof.roots import Roots, tasks_there

pytestmark = pytest.mark.fresh  # it goes over all objects of its process
MOST = 6


class Graph(NamedTuple):
    """Task i waits for future `waits[i]`, and has in its variables what `has[i]` says; a box refers to things.

    A thing is a number: futures first, then boxes. `roots` are the living's, `unseen` are futures that C code has;
    `timed` are tasks that a timer would cancel.
    """

    futures: int
    waits: list[int]
    has: list[list[int]]
    boxes: list[list[int]]
    roots: list[int]
    unseen: list[int]
    timed: list[int]


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    futures, boxes, tasks = (draw(st.integers(1, MOST)) for _ in range(3))
    things = st.lists(st.integers(0, futures + boxes - 1), max_size=3)
    some = st.lists(st.integers(0, futures - 1), max_size=1)
    return Graph(
        futures,
        [draw(st.integers(0, futures - 1)) for _ in range(tasks)],
        [draw(things) for _ in range(tasks)],
        [draw(things) for _ in range(boxes)],
        draw(things),
        draw(some),
        draw(st.lists(st.integers(0, tasks - 1), max_size=1)),
    )


def truth(graph: Graph, roots: list[int]) -> set[int]:
    """Tasks that can be woken, told by going round until nothing changes."""
    alive, woken = set(roots), set(graph.timed)
    while True:
        before = len(alive), len(woken)
        for thing in list(alive):
            if thing >= graph.futures:
                alive.update(graph.boxes[thing - graph.futures])
        woken.update(task for task, future in enumerate(graph.waits) if future in alive)
        for task in woken:
            alive.update([graph.waits[task], *graph.has[task]])
        if before == (len(alive), len(woken)):
            return woken


class Box:
    """Refers to things."""

    def __init__(self) -> None:
        self.things: list[Any] = []


class Built(NamedTuple):
    """The graph, as far as the test may refer to it: its tasks, what the living have, and the addresses that C has."""

    tasks: list[Any]
    living: list[Any]
    unseen: list[int]


def build(graph: Graph, loop: asyncio.AbstractEventLoop, armed: list[Any]) -> Built:
    futures = [loop.create_future() for _ in range(graph.futures)]
    things: list[Any] = [*futures, *(Box() for _ in graph.boxes)]
    for box, inner in zip(things[graph.futures :], graph.boxes, strict=True):
        box.things += [things[thing] for thing in inner]

    async def task(*has: Any) -> None:
        await has[0]

    made = [
        loop.create_task(task(futures[future], *(things[thing] for thing in has)))
        for future, has in zip(graph.waits, graph.has, strict=True)
    ]
    armed += [loop.call_later(3600, made[at].cancel) for at in graph.timed]
    for at in graph.unseen:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(futures[at]))
    return Built(made, [things[thing] for thing in graph.roots], [id(futures[at]) for at in graph.unseen])


def marked(graph: Graph) -> tuple[set[int], set[int]]:
    """What the mark says: proved, and suspects."""
    loop = asyncio.new_event_loop()
    armed: list[Any] = []
    old = gc.get_objects()  # kept, so that no new object has the identity of one of them
    before = set(map(id, old))
    built = build(graph, loop, armed)
    loop.call_soon(loop.stop)
    loop.run_forever()
    try:
        assert all(waiter_of(task) is not None for task in built.tasks)
        gc.collect()
        taken = Roots(built.tasks, [], [*built.living, *armed], [], [], [])
        own = {id(built), id(old), id(before), id(built.living), id(built.unseen), id(built.tasks)}
        heap = [one for one in gc.get_objects() if id(one) not in before and id(one) not in own]
        mark = Mark(heap, taken)
        mark.seen |= before | own
        rings = mark.run().rings
        proved = {task for ring in rings if not ring.why for task in ring.tasks}
        return proved, {task for ring in rings if ring.why for task in ring.tasks}
    finally:
        for address in built.unseen:
            ctypes.pythonapi.Py_DecRef(ctypes.cast(address, ctypes.py_object))
        for task in built.tasks:
            task.cancel()
        for handle in armed:
            handle.cancel()
        loop.run_until_complete(asyncio.gather(*built.tasks, return_exceptions=True))
        loop.close()


@pytest.mark.slow
@settings(max_examples=60)
@given(graphs())
def test_what_is_proved_is_true(graph: Graph) -> None:
    proved, suspects = marked(graph)
    there = set(range(len(graph.waits)))
    assert proved == there - truth(graph, graph.roots + graph.unseen)
    assert proved | suspects == there - truth(graph, graph.roots)


def test_nothing_is_left_of_the_tasks() -> None:
    gc.collect()
    assert not [task for task in tasks_there() if task.get_coro().__qualname__.startswith("build")]
