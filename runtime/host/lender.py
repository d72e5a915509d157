"""The pools of one worker process: lends things to attempts, takes them back, closes those that are too old or unfit.

What is lent when, and who waits, is decided by `actors.policy.object_pool`; here its decisions become things. Pools are
found by name, and made, when a handler first uses them.

By construction nothing stays out: what an attempt has taken is entered in its list before it is granted, and the list
is settled when the attempt ends, however it ends. An attempt that was stopped in the middle (cancel, timeout) leaves
its things closed, because nobody knows in which state they are; any other end gives them back, through `reset`. A
process that dies takes its things with it. In a forked child they are the parent's, and are not touched.

Concurrency: see `pool_hosts`. User code (factory, check, reset, close) runs on the worker's main thread, outside of
the guard; in mode "process" also in a thread of the handler that asks itself.
"""

from __future__ import annotations

import os
import sys
import threading
import traceback
from collections.abc import Callable, Iterable
from time import monotonic_ns
from types import CodeType
from typing import Any, Final

from actors.policy.object_pool import INTERRUPTED, NOT_RESET, UNHEALTHY, Granted, PoolBook, PoolCounts, PoolRule
from actors.protocol.control_signals import AttemptCancelled, AttemptTimeout
from actors.protocol.pool_errors import PoolTimeout, UnknownPool
from runtime.host.handlers import Handler, resolve
from runtime.host.lenders import LENDERS
from runtime.host.pool_hosts import PoolHost, Waiter
from runtime.host.pool_things import Made, close_thing, make_thing
from runtime.pools import Pool
from runtime.profile.ledger.books import LEDGER
from runtime.profile.ledger.kinds import CHECKOUT
from runtime.profile.ledger.named import Named
from runtime.profile.presence.here import HERE
from runtime.units import seconds_to_ns

REPORT_NS: Final = 200_000_000
"""Between two reports of what pools hold."""
_INTERRUPTS: Final = (AttemptCancelled, AttemptTimeout, GeneratorExit, KeyboardInterrupt, SystemExit, MemoryError)


def interrupts(kind: type[BaseException] | None) -> bool:
    """Whether an exception ends an attempt in the middle of whatever it did; of asyncio's by its name."""
    return kind is not None and (issubclass(kind, _INTERRUPTS) or kind.__name__ == "CancelledError")


class Loan:
    """A thing that somebody has, or is about to get. `done`: he has it no more. `taker`: which thread or task of the
    attempt has it; 0: it is in the arguments, and comes back when the attempt ends."""

    __slots__ = (
        "__weakref__",
        "code",
        "done",
        "giving",
        "grant",
        "made",
        "owner",
        "pid",
        "pool",
        "taker",
        "token",
        "waiter",
    )

    def __init__(self, pool: ObjectPool, owner: str, code: CodeType | None, taker: int) -> None:
        self.pool = pool
        self.taker = taker
        self.owner = owner
        self.code = code
        self.pid = os.getpid()
        self.grant: Granted | None = None
        self.made: Made | None = None
        self.waiter: Waiter | None = None
        self.token = 0
        self.giving = self.done = False


class ObjectPool:
    """One pool of this process."""

    def __init__(self, pool: Pool[Any], slots: int) -> None:
        options = pool.settings
        self.pool = pool
        self.book = PoolBook(
            PoolRule(
                options.max_size or max(1, slots),
                seconds_to_ns(options.max_age) or 0,
                seconds_to_ns(options.max_idle) or 0,
                options.max_uses or 0,
            )
        )
        self.things: dict[int, Made] = {}

    # --- lending --------------------------------------------------------------------------------------------------

    async def lend(
        self, host: PoolHost, held: list[Loan], owner: str, code: CodeType | None = None, taker: int = 0
    ) -> Loan:
        """Take a thing; waits for one.

        Args:
            host: Where this runs.
            held: The borrower's list, in which the loan is entered before anything is granted.
            owner: The borrower, for the ledger.
            code: Where it is taken, for the ledger.
            taker: Which thread or task of the borrower takes it; 0: the borrower as such, until it ends.

        Raises:
            PoolTimeout: None came free in time, or none can, because the taker has all of them. Whatever the factory
                raises.
        """
        loan = Loan(self, owner, code, taker)
        held.append(loan)
        try:
            await self._grant(host, loan, held)
            await self._fit(host, loan)
        except BaseException:
            await self.settle(host, loan, INTERRUPTED)
            raise
        return loan

    async def _grant(self, host: PoolHost, loan: Loan, held: list[Loan]) -> None:
        waiter = loan.waiter = host.waiter()
        with host.guard():
            if self.book.drained:
                raise PoolTimeout(f"pool {self.pool.name!r} is closed: the worker ends")
            loan.grant = self.book.take(waiter, monotonic_ns())
            gone = self._gone()
        if gone:
            await host.later(self._close(host, gone))
        if loan.grant is not None:
            return
        timeout, since_ns = self.pool.settings.timeout, monotonic_ns()
        at_most = f"pool {self.pool.name!r} (at most {self.book.rule.size_max} in a process)"
        own = [one for one in held if one.pool is self and one.grant and not one.done and one.taker in (0, loan.taker)]
        if timeout is None and len(own) >= self.book.rule.size_max:
            raise PoolTimeout(f"{at_most}: the attempt has all of them itself, and would wait for itself")
        await host.wait(waiter, timeout)
        with host.guard():
            loan.grant = waiter.grant
            self.book.leave(waiter, now_ns := monotonic_ns(), timeout=not waiter.told)
        _refuse_ended(loan)
        if loan.grant is None:
            what = "the worker ends" if waiter.told else f"nothing came free in {(now_ns - since_ns) / 1e9:.3g} s"
            raise PoolTimeout(f"{at_most}: {what}")

    async def _fit(self, host: PoolHost, loan: Loan) -> None:
        """Have a thing for what was granted: one that passes the check, or a new one."""
        check = self.pool.settings.check
        while loan.grant is not None and not loan.grant.make:
            loan.made = self.things[loan.grant.no]
            fit = check is None or await self._says_yes(host, "check", check, loan.made.value)
            _refuse_ended(loan)
            if fit:
                break
            with host.guard():
                loan.grant, loan.made = self.book.replace(loan.grant.no, UNHEALTHY), None
                gone = self._gone()
            await host.later(self._close(host, gone))
        if loan.grant is not None and loan.grant.make:
            loan.made = await make_thing(self.pool, host)
            with host.guard():
                if not loan.done:
                    self.things[loan.grant.no] = loan.made
                    self.book.made(loan.grant.no, monotonic_ns())
                    loan.grant = loan.grant._replace(make=False)
            if loan.done:
                await host.later(self._close(host, [loan.made]))
            _refuse_ended(loan)
        loan.token = LEDGER.track(CHECKOUT, Named(loan, self.pool.name), owner=loan.owner, code=loan.code)

    async def give(self, host: PoolHost, loan: Loan, *, interrupted: bool = False) -> None:
        """Take a thing back. Again is harmless, also while the first time goes on."""
        if loan.done or loan.giving:
            return
        loan.giving = True
        reason = INTERRUPTED
        try:
            reset = self.pool.settings.reset
            if interrupted or loan.made is None or not loan.token or loan.pid != os.getpid():
                return  # without a token it is being checked, by a task that the attempt left behind
            fit = reset is None or await self._says_yes(host, "reset", reset, loan.made.value)
            reason = "" if fit else NOT_RESET
        finally:
            await self.settle(host, loan, reason)

    async def settle(self, host: PoolHost, loan: Loan, reason: str = "") -> None:
        """Enter in the books that a loan is over: fit for the next, or closed for a reason."""
        if loan.pid != os.getpid():
            loan.done = True
            return
        with host.guard():
            gone: list[Made] = []
            if not loan.done:
                loan.done = True
                self._settle(loan, reason, gone)
            gone += self._gone()
        if loan.token:
            LEDGER.release(loan.token)
            loan.token = 0
        if gone:
            await host.later(self._close(host, gone))

    def _settle(self, loan: Loan, reason: str, gone: list[Made]) -> None:
        """Under the guard, once a loan."""
        now_ns, grant = monotonic_ns(), loan.grant
        if grant is None and loan.waiter is not None:  # stopped while it waited, at whichever moment
            self.book.leave(loan.waiter, now_ns)
            grant = loan.waiter.grant
            if grant is None:
                loan.waiter(None)  # a task or thread that its attempt left behind
        if grant is None:
            return
        if grant.make:
            self.book.failed(grant.no, now_ns)
            if loan.made is not None:
                gone.append(loan.made)
        elif reason and loan.made is not None:
            self.book.discard(grant.no, now_ns, reason)
        else:
            self.book.give(grant.no, now_ns)

    # --- closing --------------------------------------------------------------------------------------------------

    async def expire(self, host: PoolHost) -> None:
        """Close what is idle and too old."""
        with host.guard():
            self.book.expire(monotonic_ns())
            gone = self._gone()
        if gone:
            await self._close(host, gone)

    async def drain(self, host: PoolHost) -> None:
        """Close all things; nothing is lent any more."""
        with host.guard():
            self.book.drain()
            self.book.retired()
            gone, self.things = list(self.things.values()), {}
        await self._close(host, gone)

    def _gone(self) -> list[Made]:
        return [self.things.pop(no) for no in self.book.retired() if no in self.things]

    async def _close(self, host: PoolHost, gone: Iterable[Made]) -> None:
        for made in gone:
            try:
                await close_thing(self.pool, made, host)
            except Exception:
                self._complain("close")

    async def _says_yes(self, host: PoolHost, what: str, fn: Callable[[Any], Any], value: Any) -> bool:
        try:
            found = fn(value)
            if hasattr(type(found), "__await__"):
                found = await host.run(found)
        except Exception:
            self._complain(what)
            return False
        return found is not False

    def _complain(self, what: str) -> None:
        """A pool goes on without the thing; what it said is the program's to see."""
        sys.stderr.write(f"mainspring: {what} of pool {self.pool.name!r} failed\n")
        traceback.print_exc()


def _refuse_ended(loan: Loan) -> None:
    """What an attempt left running gets nothing when the attempt has ended. Raises PoolTimeout."""
    if loan.done:
        raise PoolTimeout(f"pool {loan.pool.pool.name!r}: the attempt that asked has ended")


class Lender:
    """All pools of this process.

    Args:
        slots: Tasks that run here at once.
    """

    def __init__(self, slots: int) -> None:
        LENDERS.add(self)
        if HERE.presences:
            HERE.due_ns = 0  # the page is to say soon that this process lends
        self.lock = threading.Lock()
        self._slots = slots
        self._pools: dict[str, ObjectPool] = {}
        self._reported: list[Any] = []
        self._report_ns = 0

    def pool(self, reference: str) -> ObjectPool:
        """The pool of this name. Imports its module, which runs user code.

        Raises:
            UnknownPool: The name is of something else. Whatever the import raises.
        """
        found = self._pools.get(reference)
        if found is None:
            pool: Any = resolve(reference)
            if not isinstance(pool, Pool):
                raise UnknownPool(f"{reference} is a {type(pool).__name__}, not a pool")
            with self.lock:
                found = self._pools.setdefault(reference, ObjectPool(pool, self._slots))
        return found

    async def fill(
        self, host: PoolHost, held: list[Loan], handler: Handler, args: list[Any], kwargs: dict[str, Any]
    ) -> None:
        """Put things into the arguments where the handler's signature has them."""
        for name, place, pool in handler.pool_args:
            loan = await self.pool(handler.pools[pool]).lend(host, held, handler.name, handler.code)
            assert loan.made is not None
            if 0 <= place <= len(args):
                args.insert(place, loan.made.value)
            else:
                kwargs[name] = loan.made.value

    async def end(self, host: PoolHost, held: list[Loan], *, interrupted: bool) -> None:
        """The attempt has ended: take back what it still has, the last first; also when it is stopped while it does."""
        left = list(held)
        try:
            while left:
                loan = left.pop()
                await loan.pool.give(host, loan, interrupted=interrupted)
        finally:
            while left:
                loan = left.pop()
                await loan.pool.settle(host, loan, INTERRUPTED)

    async def expire(self, host: PoolHost) -> None:
        """Close what is idle and too old."""
        for pool in list(self._pools.values()):
            await pool.expire(host)

    async def drain(self, host: PoolHost) -> None:
        """Close everything, the last pool first."""
        for pool in reversed(list(self._pools.values())):
            await pool.drain(host)

    def due_ns(self) -> int | None:
        """When `expire` or `report` has something to do; None: not before the next task."""
        with self.lock:
            dues = [due for pool in self._pools.values() if (due := pool.book.due_ns()) is not None]
        if self.rows() != self._reported:
            dues.append(self._report_ns + REPORT_NS)
        return min(dues, default=None)

    def counts(self) -> dict[str, PoolCounts]:
        """How each pool stands, by name."""
        with self.lock:
            return {pool.pool.name: pool.book.counts() for pool in self._pools.values()}

    def rows(self) -> list[list[Any]]:
        """The same, as it travels."""
        return [[name, *counts] for name, counts in self.counts().items()]

    def report(self, now_ns: int, *, last: bool = False) -> list[Any] | None:
        """What is new to be told; None: nothing, or something was told a moment ago and this is not the last time."""
        if (now_ns - self._report_ns < REPORT_NS and not last) or (rows := self.rows()) == self._reported:
            return None
        self._report_ns, self._reported = now_ns, rows
        return rows
