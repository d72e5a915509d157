"""`TaskContext.pool`: how a handler takes a thing out of a pool for a part of its time. Imported by every worker."""

from __future__ import annotations

import sys
from types import CodeType, TracebackType
from typing import TYPE_CHECKING, Any

from actors.protocol.errors import InternalError
from actors.protocol.pool_errors import UnknownPool

if TYPE_CHECKING:
    from runtime.host.lender import Loan
    from runtime.host.lending import Lending


class Borrowed:
    """A thing for the length of a `with` or `async with` block, whose value it is. Enter it once.

    An attempt that ends, however it does, gives back what it still has.
    """

    __slots__ = ("_code", "_lending", "_loan", "_name")

    def __init__(self, lending: Lending, name: str, code: CodeType) -> None:
        """Made by `TaskContext.pool`."""
        self._lending = lending
        self._name = name
        self._code = code
        self._loan: Loan | None = None

    def __enter__(self) -> Any:
        self._loan = self._lending.borrow(self._name, self._code)
        return _value(self._loan)

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        if self._loan is not None:
            self._lending.give(self._loan, kind)

    async def __aenter__(self) -> Any:
        self._loan = await self._lending.borrow_async(self._name, self._code)
        return _value(self._loan)

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        if self._loan is not None:
            await self._lending.give_async(self._loan, kind)


def _value(loan: Loan) -> Any:
    if loan.made is None:
        raise InternalError("a loan without a thing")
    return loan.made.value


class Borrower:
    """The part of a TaskContext that has to do with pools."""

    __slots__ = ("_lending",)

    _lending: Lending | None

    def pool(self, name: str) -> Borrowed:
        """Take a thing out of a pool: `with ctx.pool("db") as db:`, or `async with` in a coroutine.

        Args:
            name: Of the pool. Where a node type has one pool only, the name of the node type means it, too.

        Returns:
            What to enter; waits there until a thing is free.

        Raises:
            UnknownPool: The registry of the task has no such pool for its node type. When entering: PoolTimeout, and
            whatever the factory raises.
        """
        if self._lending is None:
            raise UnknownPool(f"this attempt has no pool {name!r}, or has ended")
        return self._lending.lent(name, sys._getframe(1).f_code)

    def lends(self, lending: Lending) -> None:
        """For the worker: pools can be asked from here on."""
        self._lending = lending
