"""Waiting in scenarios: for what worker processes write into files, and for processes to go. Always with a deadline.

A scenario crosses processes, so nobody can signal the test; it looks every `TICK_S` and says what it waited for when
the time is over. Workers write with `tests.scenarios.handlers.note`, one line for each thing that happened.
"""

from __future__ import annotations

import select
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

import psutil

T = TypeVar("T")

TICK_S: Final = 0.005
PATIENCE_S: Final = 30.0
"""Longest wait for what takes a moment on a quiet machine."""


class Line(NamedTuple):
    """What a handler noted: a word, its process, and when, on the monotonic clock that all processes share."""

    word: str
    pid: int
    at_ns: int


def until(holds: Callable[[], T], what: str, timeout_s: float = PATIENCE_S) -> T:
    """Look until `holds()` gives something true, and return that.

    Raises:
        AssertionError: The time is over; names `what`.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        found = holds()
        if found:
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout_s} s: {what}")
        pause(TICK_S)


def pause(seconds: float) -> None:
    """Let time pass: only where the scenario itself is about time, such as a process that stays frozen for a while."""
    select.select([], [], [], seconds)


def lines(path: Path) -> list[Line]:
    """What has been noted so far, in order; a line that is being written is left out."""
    try:
        text = path.read_text()
    except FileNotFoundError:
        return []
    whole = text[: text.rfind("\n") + 1]
    found = []
    for row in whole.splitlines():
        word, pid, at_ns = row.rsplit(" ", 2)
        found.append(Line(word, int(pid), int(at_ns)))
    return found


def await_lines(path: Path, count: int, timeout_s: float = PATIENCE_S) -> list[Line]:
    """Wait until so many lines are noted."""
    return until(
        lambda: found if len(found := lines(path)) >= count else None, f"{count} lines in {path.name}", timeout_s
    )


def words(path: Path) -> Counter[str]:
    """How often each word was noted."""
    return Counter(line.word for line in lines(path))


def alive(pid: int) -> bool:
    """Whether there is such a process; a zombie is none."""
    return _state(pid) not in ("", psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)


def stopped(pid: int) -> bool:
    """Whether the process was stopped by a signal."""
    return _state(pid) == psutil.STATUS_STOPPED


def _state(pid: int) -> str:
    try:
        return str(psutil.Process(pid).status())
    except psutil.NoSuchProcess:
        return ""


def await_gone(pids: Iterable[int], timeout_s: float = PATIENCE_S) -> None:
    """Wait until none of these processes is left."""
    wanted = list(pids)
    until(lambda: not any(map(alive, wanted)), f"the end of processes {[p for p in wanted if alive(p)]}", timeout_s)
