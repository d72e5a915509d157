"""Tasks in the ledger: released when done, an event when collected, and audited against what the loop knows."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Iterator

import pytest

from runtime.profile.ledger.books import LEDGER
from runtime.profile.ledger.kinds import DESTROYED, GENERATOR, TASK, UNREAD
from runtime.profile.ledger.tasks import LoopBooks, enter_attempt, sweep


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    found = asyncio.new_event_loop()
    LoopBooks(found).install()
    yield found
    found.close()
    for kind in (DESTROYED, UNREAD):
        for entry in list(LEDGER.entries(kind)):
            LEDGER.release(entry.token)
    LEDGER._audits.clear()


def live(kind: str) -> int:
    return LEDGER.counts()[kind].live


async def forever() -> None:
    await asyncio.get_running_loop().create_future()


async def fails() -> None:
    raise ValueError("nobody looks")


async def nothing() -> None:
    pass


def test_tasks_are_released_however_they_end(loop: asyncio.AbstractEventLoop) -> None:
    before = live(TASK)

    async def main() -> None:
        tasks = [asyncio.create_task(body()) for body in (nothing, fails, forever)]
        assert live(TASK) == before + 4
        tasks[2].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    loop.run_until_complete(main())
    loop.run_until_complete(nothing())
    assert live(TASK) == before
    assert LEDGER.balance() == {}


def test_the_site_is_the_callers_line_also_in_a_group(loop: asyncio.AbstractEventLoop) -> None:
    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(nothing())
            names = {entry.site[-1].name.rpartition(".")[2] for entry in LEDGER.entries(TASK)}
            assert "main" in names

    loop.run_until_complete(main())


def test_an_attempt_is_created_by_its_handler(loop: asyncio.AbstractEventLoop) -> None:
    async def main() -> None:
        token = enter_attempt(asyncio.current_task(), "place", nothing.__code__)
        entry = LEDGER.entry(token)
        assert entry is not None
        assert (entry.owner, entry.site[-1].name) == ("place", "nothing")
        assert entry.key() is asyncio.current_task()
        LEDGER.release(token)

    loop.run_until_complete(main())
    assert enter_attempt(None, "place", nothing.__code__) == 0


def test_a_task_that_was_collected_while_it_waited_is_an_event(
    loop: asyncio.AbstractEventLoop, caplog: pytest.LogCaptureFixture
) -> None:
    before = live(TASK), live(DESTROYED)

    async def main() -> None:
        asyncio.create_task(forever())  # noqa: RUF006 - this is the mistake
        await asyncio.sleep(0)
        gc.collect()
        await asyncio.sleep(0)

    loop.run_until_complete(main())
    loop.run_until_complete(nothing())
    assert live(DESTROYED) == before[1] + 1
    (entry,) = LEDGER.entries(DESTROYED)
    assert entry.site[-1].name.endswith("main")
    assert entry.site[-1].line == main.__code__.co_firstlineno + 1
    assert live(TASK) == before[0]
    assert "was destroyed" in caplog.text


def test_an_exception_that_nobody_took_is_entered(
    loop: asyncio.AbstractEventLoop, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        task = asyncio.create_task(fails())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        del task
        gc.collect()

    loop.run_until_complete(main())
    (entry,) = LEDGER.entries(UNREAD)
    assert entry.site[-1].name.endswith("main")
    assert entry.site[-1].line == main.__code__.co_firstlineno + 1
    assert "never retrieved" in caplog.text


def test_a_task_whose_release_was_lost_shows_in_the_balance(loop: asyncio.AbstractEventLoop) -> None:
    """Row 22: the books say that it lives, the loop says that it is done."""
    token = 0

    async def main() -> None:
        nonlocal token
        token = enter_attempt(asyncio.current_task(), None, nothing.__code__)

    task = loop.create_task(main())
    loop.run_until_complete(task)
    loop.run_until_complete(nothing())
    assert LEDGER.balance() == {TASK: 1}
    LEDGER.release(token)
    assert LEDGER.balance() == {}


def test_generators_are_released_when_they_are_gone(loop: asyncio.AbstractEventLoop) -> None:
    before = live(GENERATOR)
    books = LoopBooks(loop)

    async def numbers() -> object:
        yield 1
        yield 2

    async def main() -> None:
        books.begin_run()
        whole = [number async for number in numbers()]
        assert whole == [1, 2]
        half = numbers()
        await anext(half)  # type: ignore[call-overload]
        assert live(GENERATOR) == before + 1
        (entry,) = LEDGER.entries(GENERATOR)
        assert entry.site[-1].name.endswith("main")
        assert entry.key.name.endswith("numbers")
        await half.aclose()  # type: ignore[attr-defined]
        del half
        gc.collect()

    loop.run_until_complete(main())
    assert live(GENERATOR) == before


class Thing:
    """What is looked at."""


THING = Thing()


class EndsWhileLookedAt(weakref.ref[Thing]):
    """Of a task that is done, and then collected, just when somebody looks whether it is there."""

    token = 0

    def __call__(self) -> None:  # type: ignore[override]
        if self.token:
            LEDGER.release(self.token)


def test_what_ends_while_it_is_swept_is_released_once() -> None:
    """In the thread of a survey; the half hour of the soak had seven of them."""
    before, ends = LEDGER.balance(), EndsWhileLookedAt(THING)
    ends.token = LEDGER.track(TASK, ends)
    assert sweep(TASK) == 0
    assert LEDGER.balance() == before


def test_who_comes_late_finds_that_it_was_dropped() -> None:
    before, token = LEDGER.balance(), LEDGER.track(TASK, "gone")
    assert LEDGER.drop(token)
    assert not LEDGER.drop(token)
    assert LEDGER.balance() == before


def test_what_is_woken_by_a_collection_ends_once(loop: asyncio.AbstractEventLoop) -> None:
    """Two tasks that wait for each other's lock, and for them nobody: closing the one gives its lock to the other."""

    async def grab(one: asyncio.Lock, other: asyncio.Lock) -> None:
        async with one:
            await asyncio.sleep(0)
            async with other:
                pass

    async def deadlock() -> None:
        one, other = asyncio.Lock(), asyncio.Lock()
        tasks = [asyncio.create_task(grab(one, other)), asyncio.create_task(grab(other, one))]
        for _ in range(5):
            await asyncio.sleep(0)
        assert not any(task.done() for task in tasks)

    async def main() -> None:
        for _ in range(10):
            await deadlock()
        gc.collect()
        for _ in range(10):
            await asyncio.sleep(0)

    before = LEDGER.balance().get("?", 0)
    loop.run_until_complete(main())
    assert LEDGER.balance().get("?", 0) == before
    assert len(LEDGER.book(DESTROYED).live) == 20
