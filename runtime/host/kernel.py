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
import time
from collections.abc import Collection
from contextlib import suppress
from threading import Thread
from typing import Any, Final

from actors.protocol.moments import NS_PER_S

LINUX: Final = sys.platform.startswith("linux")
_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36
_PR_SET_PTRACER: Final = 0x59616D61
_PR_SET_PTRACER_ANY: Final = -1
_CLOCK_SCHED: Final = 2
_STAT_PARENT: Final = 1
_STAT_START: Final = 19
_STAT_MEMORY: Final = 20
_STAT_ENVIRONMENT: Final = slice(47, 49)
_ROUNDS_MAX: Final = 200
"""A second: on a busy machine it takes some of it until a process that was killed is gone, or comes out of `exec`."""
_QUIET_ROUNDS: Final = 2
"""Looks at all processes in a row that must find none: each may reveal a child of one that was killed."""
_ROUND_S: Final = 0.005
_GROUP_ROUND_S: Final = 0.1
"""Linux takes one change of an autogroup's niceness in this time (`proc_sched_autogroup_set_nice`)."""
_GROUP_ROUNDS_MAX: Final = 1_000
"""More than there can be workers of a node type: each round is one's turn."""


def _prctl(option: int, value: Any) -> bool:
    """Call prctl(2). False where it does not exist or refuses."""
    if not LINUX:
        return False
    import ctypes  # lazy: 2 ms, and only spawner and workers need it

    try:
        return int(ctypes.CDLL(None, use_errno=True).prctl(option, ctypes.c_ulong(value), 0, 0, 0)) == 0
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


def allow_attach() -> bool:
    """Let any process of this user trace this one, where Yama leaves that to parents. False where there is no Yama to
    ask; children do not inherit it."""
    return _prctl(_PR_SET_PTRACER, _PR_SET_PTRACER_ANY)


def step_back(niceness: int) -> None:
    """Let this process, and what it starts, come after others where they compete for cores.

    Linux may group processes by session and share the cores among the groups first (autogroups), so the group steps
    back as well; a worker has a session of its own. From all who are no administrators Linux takes one change in a
    tenth of a second, so where several workers start at once, a thread tries again.
    """
    if niceness:
        with suppress(OSError):
            os.nice(niceness)
        if LINUX and not _group_steps_back(niceness):
            Thread(target=_try_group, args=(niceness,), name="mainspring-step-back", daemon=True).start()


def _group_steps_back(niceness: int) -> bool:
    """False: not now, try again. True as well where there are no groups, or none may be changed."""
    try:
        with open("/proc/self/autogroup", "wb", buffering=0) as file:
            return file.write(b"%d" % niceness) is not None
    except OSError:
        return True


def _try_group(niceness: int) -> None:
    for _ in range(_GROUP_ROUNDS_MAX):
        time.sleep(_GROUP_ROUND_S)
        if _group_steps_back(niceness):
            return


def name_process(name: str) -> None:
    """Set the name that `ps -o comm` and `top` show, where the kernel has one."""
    if LINUX:
        with suppress(OSError), open("/proc/self/comm", "wb") as file:
            file.write(name.encode()[:15])


def _stat(place: int | str) -> list[str] | None:
    """Fields of /proc/<place>/stat from the state on; None when there is no such process."""
    try:
        with open(f"/proc/{place}/stat", "rb") as file:
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
    import psutil  # lazy: 26 ms, and only where there is no /proc

    try:
        return int(psutil.Process(pid).create_time() * 1000)
    except psutil.Error:
        return 0


def is_alive(pid: int, start: int) -> bool:
    """Whether this very process lives, of this pid and this `start_time`; a zombie does not."""
    if pid <= 0:
        return False
    if not LINUX:
        return start_time(pid) == start
    fields = _stat(pid)
    return fields is not None and int(fields[_STAT_START]) == start and fields[0] not in ("Z", "X")


def cpu_time_ns(pid: int) -> int | None:
    """CPU time that all threads of a process have used; None where the system does not say. `clock_getcpuclockid(3)`
    makes the number of the clock like this."""
    if not LINUX:
        return None
    try:
        return time.clock_gettime_ns((~pid << 3) | _CLOCK_SCHED)
    except OSError:
        return None


def start_time_of(monotonic_ns: int) -> int:
    """A moment of `time.monotonic_ns` in the units of `start_time`, rounded down (Linux: to 10 ms)."""
    ago_ns = time.monotonic_ns() - monotonic_ns
    if LINUX:
        since_boot_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - ago_ns
        return since_boot_ns * os.sysconf("SC_CLK_TCK") // NS_PER_S
    return (time.time_ns() - ago_ns) // 1_000_000


def descendants(pid: int) -> list[int]:
    """Children, their children and so on."""
    if not LINUX:
        import psutil  # lazy: only where there is no /proc

        try:
            return [child.pid for child in psutil.Process(pid).children(recursive=True)]
        except psutil.Error:
            return []
    found = child_pids(pid)
    for child in found:
        found += child_pids(child)
    return found


def threads_since(start: int, besides: Collection[int | None] = ()) -> int:
    """Threads of this process that started then or later, in units of `start_time`, and are none of these (native ids);
    0 where this cannot be seen."""
    if not LINUX:
        return 0
    starts = [_stat(f"self/task/{name}") for name in os.listdir("/proc/self/task") if int(name) not in besides]
    return sum(int(fields[_STAT_START]) >= start for fields in starts if fields)


def child_pids(pid: int) -> list[int]:
    """Children of a process, zombies included; empty where this cannot be found out cheaply."""
    if not LINUX:
        return []
    try:
        with open(f"/proc/{pid}/task/{pid}/children", "rb") as file:
            return [int(word) for word in file.read().split()]
    except OSError:  # a kernel without CONFIG_PROC_CHILDREN
        return [p for p in _pids() if (fields := _stat(p)) and int(fields[_STAT_PARENT]) == pid]


def kill_marked(mark: str) -> int:
    """SIGKILL every process whose environment has the entry `mark` ("NAME=value"), until none is left.

    For descendants that nobody is parent of any more: an environment is inherited by forks and by `exec`, so they still
    carry the mark, in whatever session or group they are. Inside `exec` a process shows none for a moment, which is
    long when it has no core: it is waited for. Returns how many processes were killed. Not found is who cleared its
    environment.
    """
    wanted, quiet = mark.encode(), 0
    killed: set[int] = set()
    hidden: set[int] = set()
    for _ in range(_ROUNDS_MAX):
        found, before, hidden = set(), hidden, set()
        for pid in _pids():
            entries = [] if pid == os.getpid() else _environment(pid)
            if entries is None:
                hidden.add(pid)
            elif wanted in entries:
                found.add(pid)
                with suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
        killed |= found
        quiet = 0 if found or hidden & before else quiet + 1
        if quiet == _QUIET_ROUNDS:
            break
        time.sleep(_ROUND_S)
    return len(killed)


def _environment(pid: int) -> list[bytes] | None:
    """Entries of a process's environment at its exec; empty for a zombie and for processes of other users.

    None: it is inside `exec`, has its new memory and not yet an environment in it.
    """
    if LINUX:
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                entries = file.read()
        except OSError:
            return []
        if not entries and (fields := _stat(pid)) and fields[_STAT_MEMORY] != "0":
            start, end = fields[_STAT_ENVIRONMENT]
            return [] if start == end != "0" else None
        return entries.split(b"\0")
    import psutil  # lazy: only where there is no /proc

    try:
        return [f"{name}={value}".encode() for name, value in psutil.Process(pid).environ().items()]
    except psutil.Error:
        return []


def catches(pid: int, signum: int) -> bool:
    """Whether a process has a handler for a signal now; where the system does not say, no."""
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            for line in file:
                if line.startswith(b"SigCgt:"):
                    return bool(int(line.split()[1], 16) >> (signum - 1) & 1)
    except (OSError, ValueError):
        pass
    return False


def signal_group(leader: int, signum: int) -> None:
    """Signal a child's process group, or the child alone if it has not yet made its own. Gone is fine."""
    try:
        os.killpg(leader, signum)
    except OSError:
        with suppress(OSError):
            os.kill(leader, signum)


def _pids() -> list[int]:
    if LINUX:
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]
    import psutil  # lazy: only where there is no /proc

    return psutil.pids()
