"""What the kernel knows about processes: parents, start times, groups, death signals.

Purpose: the few system calls that decide who dies with whom, each behind a feature test, so that the rest of the host
reads the same on Linux and macOS.
Known limits: on macOS there is no death signal and no sub-reaper. There a lifeline pipe (see `housekeeping`) ends the
workers, and a grandchild that left its process group outlives its worker.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

LINUX: Final = sys.platform.startswith("linux")
_PR_SET_PDEATHSIG: Final = 1
_PR_SET_NAME: Final = 15
_PR_SET_CHILD_SUBREAPER: Final = 36
_STAT_PARENT: Final = 1
_STAT_SESSION: Final = 3
_STAT_START: Final = 19


def _prctl(option: int, value: Any) -> bool:
    """Call prctl(2). False where it does not exist or refuses."""
    if not LINUX:
        return False
    import ctypes  # 2 ms, and only spawner and workers need it

    try:
        return int(ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)) == 0
    except (OSError, AttributeError):
        return False


def die_with_parent(parent: int) -> None:
    """Ask for SIGKILL when the parent dies; exit at once if it died before we could ask. Call in a forked child."""
    _prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
    if os.getppid() != parent:
        os._exit(1)


def adopt_orphans() -> bool:
    """Become the parent of all descendants that lose theirs. False where the kernel cannot do that."""
    return _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def name_process(name: str) -> None:
    """Set the name that `ps -o comm` and `top` show, where the kernel has one."""
    if LINUX:
        with suppress(OSError), open("/proc/self/comm", "wb") as file:
            file.write(name.encode()[:15])


def _stat(pid: int) -> list[str] | None:
    """Fields of /proc/<pid>/stat from the state on; None when there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().decode("ascii", "replace").rpartition(")")[2].split()
    except OSError:
        return None


def start_time(pid: int) -> int:
    """When the process started, in units of its platform; 0 when there is none.

    With the pid it names a process for good.
    """
    if LINUX:
        fields = _stat(pid)
        return int(fields[_STAT_START]) if fields else 0
    import psutil  # 26 ms; only where there is no /proc

    try:
        return int(psutil.Process(pid).create_time() * 1000)
    except psutil.Error:
        return 0


def child_pids(pid: int) -> list[int]:
    """Children of a process, zombies included; empty where this cannot be found out cheaply."""
    if not LINUX:
        return []
    try:
        with open(f"/proc/{pid}/task/{pid}/children", "rb") as file:
            return [int(word) for word in file.read().split()]
    except OSError:  # a kernel without CONFIG_PROC_CHILDREN
        return [p for p in _pids() if (fields := _stat(p)) and int(fields[_STAT_PARENT]) == pid]


def kill_sessions(leaders: Mapping[int, int]) -> None:
    """SIGKILL whoever is in a session led by one of these (pid: start time).

    For what is left when no parent can do it.
    """
    ours = {pid for pid, started in leaders.items() if start_time(pid) in (0, started)}
    for pid in _pids() if LINUX and ours else []:
        fields = _stat(pid)
        if fields and int(fields[_STAT_SESSION]) in ours:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
    if not LINUX:
        for pid in ours:
            with suppress(OSError):
                os.killpg(pid, signal.SIGKILL)


def signal_group(leader: int, signum: int) -> None:
    """Signal a child's process group, or the child alone if it has not yet made its own. Gone is fine."""
    try:
        os.killpg(leader, signum)
    except OSError:
        with suppress(OSError):
            os.kill(leader, signum)


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]
