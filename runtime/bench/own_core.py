"""A core of its own for what is measured, while everything else of a run shares the others: `own_core`.

Who waits for the interpreter waits for the thread that has it, and where that one is without a core, for the scheduler
of the machine: some milliseconds on two cores that five processes want. That is so with any two threads, and hides how
long somebody keeps the interpreter, which is what a program can do something about.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress


@contextmanager
def own_core(others: Iterable[int]) -> Iterator[bool]:
    """The last core is this process's, and the rest that of these others. What they start meanwhile is where they are.

    Args:
        others: Pids, of processes of this user; this one may be among them.

    Yields:
        Whether it is so: not on one core, nor where the platform has no such thing.
    """
    before = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set[int]()
    if len(before) < 2:
        yield False
        return
    mine, rest = {max(before)}, before - {max(before)}
    there = set(others) - {os.getpid()}
    try:
        _move(os.getpid(), mine)
        for pid in there:
            _move(pid, rest)
        yield True
    finally:
        for pid in (os.getpid(), *there):
            _move(pid, before)


def _move(pid: int, cores: set[int]) -> None:
    with suppress(OSError):  # it has ended
        for thread in os.listdir(f"/proc/{pid}/task"):
            with suppress(OSError):
                os.sched_setaffinity(int(thread), cores)
