"""Pools against what they promise, over random sequences of takes, gives, failures, cancels, ages and the end.

`BookMachine` drives the books alone and knows who should be served next. `test_lending...` drives the real lender on a
loop, with borrowers that end well, fail, are cancelled at any await, and things that cannot be made, reset or checked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from actors.policy.object_pool import Granted, PoolBook, PoolRule
from runtime.host.lender import Lender, ObjectPool
from runtime.host.pool_hosts import OnLoop
from runtime.pools import Pool, PoolOptions
from runtime.profile.ledger.books import LEDGER
from runtime.profile.ledger.kinds import CHECKOUT

pytestmark = pytest.mark.slow

AGE_NS: Final = 100
IDLE_NS: Final = 30
USES_MAX: Final = 4


class BookMachine(RuleBasedStateMachine):
    """Who has what, in the test's own books."""

    def __init__(self) -> None:
        super().__init__()
        self.book = PoolBook(PoolRule(3, AGE_NS, IDLE_NS, USES_MAX))
        self.now_ns = 0
        self.waiting: list[Callable[[Granted | None], None]] = []
        self.making: list[int] = []
        self.lent: dict[int, int] = {}
        self.born: dict[int, int] = {}
        self.uses: dict[int, int] = {}
        self.closed: set[int] = set()
        self.told: list[Any] = []
        self.reused = 0

    def got(self, grant: Granted) -> None:
        assert grant.no not in self.closed
        assert grant.no not in self.lent
        assert grant.no not in self.making
        if grant.make:
            self.making.append(grant.no)
        else:
            assert self.uses[grant.no] < USES_MAX
            self.uses[grant.no] += 1
            self.reused += 1
            self.lent[grant.no] = self.now_ns

    @precondition(lambda self: not self.book.drained)
    @rule()
    def take(self) -> None:
        def asker(grant: Granted | None) -> None:
            assert self.waiting[0] is asker  # nobody overtakes
            self.waiting.pop(0)
            if grant is not None:
                self.got(grant)

        before = len(self.waiting)
        grant = self.book.take(asker, self.now_ns)
        if grant is None:
            self.waiting.append(asker)
        else:
            assert not before
            if not grant.make:
                assert self.now_ns - self.born[grant.no] < AGE_NS
            self.got(grant)

    @precondition(lambda self: self.making)
    @rule(well=st.booleans())
    def make(self, well: bool) -> None:
        no = self.making.pop(0)
        if well:
            self.lent[no], self.born[no], self.uses[no] = self.now_ns, self.now_ns, 1
            self.book.made(no, self.now_ns)
        else:
            self.book.failed(no, self.now_ns)

    @precondition(lambda self: self.lent)
    @rule(how=st.sampled_from(["give", "discard", "replace"]), at=st.integers(0, 2))
    def end(self, how: str, at: int) -> None:
        no = list(self.lent)[at % len(self.lent)]
        del self.lent[no]
        if how == "give":
            self.book.give(no, self.now_ns)
        elif how == "discard":
            self.book.discard(no, self.now_ns, "unhealthy")
        else:
            self.reused -= self.uses[no] > 1  # it was not used once more
            self.got(self.book.replace(no, "unhealthy"))

    @precondition(lambda self: self.waiting)
    @rule(at=st.integers(0, 5), timeout=st.booleans())
    def leave(self, at: int, timeout: bool) -> None:
        asker = self.waiting.pop(at % len(self.waiting))
        assert self.book.leave(asker, self.now_ns, timeout=timeout)
        assert not self.book.leave(asker, self.now_ns)

    @rule(step_ns=st.integers(0, 40))
    def age(self, step_ns: int) -> None:
        self.now_ns += step_ns
        self.book.expire(self.now_ns)
        due_ns = self.book.due_ns()
        assert due_ns is None or due_ns > self.now_ns

    @precondition(lambda self: len(self.born) > 5)
    @rule()
    def drain(self) -> None:
        self.book.drain()

    @invariant()
    def books_agree(self) -> None:
        self.book.check_invariants()
        retired = self.book.retired()
        assert not self.closed & set(retired)
        assert not set(retired) & self.lent.keys()
        self.closed.update(retired)
        counts = self.book.counts()
        assert (counts.lent, counts.waiting) == (len(self.lent), len(self.waiting))
        assert (counts.made, counts.reused) == (len(self.born), self.reused)
        assert counts.idle == len(self.born) - len(self.closed) - len(self.lent)
        assert sum(counts.closed.values()) == len(self.closed)
        if self.book.drained:
            assert not self.waiting
            assert not counts.idle


TestBooks = BookMachine.TestCase
TestBooks.settings = settings(max_examples=60, stateful_step_count=60, deadline=None)


class Broken(Exception):
    """What a factory, a reset or a borrower raises."""


class Clean:
    """A thing that knows who dirtied it."""

    def __init__(self, fate: str) -> None:
        self.fate = fate
        self.dirt: list[int] = []
        self.closed = False


Borrower = tuple[str, int, str]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@settings(max_examples=60, deadline=None)
@given(
    size=st.integers(1, 3),
    borrowers=st.lists(
        st.tuples(
            st.sampled_from(["well", "fails", "cancelled"]),
            st.integers(0, 6),
            st.sampled_from(["good", "good", "no reset", "no check", "no make"]),
        ),
        max_size=20,
    ),
)
def test_lending_under_failures_and_cancels_loses_nothing_and_shares_nothing(
    size: int, borrowers: list[Borrower]
) -> None:
    before = LEDGER.counts()[CHECKOUT].live
    loop = asyncio.new_event_loop()
    try:
        loop.run_until_complete(_lend_to(size, borrowers))
    finally:
        loop.close()
    assert LEDGER.counts()[CHECKOUT].live == before


async def _lend_to(size: int, borrowers: list[Borrower]) -> None:
    fates = iter([fate for _, _, fate in borrowers])
    things: list[Clean] = []

    async def make() -> Clean:
        fate = next(fates, "good")
        await asyncio.sleep(0)
        if fate == "no make":
            raise Broken
        things.append(Clean(fate))
        return things[-1]

    async def reset(thing: Clean) -> None:
        await asyncio.sleep(0)
        if thing.fate == "no reset":
            raise Broken
        thing.dirt.clear()

    def close(thing: Clean) -> None:
        assert not thing.closed
        thing.closed = True

    lender = Lender(size)
    host = OnLoop(lender.lock, asyncio.get_running_loop())
    options = PoolOptions(max_size=size, reset=reset, check=lambda thing: thing.fate != "no check", close=close)
    made: Pool[Clean] = Pool.__new__(Pool)  # a local factory, which `Pool` refuses because workers could not find it
    made.fn, made.settings, made.name = make, options, "clean"
    pool = ObjectPool(made, size)
    pool._complain = lambda what: None  # type: ignore[method-assign]

    async def borrow(number: int, how: str) -> None:
        held: list[Any] = []
        interrupted = True
        try:
            loan = await pool.lend(host, held, "test")
            assert loan.made is not None
            thing: Clean = loan.made.value
            assert not thing.dirt
            assert not thing.closed
            thing.dirt.append(number)
            await asyncio.sleep(0)
            assert thing.dirt == [number]
            interrupted = False
            if how == "fails":
                raise Broken
        finally:
            await lender.end(host, held, interrupted=interrupted)

    tasks = [asyncio.create_task(borrow(number, how)) for number, (how, _, _) in enumerate(borrowers)]
    for task, (how, turns, _) in zip(tasks, borrowers, strict=True):
        for _ in range(turns):
            await asyncio.sleep(0)
            pool.book.check_invariants()
        if how == "cancelled":
            task.cancel()
    ended = await asyncio.gather(*tasks, return_exceptions=True)
    assert not [end for end in ended if end is not None and type(end) not in (Broken, asyncio.CancelledError)]
    counts = pool.book.counts()
    assert (counts.lent, counts.waiting, counts.size) == (0, 0, counts.idle)
    await pool.drain(host)
    await asyncio.gather(*host.closing)
    assert all(thing.closed for thing in things)
