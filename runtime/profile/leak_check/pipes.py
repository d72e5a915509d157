"""Pipes of this process whose other end is gone, and which of them are proved leaks.

A pipe without another end is also what every child leaves that has ended and whose output nobody has read to its end
yet: a program that started fifty of them, and takes one after the other, has leaked nothing. So three sorts of pipes
prove nothing, however many there are: what a living file object or `Connection` has, which may still close it (how they
grow is graded all the same); what is passed on at `exec`, as standard streams are; and what was there before this
process was, as forks inherit it. The engine's own pipes have their other ends in this process, or in one that ends it.
"""

from __future__ import annotations

import fcntl
import gc
import io
import os
import select
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Final

from runtime.host import kernel

PIPE: Final = "pipe:"
_ROUNDED_S: Final = 0.02


def lone_pipes(opened: Iterable[tuple[int, str]], budget: int) -> dict[int, str]:
    """Descriptors of pipes that have no other end.

    Args:
        opened: Descriptors and where they lead to.
        budget: So many of them are none of interest.

    Returns:
        For each why it is a leak; "" where that is not proved.
    """
    alone = {number for number, leads in opened if leads.startswith(PIPE) and has_no_other_end(number)}
    proved = set[int]()
    if len(alone) > budget:
        began_s = _began_s()
        proved = {number for number in alone if not _is_inherited(number, began_s)}
        if len(proved) > budget:
            proved -= _owned()
    why = "nobody has the other end of this pipe any more, and no file object has this one"
    return {number: why if len(proved) > budget and number in proved else "" for number in alone}


def has_no_other_end(number: int) -> bool:
    """Whether a pipe has only this end, and nothing is left in it to be read."""
    poll = select.poll()
    poll.register(number, select.POLLIN)
    for _, events in poll.poll(0):
        return bool(events & (select.POLLHUP | select.POLLERR)) and not events & select.POLLIN
    return False


def _is_inherited(number: int, began_s: float) -> bool:
    """Whether a pipe is, or may be, another program's affair. What Python opens is closed on `exec`, so what is not was
    meant to be handed on; and who has read and written nothing since this process began was there before."""
    with suppress(OSError):
        status = os.fstat(number)
        used_s = max(status.st_atime, status.st_mtime, status.st_ctime)
        return not fcntl.fcntl(number, fcntl.F_GETFD) & fcntl.FD_CLOEXEC or used_s <= began_s
    return True


def _began_s() -> float:
    """When this process began, on the wall clock, to 20 ms: the kernel rounds both times that are compared."""
    ago_s = time.clock_gettime(time.CLOCK_BOOTTIME) - kernel.start_time(os.getpid()) / os.sysconf("SC_CLK_TCK")
    return time.time() - ago_s + _ROUNDED_S


def _owned() -> set[int]:
    """Descriptors that an open file object or `multiprocessing.connection.Connection` has."""
    base: Any = getattr(sys.modules.get("multiprocessing.connection"), "_ConnectionBase", io.FileIO)
    found = set()
    for thing in gc.get_objects():
        cls = type(thing)  # not `isinstance`: that asks `__class__`, which may be code of a user's proxy
        if issubclass(cls, (io.FileIO, base)):
            with suppress(ValueError, OSError):
                found.add(io.FileIO.fileno(thing) if issubclass(cls, io.FileIO) else base.fileno(thing))
    return found
