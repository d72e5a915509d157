"""What can be seen of a process from outside, without its help."""

from __future__ import annotations

import os
import signal

import psutil

from actors.protocol import limits
from actors.protocol import messages as msg
from runtime.mail.link import cores


def is_stopped(pid: int) -> bool:
    """Whether the process is frozen (SIGSTOP, SIGTSTP)."""
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_STOPPED)
    except psutil.Error:
        return False


def described(status: int) -> tuple[str, int]:
    """A wait status in words, and its signal number (0: none)."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        return f"killed by {signal.Signals(number).name}", number
    return f"exit code {os.waitstatus_to_exitcode(status)}", 0


class MachineLook:
    """Processors and memory of the whole machine, looked at once in MACHINE_LOOK_NS at most.

    How busy processors were is known from the second look on; one that is too old to compare with begins anew.
    """

    def __init__(self) -> None:
        self._looked_ns: int | None = None

    def look(self, now_ns: int) -> list[msg.MachineSeen]:
        """What is seen now; nothing when the last look was just before."""
        since_ns = None if self._looked_ns is None else now_ns - self._looked_ns
        if since_ns is not None and since_ns < limits.MACHINE_LOOK_NS:
            return []
        self._looked_ns = now_ns
        busy = psutil.cpu_percent(None) / 100
        memory = psutil.virtual_memory()
        known = since_ns is not None and since_ns <= limits.MACHINE_STALE_NS
        return [msg.MachineSeen(busy if known else None, memory.available / memory.total, cores())]
