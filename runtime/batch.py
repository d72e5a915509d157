"""Batching handlers: what a program says of one, and what such a handler returns for a call that failed.

    @tasks.task(batch=Batch(max_size=100, max_wait=0.05))
    def embed(texts: list[str]) -> list[list[float]]: ...

    handle = rt.submit(embed, "one text")

Callers submit single calls and have single handles. A light module: it is imported by user code, in every worker.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Concatenate, Protocol, TypeVar, overload

from actors.protocol.errors import ConfigurationError
from actors.protocol.limits import BATCH_MAX, BATCH_WAIT_NS_MAX
from actors.protocol.moments import NS_PER_S
from runtime.checks import is_number, is_whole, refuse

if TYPE_CHECKING:
    from runtime.registry import Task

T = TypeVar("T")
U = TypeVar("U")


@dataclass(frozen=True, slots=True)
class Batch:
    """How calls of a batching handler are collected: up to `max_size` of them, or what is there after `max_wait`.

    Args:
        max_size: Most calls that the handler takes at once.
        max_wait: Seconds that the first call waits for others. With 0 it waits for nobody: those that wait for a worker
            anyway go together.

    Raises:
        ConfigurationError: A value is out of range; all problems are named.
    """

    max_size: int = 100
    max_wait: float = 0.05

    def __post_init__(self) -> None:
        most = BATCH_WAIT_NS_MAX / NS_PER_S
        refuse(
            "Batch",
            (
                is_whole(self.max_size, 1, BATCH_MAX),
                f"max_size must be a whole number from 1 to {BATCH_MAX:,}, not {self.max_size!r:.60}",
            ),
            (
                is_number(self.max_wait, 0, most),
                f"max_wait must be 0 to {most:,.0f} seconds, not {self.max_wait!r:.60}",
            ),
        )

    def to_wire(self) -> list[int]:
        """As the engine reads it: size, and wait in nanoseconds."""
        return [self.max_size, int(self.max_wait * NS_PER_S)]


@dataclass(frozen=True, slots=True)
class Failed:
    """Stands among the results of a batching handler for a call that failed; it is retried as if that was raised.

    Args:
        exception: Why.
    """

    exception: BaseException

    def __post_init__(self) -> None:
        if not isinstance(self.exception, BaseException):
            raise ConfigurationError(f"Failed takes an exception, not {type(self.exception).__name__}")


class BatchingDecorator(Protocol):
    """Makes a function of a list a task of one of its items."""

    @overload
    def __call__(
        self, fn: Callable[Concatenate[list[T], ...], Coroutine[Any, Any, list[U | Failed]]], /
    ) -> Task[[T], Coroutine[Any, Any, U]]: ...

    @overload
    def __call__(
        self, fn: Callable[Concatenate[list[T], ...], Coroutine[Any, Any, list[U]]], /
    ) -> Task[[T], Coroutine[Any, Any, U]]: ...

    @overload
    def __call__(self, fn: Callable[Concatenate[list[T], ...], list[U | Failed]], /) -> Task[[T], U]: ...

    @overload
    def __call__(self, fn: Callable[Concatenate[list[T], ...], list[U]], /) -> Task[[T], U]: ...


def call_of_one(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a batching handler directly, with one call. Raises what it says that failed of."""
    (item,) = args
    results = fn([item], **kwargs)
    return _awaited(results) if inspect.isawaitable(results) else _only(results)


async def _awaited(results: Awaitable[Any]) -> Any:
    return _only(await results)


def _only(results: Any) -> Any:
    (result,) = results
    if isinstance(result, Failed):
        raise result.exception
    return result
