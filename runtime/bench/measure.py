"""Clocks, CPU time and memory, by process role.

A `MeasuredWindow` is the measured part of a scenario. CPU time is read from outside, per process, just before it opens
and just after it closes, so that no process is slowed by being measured.

Clock of another process: on Linux, CPU time comes from the process's own POSIX CPU clock in nanoseconds (its id is made
from the pid as clock_getcpuclockid(3) does); elsewhere from psutil, in ticks of 10 ms. Known limits: the clock of a
process that runs at this moment on another core is as of its last tick (1 to 10 ms); a process that ends inside the
window is not counted, and neither is time the kernel spends for us elsewhere (writing back pages).
"""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

import psutil

from runtime.bench.figures import Sample

_CPUCLOCK_SCHED = 2
"""Linux, include/linux/posix-timers.h: the clock that counts scheduled time in nanoseconds."""


class Member(NamedTuple):
    """One process that takes part in a scenario."""

    role: str
    pid: int


Members = Callable[[], list[Member]]


def cpu_ns(pid: int) -> int:
    """CPU time of all threads of a process since it started; 0 when it is gone."""
    if sys.platform == "linux":
        try:
            return time.clock_gettime_ns((~pid << 3) | _CPUCLOCK_SCHED)
        except OSError:
            return 0
    try:
        times = psutil.Process(pid).cpu_times()
    except psutil.Error:
        return 0
    return round((times.user + times.system) * 1e9)


def threads_cpu_ns(pid: int) -> int:
    """CPU time of all threads of a process but its first one; 0 where the system does not tell it by thread."""
    used = 0
    for thread in Path(f"/proc/{pid}/task").glob("*"):
        if thread.name != str(pid):
            try:
                used += int((thread / "schedstat").read_text().split()[0])
            except OSError:  # it ended, or they are not counted
                continue
    return used


def descriptors(pid: int) -> int:
    """Open descriptors of a process; 0 when it is gone."""
    try:
        return int(psutil.Process(pid).num_fds())
    except psutil.Error:
        return 0


def rss_bytes(pid: int) -> int:
    """Resident memory of a process; 0 when it is gone."""
    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.Error:
        return 0


def pss_bytes(pid: int) -> int:
    """Proportional set size: its own pages, and its share of those it shares with others; 0 when it is gone.

    Where the system does not know PSS (macOS), the unique set size stands for it, which leaves shared pages out.
    """
    return _smaps_bytes(pid, b"Pss:")


def private_bytes(pid: int) -> int:
    """Pages that a process shares with nobody; 0 when it is gone."""
    return _smaps_bytes(pid, b"Private_")


def _smaps_bytes(pid: int, prefix: bytes) -> int:
    """The sum of these lines of `smaps_rollup`; 0 when the process is gone."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_bytes().splitlines()
        return sum(int(line.split()[1]) for line in lines if line.startswith(prefix)) * 1024
    except ProcessLookupError:
        return 0
    except OSError:
        return _unique_bytes(pid)


def _unique_bytes(pid: int) -> int:
    """Unique set size, for where the system says no more; 0 when it is gone."""
    try:
        return int(psutil.Process(pid).memory_full_info().uss)
    except psutil.Error:
        return 0


def members_of(runtime: object) -> list[Member]:
    """This process and all that a running `Runtime` has started.

    A runtime that tells is asked; otherwise its processes are known by the names that they give themselves.
    """
    told = getattr(runtime, "processes", None)
    if told is None:
        named = [(_role_by_name(child), child.pid) for child in psutil.Process().children(recursive=True)]
    else:
        named = [(str(entry["role"]), int(entry["pid"])) for entry in told()]
    found = {os.getpid(): "face"}
    for role, pid in named:
        found.setdefault(pid, "workers" if role == "worker" else role)
    return [Member(role, pid) for pid, role in found.items()]


def _role_by_name(process: psutil.Process) -> str:
    """Role after names such as "ms-engine" and "ms-worker-1"; "worker" for everything else, whoever started it."""
    try:
        name = process.name()
    except psutil.Error:
        name = ""
    return next((role for role in ("spawner", "engine") if name == f"ms-{role}"), "worker")


def members_with_children() -> list[Member]:
    """This process and its children as workers: the processes of a standard library pool."""
    children = psutil.Process().children(recursive=True)
    return [Member("face", os.getpid()), *(Member("workers", child.pid) for child in children)]


class MeasuredWindow:
    """The measured part of a scenario, as a context manager; afterwards `sample` says what it cost.

    Entering runs the garbage collector once, so that a window does not pay for what came before it.
    """

    def __init__(self, members: Members) -> None:
        self._members = members
        self._before: dict[int, int] = {}
        self._opened_ns = 0
        self.elapsed_ns = 0
        self.cpu_ns: dict[str, int] = {}
        self.rss_bytes = 0

    def __enter__(self) -> Self:
        gc.collect()
        self._before = {member.pid: cpu_ns(member.pid) for member in self._members()}
        self._opened_ns = time.perf_counter_ns()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.elapsed_ns = time.perf_counter_ns() - self._opened_ns
        if value is not None:
            return
        members = self._members()
        for role, pid in members:
            used = max(0, cpu_ns(pid) - self._before.get(pid, 0))
            self.cpu_ns[role] = self.cpu_ns.get(role, 0) + used
        self.rss_bytes = sum(rss_bytes(pid) for _, pid in members)

    def sample(self, tasks: int, latencies_ns: Sequence[int] = (), **extra: float) -> Sample:
        """What the window cost, once it is closed.

        Args:
            tasks: Tasks finished inside it.
            latencies_ns: One time per task, where tasks were timed one by one.
            extra: Further figures of the scenario.
        """
        return Sample(
            tasks=tasks,
            elapsed_ns=self.elapsed_ns,
            cpu_ns=self.cpu_ns,
            rss_bytes=self.rss_bytes,
            p50_ns=percentile(latencies_ns, 0.50) if latencies_ns else None,
            p99_ns=percentile(latencies_ns, 0.99) if latencies_ns else None,
            extra=extra,
        )


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of all values do not exceed (nearest rank: a value that occurred)."""
    ordered = sorted(values)
    rank = -(-len(ordered) * share // 1)
    return float(ordered[max(0, int(rank) - 1)])


class IdleCost(NamedTuple):
    """What a group of processes costs while nothing happens."""

    cpu_percent: float
    rss_bytes: int
    pss_bytes: int


def idle_cost(pids: Sequence[int], seconds: float) -> IdleCost:
    """Watch processes that do nothing, for some seconds. The percentage is of one core."""
    before = sum(cpu_ns(pid) for pid in pids)
    opened_ns = time.perf_counter_ns()
    time.sleep(seconds)
    used = sum(cpu_ns(pid) for pid in pids) - before
    elapsed_ns = time.perf_counter_ns() - opened_ns
    return IdleCost(100 * used / elapsed_ns, sum(map(rss_bytes, pids)), sum(map(pss_bytes, pids)))
