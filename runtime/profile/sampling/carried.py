"""Threads whose work keeps the labels of whoever asked for it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import Context, copy_context
from typing import Any, TypeVar

T = TypeVar("T")


class CarryingPool(ThreadPoolExecutor):
    """A pool that runs each call in a copy of the context that it was submitted in, as `asyncio.to_thread` does.

    It is the default executor of a worker's loop: `loop.run_in_executor(None, ...)` alone carries no context, so what
    it computes, and what it prints, would be nobody's. Code that makes a pool of its own can use it, too.
    """

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """See `ThreadPoolExecutor.submit`."""
        if type(getattr(getattr(fn, "func", fn), "__self__", None)) is Context:  # it has one
            return super().submit(fn, *args, **kwargs)
        return super().submit(copy_context().run, fn, *args, **kwargs)
