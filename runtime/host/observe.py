"""What can be seen of a process from outside, without its help."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence

import psutil

from actors.protocol import messages as msg
from actors.protocol.states import LeaseState
from runtime.host.post import WorkerPost


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


def running(post: WorkerPost, serials: Sequence[int]) -> tuple[int, ...]:
    """Those of the serials that an asyncio worker has claimed."""
    return tuple(serial for serial in serials if post.table.states(serial, 1)[0] == LeaseState.RUNNING)


def observed(post: WorkerPost, serials: Sequence[int], stopped: bool | None = None) -> msg.WorkerObserved:
    """What a worker does now, which holds these serials."""
    (serial, started_ns), pulse = post.table.current(), post.table.pulse()
    claimed = tuple((s, post.table.started_ns(s)) for s in running(post, serials)) if post.is_async else ()
    return msg.WorkerObserved(
        post.worker, serial, started_ns, pulse.rss_bytes, pulse.tasks_done, stopped, claimed, post.table.passed()
    )
