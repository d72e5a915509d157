"""Handlers of the scenarios about who runs next. They run in workers, and note what they do (see `handlers`).

Each place in the life of an attempt has something here that holds it there the first time and lets it pass the next:
the import of its module, the unpickling of its argument, its body, the pickling of its result.
"""

from __future__ import annotations

import os
import signal
from typing import Any, Final

from runtime import TaskContext
from tests.scenarios.handlers import first_holds, note, wait_for

IMPORTED: Final = """
from runtime.host.handlers import inside_worker
from tests.scenarios.handlers import first_holds

if inside_worker():
    first_holds({path!r}, "holder")


def task(word):
    return word
"""
"""Text of a module whose import holds."""


def around(path: str, word: str, gate: str = "") -> str:
    """Note the beginning and the end, and wait for the gate in between, if there is one."""
    note(path, f"{word}:begin")
    if gate:
        wait_for(gate)
    note(path, f"{word}:end")
    return word


def call_service(path: str, word: str, up: str) -> str:
    """Note the try; fail while the service is down. It is up when the file is there."""
    note(path, word)
    if not os.path.exists(up):
        raise ConnectionError("the service is down")
    return word


def die_unless(path: str, word: str, up: str) -> str:
    """Note the try; take the worker along unless the file is there."""
    note(path, word)
    if not os.path.exists(up):
        os.kill(os.getpid(), signal.SIGKILL)
    return word


def note_beginning(path: str, text: str) -> str:
    """Note how a text begins."""
    note(path, text[:3])
    return text[:3]


def time_left(context: TaskContext) -> float:
    """Seconds until the attempt is stopped."""
    return context.remaining() or 0.0


class HeldArgument:
    """Unpickling it, which happens in the worker, holds the first time."""

    def __init__(self, path: str, word: str) -> None:
        self.path = path
        self.word = word

    def __reduce__(self) -> tuple[Any, ...]:
        return hold_and_give, (self.path, self.word)


def hold_and_give(path: str, word: str) -> str:
    """Hold the first time; the word."""
    first_holds(path, word)
    return word


def give_back(word: str) -> str:
    """What it was given."""
    return word


class HeldResult:
    """Pickling it, which happens in the worker, holds the first time; it comes out as its word."""

    def __init__(self, path: str, word: str) -> None:
        self.path = path
        self.word = word

    def __reduce__(self) -> tuple[Any, ...]:
        first_holds(self.path, self.word)
        return str, (self.word,)


def finish_slowly(path: str, word: str) -> Any:
    """Done at once, but its result takes long to pack the first time."""
    return HeldResult(path, word)


def run_and_give(path: str, word: str) -> str:
    """The body holds the first time."""
    first_holds(path, word)
    return word


async def run_and_give_async(path: str, word: str) -> str:
    """The same for workers of mode asyncio."""
    import asyncio  # lazy: a part of the first attempt in each worker

    await asyncio.to_thread(first_holds, path, word)
    return word
