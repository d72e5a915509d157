"""What waits: weights by time, scaled where not all tasks are looked at."""

from __future__ import annotations

import asyncio
import time
from collections import Counter

import pytest

from runtime.profile.ledger.origins import ORIGINS
from runtime.profile.ledger.tasks import LoopBooks
from runtime.profile.sampling import waits
from runtime.profile.sampling.labels import labels
from runtime.profile.sampling.waits import TASKS_MAX, WaitLooks
from tests.unit.profile.loops import run


async def looked_for_a_second(loop: asyncio.AbstractEventLoop) -> WaitLooks:
    """One look at this loop, which stands for a second, with all its slices."""
    looks = WaitLooks(loop, 10.0)
    looks._last_ns = time.monotonic_ns() - 1_000_000_000
    looks._look()
    for _ in range(TASKS_MAX):  # the slices
        await asyncio.sleep(0)
    return looks


def loop_with_books() -> asyncio.AbstractEventLoop:
    """The running loop, whose tasks are entered from now on, as in a worker."""
    running = asyncio.get_running_loop()
    books = LoopBooks(running)
    books.install()
    waits.HERE_WAITS.begin(running, always=False, enters=books.enters)
    return running


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
@pytest.mark.parametrize("count", [0, 1, 50, TASKS_MAX, 3 * TASKS_MAX + 7])
def test_the_sum_is_time_times_tasks(count: int, loop: str) -> None:
    async def part(event: asyncio.Event) -> None:
        with labels(customer="acme"):
            await event.wait()

    async def whole() -> None:
        event = asyncio.Event()
        tasks = [asyncio.create_task(part(event)) for _ in range(count)]
        await asyncio.sleep(0)
        looks = await looked_for_a_second(asyncio.get_running_loop())
        rows = [row for bucket in looks.take() for row in bucket.rows.values() if row.labels]
        assert {row.labels for row in rows} <= {(("customer", "acme"),)}
        assert sum(row.seen for row in rows) <= TASKS_MAX + 1
        assert sum(row.ns for row in rows) / 1e9 == pytest.approx(count, rel=0.2, abs=0.2)
        assert looks.notes()
        event.set()
        await asyncio.gather(*tasks)

    run(whole, loop)


def test_it_looks_until_it_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    async def whole() -> None:
        looks = WaitLooks(asyncio.get_running_loop(), 1_000.0)
        enough = asyncio.Event()
        real = looks._look

        def look() -> None:
            real()
            if looks.looks == 3:
                enough.set()

        monkeypatch.setattr(looks, "_look", look)
        looks.start()
        await enough.wait()
        looks.stop()
        await asyncio.sleep(0)
        assert looks._handle.cancelled()
        assert looks.lag.quantile_ns(0.5) >= 0

    asyncio.run(whole())


@pytest.mark.parametrize("own_factory", [False, True])
@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_tasks_of_the_books_are_drawn_without_a_copy_of_all(
    loop: str, own_factory: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy of 100,000 takes tens of milliseconds. Where a handler has a factory of its own there is no other way."""
    count, copied = 2_000, list[int]()
    monkeypatch.setattr(waits, "HERE_WAITS", waits.HereWaits())
    monkeypatch.setattr(waits, "_tasks", lambda loop: copied.append(1) or list(asyncio.all_tasks(loop)))

    async def whole() -> None:
        running = loop_with_books()
        if own_factory:
            running.set_task_factory(lambda loop, coro, **more: asyncio.Task(coro, loop=loop, **more))
        event = asyncio.Event()
        tasks = [asyncio.create_task(event.wait()) for _ in range(count)]
        await asyncio.sleep(0)
        looks = await looked_for_a_second(running)
        rows = [row for bucket in looks.take() for row in bucket.rows.values()]
        assert bool(copied) is own_factory
        assert TASKS_MAX / 2 < sum(row.seen for row in rows) <= TASKS_MAX + 1
        assert sum(row.ns for row in rows) / 1e9 == pytest.approx(count, rel=0.2)
        looks.stop()
        event.set()
        await asyncio.gather(*tasks)
        ORIGINS.remove()

    run(whole, loop)


@pytest.mark.parametrize("count", [20, 2_000])
def test_tasks_that_no_factory_made_are_seen(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """`asyncio.Task(...)`, as some libraries make eager ones: the books do not know them."""
    monkeypatch.setattr(waits, "HERE_WAITS", waits.HereWaits())

    async def factory(event: asyncio.Event) -> None:
        await event.wait()

    async def direct(event: asyncio.Event) -> None:
        await event.wait()

    async def whole() -> None:
        running = loop_with_books()
        event = asyncio.Event()
        tasks = [asyncio.create_task(factory(event)) for _ in range(count)]
        tasks += [asyncio.Task(direct(event), loop=running) for _ in range(count)]
        await asyncio.sleep(0)
        looks = await looked_for_a_second(running)
        seconds = Counter[str]()
        for bucket in looks.take():
            for row in bucket.rows.values():
                seconds[next(code.co_name for code in reversed(row.places) if not isinstance(code, str))] += row.ns
        assert seconds["direct"] / 1e9 == pytest.approx(count, rel=0.25)
        assert seconds["factory"] / 1e9 == pytest.approx(count, rel=0.25)
        event.set()
        await asyncio.gather(*tasks)
        ORIGINS.remove()

    run(whole, "asyncio")


def test_a_slice_ends_by_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each task may take long, where memory is far away."""
    monkeypatch.setattr(waits, "SLICE_NS", -1)

    async def whole() -> None:
        tasks = [asyncio.create_task(asyncio.Event().wait()) for _ in range(5)]
        await asyncio.sleep(0)
        looks = WaitLooks(asyncio.get_running_loop(), 10.0)
        looks._look()
        (look,) = looks._under_way
        for seen in range(1, 6):
            next(look)
            assert sum(row.seen for row in looks.buckets.open.rows.values()) <= seen + 1
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(whole())
