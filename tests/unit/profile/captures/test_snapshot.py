"""Snapshots: threads by name, and of tasks the whole chain of what they await."""

from __future__ import annotations

import _thread
import asyncio
import os
import threading
import traceback
from collections.abc import AsyncIterator, Callable

import pytest
import uvloop

from runtime.host import kernel
from runtime.profile.captures.snapshot import hung_profile, merged, snapshot
from runtime.profile.ledger.books import LEDGER
from runtime.profile.ledger.tasks import LoopBooks
from runtime.profile.model import Process, Profile, StackSample

ME = Process(1, 2, "worker", 3, "http")


def label(sample: StackSample, name: str) -> str:
    return dict(sample.labels).get(name, "")


def tasks_of(profile: Profile) -> dict[str, StackSample]:
    return {label(sample, "task"): sample for sample, _ in profile if sample.thread == "tasks"}


async def innermost(event: asyncio.Event) -> None:
    await event.wait()


async def numbers(event: asyncio.Event) -> AsyncIterator[int]:
    yield 1
    await innermost(event)
    yield 2


async def outermost(event: asyncio.Event) -> int:
    return sum([number async for number in numbers(event)])


async def seen(snapshots: list[Profile]) -> None:
    books = LoopBooks(asyncio.get_running_loop())
    books.install()
    books.begin_run()
    event = asyncio.Event()
    task = asyncio.create_task(outermost(event), name="waits")
    both = asyncio.create_task(gathers(event), name="gathers")
    ready = asyncio.Event()
    asyncio.get_running_loop().call_later(0.001, ready.set)
    await ready.wait()
    snapshots.append(snapshot(ME))
    event.set()
    await asyncio.gather(task, both)
    asyncio.get_running_loop().set_task_factory(None)


async def gathers(event: asyncio.Event) -> None:
    await asyncio.gather(innermost(event), innermost(event))


def test_under_uvloop() -> None:
    """In a process of its own, because uvloop keeps a pipe once it was used."""
    pid = os.fork()
    if not pid:
        status = 1
        try:
            test_a_task_shows_its_chain_through_generators_and_where_it_was_created(uvloop.new_event_loop)
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    assert os.waitpid(pid, 0)[1] == 0


@pytest.mark.parametrize("factory", [asyncio.new_event_loop])
def test_a_task_shows_its_chain_through_generators_and_where_it_was_created(
    factory: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    before = LEDGER.counts()["task"].live, LEDGER.counts()["generator"].live
    snapshots: list[Profile] = []
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(seen(snapshots))
    tasks = tasks_of(snapshots[0])
    waits = tasks["waits"]
    names = [frame.name for frame in waits.stack]
    assert [name for name in names if name in ("outermost", "numbers", "innermost")] == [
        "outermost", "numbers", "innermost",
    ]  # fmt: skip
    assert names[-1] == "Event.wait"
    assert label(waits, "state") == "waiting"
    assert label(waits, "created").endswith(" seen")
    assert float(label(waits, "age_s")) >= 0
    assert label(tasks["gathers"], "awaits") == "gather of 2"
    assert sum(weight.value for sample, weight in snapshots[0] if label(sample, "created").endswith(" gathers")) == 2
    assert waits.process == ME
    (main,) = [sample for sample, _ in snapshots[0] if sample.thread == "MainThread"]
    assert "snapshot" in [frame.name for frame in main.stack]
    assert (LEDGER.counts()["task"].live, LEDGER.counts()["generator"].live) == before


def test_merged_has_equal_stacks_once() -> None:
    snapshots: list[Profile] = []
    asyncio.run(seen(snapshots))
    plain = merged(snapshots[0])
    assert plain.total() == snapshots[0].total()
    twice = [weight.value for sample, weight in plain if label(sample, "created").endswith(" gathers")]
    assert twice == [2]


def test_threads_are_shown_by_name() -> None:
    gate = threading.Event()
    thread = threading.Thread(target=gate.wait, name="waits for the gate")
    thread.start()
    try:
        profile = snapshot(ME)
    finally:
        gate.set()
        thread.join()
    (found,) = [sample for sample, _ in profile if sample.thread == "waits for the gate"]
    assert found.stack[-1].name in ("Event.wait", "Condition.wait", "Thread._bootstrap", "Thread.start")
    back = Profile.from_json(profile.to_json())
    assert back.samples == profile.samples


@pytest.mark.skipif(not kernel.LINUX, reason="the states of threads are in /proc")
def test_a_forked_child_shows_its_main_thread_once_and_with_its_state() -> None:
    assert threading.main_thread().native_id == os.getpid()
    pid = os.fork()
    if not pid:
        seen = [(sample.thread, label(sample, "state")) for sample, _ in snapshot(ME)]
        os._exit(seen == [("MainThread", "running")])
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 1


@pytest.mark.skipif(not kernel.LINUX, reason="the states of threads are in /proc")
def test_a_thread_that_threading_does_not_know_is_shown_once() -> None:
    begun, go_on = threading.Event(), threading.Event()

    def nameless() -> None:
        begun.set()
        go_on.wait()

    before = sum(label(sample, "state") == "foreign" for sample, _ in snapshot(ME))
    _thread.start_new_thread(nameless, ())
    try:
        assert begun.wait(10)
        seen = snapshot(ME)
    finally:
        go_on.set()
    assert [s.stack[-1].name for s, _ in seen if s.stack and s.stack[0].name.endswith("nameless")] == ["Condition.wait"]
    assert sum(label(sample, "state") == "foreign" for sample, _ in seen) <= before


def test_what_the_c_handler_wrote_is_read() -> None:
    text = (
        "Thread 0x00007f53 (most recent call first):\n  <no Python frame>\n\n"
        "Thread 0x00007f54 (most recent call first):\n"
        '  File "/a b.py", line 4 in wait\n  File "/c.py", line 9 in run\n\n'
        'Current thread 0x00007f55 (most recent call first):\n  File "/x.py", line 24 in <module>\n'
    )
    profile = hung_profile(text, ME)
    stacks = {sample.thread: [frame.name for frame in sample.stack] for sample, _ in profile}
    assert stacks == {"0x7f54": ["run", "wait"], "MainThread": ["<module>"]}
    assert "C function" in profile.notes[0]
