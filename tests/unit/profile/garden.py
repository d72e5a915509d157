"""A loop whose books are kept as a worker's are, in which leaks are planted, and what ends it without a trace."""

from __future__ import annotations

import asyncio
import gc
import sys
import warnings
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import uvloop

from runtime.profile.ledger.books import LEDGER
from runtime.profile.ledger.origins import ORIGINS
from runtime.profile.ledger.pins import EVIDENCE
from runtime.profile.ledger.tasks import LoopBooks

LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.new_event_loop,
    "uvloop": uvloop.new_event_loop,
}

uvloop.new_event_loop().close()  # libuv opens a pipe for signals, once in a process


class Garden:
    """A loop, what is kept alive, and how it is all ended."""

    def __init__(self, loop: asyncio.AbstractEventLoop, books: LoopBooks, folder: Path | None) -> None:
        self.loop, self._books, self.folder = loop, books, folder
        self.kept: list[Any] = []
        self.ends: list[Callable[[], Any]] = []

    def run(self, plant: Callable[[Garden], Coroutine[Any, Any, None]]) -> None:
        """Plant once more; collect, as Python does sooner or later."""
        self.loop.run_until_complete(self._planted(plant))
        gc.collect()

    async def _planted(self, plant: Callable[[Garden], Coroutine[Any, Any, None]]) -> None:
        self._books.begin_run()
        await plant(self)
        await asyncio.sleep(0)

    def end(self) -> None:
        """Nothing is left."""
        for end in reversed(self.ends):
            with suppress(OSError, RuntimeError):
                end()
        self.kept.clear()
        gc.collect()
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.run_until_complete(asyncio.sleep(0))


@contextmanager
def garden(kind: str, folder: Path | None = None) -> Iterator[Garden]:
    """A garden of a loop of this kind, with fresh books of a process that is warm for long."""
    LEDGER.forked()
    LEDGER.born_ns -= 3_600_000_000_000
    before = getattr(warnings, "_warn_unawaited_coroutine")  # noqa: B009 - as below
    said = list(EVIDENCE)
    loop = LOOPS[kind]()
    asyncio.set_event_loop(loop)
    books = LoopBooks(loop)
    books.install()
    loop.set_exception_handler(books._told)
    books._before = lambda loop, context: None  # told already, and not printed
    made = Garden(loop, books, folder)
    gc.collect()
    gc.freeze()  # so that each collection looks at the garden only
    try:
        yield made
    finally:
        made.end()
        setattr(warnings, "_warn_unawaited_coroutine", before)  # noqa: B010 - it is none of the module's own words
        sys.set_coroutine_origin_tracking_depth(0)
        ORIGINS.remove()
        EVIDENCE[:] = said
        loop.close()
        asyncio.set_event_loop(None)
        gc.unfreeze()
        gc.collect()
        LEDGER.forked()
