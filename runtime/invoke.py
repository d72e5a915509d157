"""What an `Executor` runs in its workers: any picklable call, after its initializer. Imports next to nothing."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

T = TypeVar("T")


class Call(NamedTuple):
    """What travels to a worker."""

    fn: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    initializer: str | None


class _Once:
    """Which initializers have run in this process. A fact of the process, like its imports."""

    def __init__(self) -> None:
        self.done: set[str] = set()


INITIALIZED: Final = _Once()


class InitializerFailed(BaseException):
    """The initializer of an executor raised, so its calls cannot be run in this worker."""


def invoke(call: Call) -> Any:
    """The handler of all executors: make a call, in a worker that was initialised."""
    path = call.initializer
    if path is not None and path not in INITIALIZED.done:
        try:
            initializer, initargs = pickle.loads(Path(path).read_bytes())
            initializer(*initargs)
        except Exception as failed:
            raise InitializerFailed(f"the initializer raised {failed!r}") from failed
        INITIALIZED.done.add(path)
    return call.fn(*call.args, **call.kwargs)


def call_each(fn: Callable[..., T], rows: list[tuple[Any, ...]]) -> list[T]:
    """A chunk of `Executor.map`."""
    return [fn(*row) for row in rows]
