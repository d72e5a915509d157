"""What can be seen of a process from outside, without its help."""

from __future__ import annotations

import os
import signal

import psutil


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
