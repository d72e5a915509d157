"""Lending where it goes wrong: stopped while things go back, made or checked, and a borrower that waits for itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import nullcontext, suppress
from typing import Any, NoReturn

import pytest

from actors.protocol.pool_errors import PoolTimeout
from runtime.host.lender import Lender, Loan, ObjectPool
from runtime.host.pool_hosts import OnLoop, OnThread, drive
from runtime.host.pool_things import make_thing
from runtime.pools import Pool, PoolOptions


def pool_of(make: Callable[[], Any], **options: Any) -> Pool[Any]:
    """A pool with a local factory, which `Pool` refuses because workers could not find it."""
    made: Pool[Any] = Pool.__new__(Pool)
    made.fn, made.settings, made.name = make, PoolOptions(**options), "things"
    return made


def on_loop(test: Callable[[Lender, OnLoop], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        lender = Lender(4)
        await test(lender, OnLoop(lender.lock, asyncio.get_running_loop()))

    asyncio.run(main())


def test_who_is_stopped_while_things_go_back_keeps_none_of_them() -> None:
    async def test(lender: Lender, host: OnLoop) -> None:
        entered = asyncio.Event()

        async def reset(_: Any) -> None:
            entered.set()
            await asyncio.Event().wait()

        pool = ObjectPool(pool_of(object, max_size=3, reset=reset), 1)
        held: list[Loan] = []
        for _ in range(3):
            await pool.lend(host, held, "test")
        ends = asyncio.create_task(lender.end(host, held, interrupted=False))
        await entered.wait()
        ends.cancel()
        with pytest.raises(asyncio.CancelledError):
            await ends
        assert pool.book.counts().lent == 0

    on_loop(test)


def test_what_goes_back_already_is_not_reset_again() -> None:
    """A task that the attempt left behind is at it; so a second reset would come when the thing is another's."""

    async def test(lender: Lender, host: OnLoop) -> None:
        resets, go_on = [0], asyncio.Event()

        async def reset(_: Any) -> None:
            resets[0] += 1
            await go_on.wait()

        pool = ObjectPool(pool_of(object, max_size=1, reset=reset), 1)
        held: list[Loan] = []
        loan = await pool.lend(host, held, "test")
        first = asyncio.create_task(pool.give(host, loan))
        await asyncio.sleep(0)
        await lender.end(host, held, interrupted=False)
        go_on.set()
        await first
        assert resets == [1]
        assert pool.book.counts().idle == 1

    on_loop(test)


def test_one_that_fails_its_check_is_closed_once_when_no_other_can_be_made() -> None:
    closed: list[int] = []
    fates = iter([1])

    def make() -> int:
        for fate in fates:
            return fate
        raise ValueError("there is no other")

    async def test(lender: Lender, host: OnLoop) -> None:
        pool = ObjectPool(pool_of(make, max_size=1, check=lambda _: False, close=closed.append), 1)
        held: list[Loan] = []
        await pool.lend(host, held, "test")
        await lender.end(host, held, interrupted=False)
        with pytest.raises(ValueError, match="no other"):
            await pool.lend(host, held, "test")
        await asyncio.gather(*host.closing)
        assert closed == [1]
        assert pool.book.size == 0

    on_loop(test)


def test_one_that_is_entered_when_its_attempt_is_stopped_is_left() -> None:
    async def test(lender: Lender, host: OnLoop) -> None:
        said: list[str] = []
        go_on = asyncio.get_running_loop().create_future()

        async def make() -> AsyncIterator[int]:
            await go_on
            said.append("entered")
            asyncio.get_running_loop().call_soon(borrower.cancel)
            yield 1
            said.append("left")

        borrower = asyncio.create_task(make_thing(pool_of(make), host))
        await asyncio.sleep(0)
        go_on.set_result(None)
        with suppress(asyncio.CancelledError):
            made = await borrower
            assert made.leave is not None
            await made.leave()
        assert said == ["entered", "left"]

    on_loop(test)


def test_who_has_all_of_a_pool_is_not_left_to_wait_for_himself() -> None:
    lender = Lender(1)

    def runs(_: Any) -> NoReturn:
        raise AssertionError

    host = OnThread(lender.lock, nullcontext, runs)
    pool = ObjectPool(pool_of(object), 1)
    held: list[Loan] = []
    drive(pool.lend(host, held, "test"))
    with pytest.raises(PoolTimeout, match="would wait for itself"):
        drive(pool.lend(host, held, "test", taker=7))
    drive(lender.end(host, held, interrupted=False))
    assert pool.book.counts()[:4] == (1, 1, 0, 0)
    drive(pool.lend(host, held, "test", taker=7))


def test_another_thread_or_task_of_the_attempt_is_waited_for() -> None:
    async def test(lender: Lender, host: OnLoop) -> None:
        pool = ObjectPool(pool_of(object, max_size=1), 1)
        held: list[Loan] = []
        loan = await pool.lend(host, held, "test", taker=1)
        waits = asyncio.create_task(pool.lend(host, held, "test", taker=2))
        await asyncio.sleep(0)
        await pool.give(host, loan)
        assert (await waits).made is not None
        await lender.end(host, held, interrupted=False)

    on_loop(test)


def test_what_an_attempt_left_running_gets_nothing_when_it_has_ended() -> None:
    """Neither who waits, nor who makes one, which is closed, nor who checks one."""

    async def test(lender: Lender, host: OnLoop) -> None:
        closed: list[object] = []
        go_on = asyncio.Event()

        async def make() -> object:
            await go_on.wait()
            return object()

        async def check(_: object) -> None:
            await go_on.wait()

        pool = ObjectPool(pool_of(make, max_size=1, check=check, close=closed.append), 1)
        for rounds in range(2):
            held: list[Loan] = []
            lends = [asyncio.create_task(pool.lend(host, held, "test", taker=taker)) for taker in (1, 2)]
            for _ in range(3):
                await asyncio.sleep(0)
            await lender.end(host, held, interrupted=False)
            go_on.set()
            ended = await asyncio.gather(*lends, return_exceptions=True)
            assert [type(end) for end in ended] == [PoolTimeout, PoolTimeout]
            await asyncio.gather(*host.closing)
            assert (len(closed), pool.book.size) == (rounds + 1, 0)
            held = []
            await pool.lend(host, held, "test")
            await lender.end(host, held, interrupted=False)
            go_on.clear()

    on_loop(test)
