"""The reachability proof: what it finds, what it leaves alone, and what it says where it cannot look."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import sys
import threading
import time
import weakref
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any, NoReturn

import orjson
import pytest

from runtime.host import kernel
from runtime.profile.ledger import pins
from runtime.profile.ledger.pins import Pinned
from runtime.profile.proof import apart, support
from runtime.profile.proof import prove as proof
from runtime.profile.proof.kin import chain_of, stack_of
from runtime.profile.proof.mark import Mark, Marked
from runtime.profile.proof.prove import LEAK, SUSPECT, Proof, examine
from runtime.profile.sampling.waits import SLICE, WaitLooks

pytestmark = [pytest.mark.slow, pytest.mark.fresh]  # it goes over all objects of its process
PINNED: set[asyncio.Task[Any]] = set()


async def never() -> None:
    await asyncio.get_running_loop().create_future()


async def nap() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def look(*makes: Callable[[], Awaitable[Any]], **options: Any) -> Proof:
    """Start these, pinned, and look for what nothing can wake."""

    async def main() -> Proof:
        for make in makes:
            PINNED.add(asyncio.ensure_future(make()))
        await nap()
        try:
            return examine(confirm_s=0.0, **options)
        finally:
            for task in list(asyncio.all_tasks() - {asyncio.current_task()}):
                task.cancel()
            await asyncio.gather(*PINNED, return_exceptions=True)
            PINNED.clear()

    return asyncio.run(main())


def test_what_nothing_refers_to_is_proved_with_its_places() -> None:
    (found,) = look(never).findings
    assert (found.grade, found.waits) == (LEAK, "Future")
    assert found.site.name == "never"
    assert found.site.line == never.__code__.co_firstlineno
    assert found.stack[-1].line == never.__code__.co_firstlineno + 1
    assert found.ring == (found.task,)
    assert found.why == "waits in never for a Future that nothing alive refers to"


def test_a_process_without_waiting_tasks_is_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> NoReturn:
        raise AssertionError("forked for nothing")

    monkeypatch.setattr(proof, "child_of", fails)
    assert examine().findings == []


def test_two_that_wait_for_each_other_through_a_shield_are_one_ring() -> None:
    """And who gathers them is behind them."""

    async def waits(mine: list[Any], other: list[Any]) -> None:
        mine.append(asyncio.current_task())
        await asyncio.sleep(0)
        await asyncio.shield(other[0])

    async def gathers() -> None:
        one: list[Any] = []
        other: list[Any] = []
        await asyncio.gather(waits(one, other), waits(other, one))

    found = {len(row.ring): row for row in look(gathers).findings}
    assert {size: row.grade for size, row in found.items()} == {1: LEAK, 2: LEAK}
    assert set(found[1].behind) == set(found[2].ring)


class Box:
    """Can be held weakly."""

    def __init__(self) -> None:
        self.future: asyncio.Future[None] = asyncio.get_running_loop().create_future()


def test_two_that_wait_for_each_other_by_weak_proxies_are_one_ring() -> None:
    async def waits(mine: Box, other: Any) -> None:
        assert not other.future.done()
        await mine.future

    async def start() -> None:
        first, second = Box(), Box()
        for mine, other in ((first, second), (second, first)):
            PINNED.add(asyncio.ensure_future(waits(mine, weakref.proxy(other))))

    (found,) = look(start).findings
    assert (len(found.ring), found.grade) == (2, LEAK)


def test_what_somebody_alive_has_by_a_weak_proxy_is_no_leak() -> None:
    proxies: list[Any] = []

    async def waits() -> None:
        box = Box()
        proxies.append(weakref.proxy(box))
        await box.future

    assert look(waits).findings == []
    assert len(proxies) == 1


def test_what_a_leaked_task_has_costs_the_mark_few_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fifty thousand of them must be proved in seconds. Calls are counted, which no other load changes."""
    run = Mark.run

    def counted(self: Mark, **asked: Any) -> Marked:
        calls = 0

        def count(_: Any, event: str, __: Any) -> None:
            nonlocal calls
            calls += event == "call"

        sys.setprofile(count)
        try:
            return run(self, **asked)._replace(objects=calls)
        finally:
            sys.setprofile(None)

    async def gets() -> None:
        await asyncio.Queue[None]().get()

    monkeypatch.setattr(Mark, "run", counted)
    few, many = look(*[gets] * 100), look(*[gets] * 200)
    assert len(many.findings) == 200
    assert (many.objects - few.objects) / 100 < 40


def test_a_reference_of_an_extension_makes_it_a_suspect() -> None:
    """Acceptance 5: what C code holds nobody can follow, so it is no proof."""

    async def held() -> None:
        future = asyncio.get_running_loop().create_future()
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(future))
        address = id(future)
        try:
            await future
        finally:
            ctypes.pythonapi.Py_DecRef(ctypes.cast(address, ctypes.py_object))

    found = {row.site.name.rpartition(".")[2]: row for row in look(held, never).findings}
    assert {name: row.grade for name, row in found.items()} == {"held": SUSPECT, "never": LEAK}
    assert "something unseen" in found["held"].why
    assert "refers to a Future" in found["held"].why


def test_what_a_suspect_may_wake_is_a_suspect() -> None:
    """A task behind one that an extension may wake is not proved either; without that it is, with what it is behind."""
    event = [asyncio.Event()]

    async def first(hold: bool) -> None:
        mine, future = event[0], asyncio.get_running_loop().create_future()
        if hold:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(future))
        address = id(future)
        try:
            await future
        finally:
            mine.set()
            if hold:
                ctypes.pythonapi.Py_DecRef(ctypes.cast(address, ctypes.py_object))

    async def second() -> None:
        mine = event.pop()
        await mine.wait()

    for hold, grade in ((True, SUSPECT), (False, LEAK)):
        event[:] = [asyncio.Event()]
        found = {row.site.name.rpartition(".")[2]: row for row in look(partial(first, hold), second).findings}
        assert {name: row.grade for name, row in found.items()} == {"first": grade, "second": grade}
        assert [other.get_coro().__qualname__.rpartition(".")[2] for other in found["second"].behind] == ["first"]


def test_what_a_living_coroutine_names_is_a_suspect() -> None:
    """A watchdog has the task in a variable, to cancel it: that is an end that a registry does not give."""

    async def watchdog(task: asyncio.Task[None]) -> None:
        done = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_later(3600, done.set_result, None)
        await done
        task.cancel()

    async def watched() -> None:
        task = asyncio.create_task(never())
        PINNED.add(asyncio.create_task(watchdog(task)))
        PINNED.add(task)

    (found,) = look(watched).findings
    assert found.grade == SUSPECT
    assert "watchdog, which is alive, names it" in found.why


def test_registries_are_cut_and_what_ends_by_itself_is_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    registry: dict[str, Any] = {}
    monkeypatch.setattr(pins, "PINS", [])

    async def known() -> None:
        registry["future"] = asyncio.get_running_loop().create_future()
        await registry["future"]

    assert look(known).findings == []
    registry.clear()
    assert [row.grade for row in look(known, cut=[registry]).findings] == [LEAK]
    assert look(known, cut=[registry], roots_extra=registry.values()).findings == []
    pins.PINS.append(lambda: Pinned((registry,)))
    assert [row.grade for row in look(known).findings] == [LEAK]
    pins.PINS.append(lambda: Pinned((), tuple(PINNED)))
    assert look(known).findings == []
    pins.PINS.append(lambda: Pinned(1 // 0))
    assert look(known).notes == []
    registry.clear()


@pytest.mark.parametrize("count", [1, SLICE * 2 + 1])
def test_the_profiler_that_looks_at_tasks_wakes_none(count: int) -> None:
    """Its timers lead to what it keeps about tasks, in the midst of a look, too."""

    async def main() -> Proof:
        PINNED.update(asyncio.ensure_future(never()) for _ in range(count))
        await nap()
        looks = WaitLooks(asyncio.get_running_loop(), 10.0)
        looks.start()
        looks._look()
        next(looks._under_way[0], None)
        try:
            return examine(confirm_s=0.0)
        finally:
            looks.stop()
            for task in PINNED:
                task.cancel()
            await asyncio.gather(*PINNED, return_exceptions=True)
            PINNED.clear()

    assert [row.grade for row in asyncio.run(main()).findings] == [LEAK] * count
    assert not [say for say in pins.PINS if isinstance(getattr(say, "__self__", None), WaitLooks)]


def test_a_task_that_goes_on_between_the_two_marks_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same task, waiting for something else: it moves."""
    real, turn = proof._confirmed, []

    def moved(known: dict[int, Any], seen: Any) -> Any:
        turn.append(len(seen.verdict.rings))
        return real({key: (row[0], lambda: None, row[2]) for key, row in known.items()}, seen)

    monkeypatch.setattr(proof, "_confirmed", moved)
    assert look(never).findings == []
    assert turn == [1]


def test_looking_keeps_nothing_alive_and_changes_no_variables() -> None:
    """Frames keep what `f_locals` made of them, up to Python 3.12: it is emptied, unless user code has it, too."""
    freed = threading.Event()
    go = threading.Event()

    class Thing:
        def __del__(self) -> None:
            freed.set()

    def holds() -> None:
        thing = Thing()
        mine = locals()
        go.wait()
        assert mine["thing"] is thing
        mine.clear()
        del thing
        assert freed.wait(10)

    def drops() -> None:
        thing = Thing()
        go.wait()
        del thing
        assert freed.wait(10)

    for body in (holds, drops):
        freed.clear()
        go.clear()
        failed: list[BaseException] = []

        def call(body: Callable[[], None] = body, failed: list[BaseException] = failed) -> None:
            try:
                body()
            except BaseException as exc:
                failed.append(exc)

        thread = threading.Thread(target=call)
        thread.start()
        look(never)
        go.set()
        thread.join()
        assert failed == []


def test_the_child_leaves_this_process_as_it_is() -> None:
    before = os.listdir("/proc/self/fd"), signal.pthread_sigmask(signal.SIG_BLOCK, ()), os.nice(0)
    children = set(kernel.child_pids(os.getpid()))
    look(never)
    assert set(kernel.child_pids(os.getpid())) <= children
    assert (os.listdir("/proc/self/fd"), signal.pthread_sigmask(signal.SIG_BLOCK, ()), os.nice(0)) == before


def test_no_finalizer_runs_twice_and_no_descriptor_is_shared_for_long() -> None:
    """The child closes what it inherited before it does anything else, and ends without cleaning up."""
    near, far = os.pipe()

    def tells(given: Any, heap: list[Any]) -> bytes:
        return orjson_like(sorted(int(name) for name in os.listdir("/proc/self/fd")), len(heap), os.nice(0))

    try:
        child = apart.child_of(tells, None)
        told = child.answer(time.monotonic() + 60).split(b";")
    finally:
        os.close(near)
        os.close(far)
    fds, objects, nice = told
    assert len(fds.split(b",")) == 5  # 0 to 2, the pipe, and the look itself
    assert int(objects) > 10_000
    assert int(nice) == 19


def orjson_like(fds: list[int], objects: int, nice: int) -> bytes:
    return b"%s;%d;%d" % (b",".join(b"%d" % fd for fd in fds), objects, nice)


def test_a_child_that_fails_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(*_: Any) -> bytes:
        raise ZeroDivisionError("on purpose")

    def dies(*_: Any) -> bytes:
        os.kill(os.getpid(), signal.SIGKILL)
        return b""

    monkeypatch.setattr(proof, "_marked", breaks)
    assert look(never) == Proof([], ["no proof: the child failed: ZeroDivisionError: on purpose"])
    monkeypatch.setattr(proof, "_marked", dies)
    assert look(never).notes == ["no proof: the child failed: it ended with status -9"]


def test_a_child_that_takes_too_long_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    def hangs(*_: Any) -> bytes:
        while True:
            signal.pause()

    monkeypatch.setattr(proof, "_marked", hangs)
    assert look(never, timeout=0.2).notes == ["no proof: the child took too long and was killed"]


def test_where_memory_is_short_nothing_is_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apart, "_SPARE_BYTES", 1 << 60)
    (note,) = look(never).notes
    assert note.startswith("no proof: it needs ")


def test_a_python_that_shows_less_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    assert support.lacking() == ()
    monkeypatch.setattr(support, "waiter_of", lambda task: None)
    assert support._shows_waits() == "a task does not show what it waits for (_fut_waiter)"
    monkeypatch.undo()
    monkeypatch.setattr(support, "callbacks_of", lambda task: [])
    assert support._shows_waits() == "a future does not show whom it wakes (_callbacks)"
    monkeypatch.setattr(proof, "lacking", lambda: ("this Python is no CPython",))
    assert look(never) == Proof([], ["no proof: this Python is no CPython"])


def test_the_stack_of_a_task_goes_through_generators() -> None:
    async def produces() -> Any:
        await never()
        yield 1

    async def consumes() -> None:
        async for _ in produces():
            pass

    (found,) = look(consumes).findings
    assert [frame.name.rpartition(".")[2] for frame in found.stack] == ["consumes", "produces", "never"]
    assert stack_of(chain_of(object())) == []


def test_a_thread_at_work_is_alive_and_so_is_what_it_will_wake() -> None:
    """Of a thread its variables are seen, and what only its evaluation stack has is a suspect, not proved."""
    hold, entered = threading.Event(), threading.Event()

    def wakes(future: Any) -> None:
        entered.set()
        hold.wait()
        with suppress(RuntimeError):  # the loop is closed
            future.get_loop().call_soon_threadsafe(lambda: None)

    async def waits() -> None:
        future = asyncio.get_running_loop().create_future()
        thread = threading.Thread(target=wakes, args=(future,))
        thread.start()
        try:
            await future
        finally:
            hold.set()

    try:
        assert look(waits).findings == []
    finally:
        hold.set()
    assert entered.is_set()


def test_what_needs_no_mark_counts_when_it_is_said_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = iter(["ab", "ac"])
    monkeypatch.setattr(pins, "EVIDENCE", [lambda: 1 // 0, lambda: [("run", key, "lost") for key in next(looks)]])

    class Asked:
        until_ns = time.monotonic_ns() + 60 * 10**9
        options = {"confirm_s": 0.0}

    rows = orjson.loads(proof.answer(Asked()))  # type: ignore[arg-type]
    assert rows["others"] == [{"kind": "run", "key": "a", "why": "lost"}]
