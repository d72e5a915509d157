"""What can be seen of a process from outside, without its help."""

from __future__ import annotations

import psutil


def is_stopped(pid: int) -> bool:
    """Whether the process is frozen (SIGSTOP, SIGTSTP)."""
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_STOPPED)
    except psutil.Error:
        return False
