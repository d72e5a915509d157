"""Processes that cannot be sampled: what handlers started (compilers, ffmpeg, forks, `subprocess`), the spawner, which
may have no thread and must not wait, and the program itself, whose signals are its own.

Nobody samples them from inside, but the kernel counts their CPU time. It is read when a capture begins, now and then
meanwhile and at the end; the difference is one sample under the process that started it:

    process 812: worker 3 [http] ▸ child: ffmpeg

So the picture of all processes is whole, and what is missing in it is known by name. One that begins and ends between
two looks is not seen; the kernel books it to nobody who still lives.

Known limits: Linux.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from typing import Final

from runtime.profile.model import Frame, Process, Profile, StackSample
from runtime.profile.presence.control import rows_of

SPAWNER: Final = "spawner"
FACE: Final = "face"
LOOK_NS: Final = 500_000_000
_TICK_NS: Final = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
_CPUCLOCK_SCHED: Final = 2
"""Linux, include/linux/posix-timers.h: the clock that counts scheduled time in nanoseconds."""
_PPID, _UTIME, _STIME, _START = 1, 11, 12, 19
"""Fields of /proc/PID/stat behind the name."""

Known = tuple[int, int]
"""Pid and start time."""


class OtherProcesses:
    """The CPU time of those that do not answer, from now on.

    Args:
        state_dir: The folder.
        pids: Only what these started; None: any process of the folder.
    """

    def __init__(self, state_dir: str, pids: Collection[int] | None = None) -> None:
        self._state_dir, self._pids = state_dir, pids
        self._begin_ns: dict[Known, int] = {}
        self._seen: dict[Known, tuple[Process, str, int]] = {}
        self._due_ns = 0
        self._first = True
        self.look()

    def stepped(self, stop: Callable[[], bool] | None) -> Callable[[], bool]:
        """A `stop` that looks, too."""

        def both() -> bool:
            if time.monotonic_ns() >= self._due_ns:
                self.look()
            return stop is not None and stop()

        return both

    def look(self) -> None:
        """Read what each of them has used by now."""
        self._due_ns = time.monotonic_ns() + LOOK_NS
        for known, owner, name, used_ns in others_of(self._state_dir):
            # What was there before we looked had used something; what was born since had not.
            self._begin_ns.setdefault(known, used_ns if self._first else 0)
            self._seen[known] = (owner, name, used_ns)
        self._first = False

    def add_to(self, profile: Profile) -> None:
        """What they used since the beginning, as samples; but for a program that was sampled after all."""
        self.look()
        sampled = {sample.process for sample in profile.samples}
        for known, (owner, name, used_ns) in self._seen.items():
            spent_ns = used_ns - self._begin_ns[known]
            if not name and owner.role == FACE and owner in sampled:
                continue
            if spent_ns > 0 and (self._pids is None or owner.pid in self._pids):
                stack, thread = (Frame(f"child: {name}"),), f"child {known[0]}"
                if not name:
                    stack, thread = (Frame("not sampled"),), "MainThread" if owner.role == SPAWNER else "all threads"
                profile.add(StackSample(stack, (), owner, thread), spent_ns, 0)


def others_of(state_dir: str) -> Iterator[tuple[Known, Process, str, int]]:
    """Spawner and program, and each process below one of the page that has no slot itself: who, whose, its name (of
    those two: empty), CPU time in nanoseconds."""
    ours = {row.process.pid: row.process for row in rows_of(state_dir)}
    stats = dict(_stats())
    for pid, (name, fields) in stats.items():
        owner = ours.get(pid)
        if owner is not None:
            if owner.role in (SPAWNER, FACE):
                yield (pid, int(fields[_START])), owner, "", _used_ns(pid, fields)
            continue
        owner = _owner(pid, stats, ours)
        # What the program itself starts beside the runtime is not the runtime's.
        if owner is not None and owner.role != FACE:
            yield (pid, int(fields[_START])), owner, name, _used_ns(pid, fields)


def _used_ns(pid: int, fields: list[bytes]) -> int:
    """By the CPU clock of the process, or in ticks of 10 ms where that cannot be read."""
    with suppress(OSError):
        return time.clock_gettime_ns((~pid << 3) | _CPUCLOCK_SCHED)
    return (int(fields[_UTIME]) + int(fields[_STIME])) * _TICK_NS


def _stats() -> Iterator[tuple[int, tuple[str, list[bytes]]]]:
    """Name and further fields of each process of the machine."""
    try:
        names = os.listdir("/proc")
    except OSError:
        return
    for name in names:
        if name.isdigit():
            with suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:
                head, _, rest = file.read().rpartition(b")")
                if rest:
                    yield int(name), (head.partition(b"(")[2].decode("utf-8", "replace"), rest.split())


def _owner(pid: int, stats: dict[int, tuple[str, list[bytes]]], ours: dict[int, Process]) -> Process | None:
    """The nearest process above it that is one of ours."""
    for _ in range(64):
        found = stats.get(pid)
        if found is None:
            return None
        pid = int(found[1][_PPID])
        if pid in ours:
            return ours[pid]
    return None
