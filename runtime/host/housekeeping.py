"""The small duties of a worker process: its lifeline, its memory, dead children, results that wait behind a long task.

`Housekeeper` is a thread beside the thread that runs handlers. It sleeps until the lifeline ends or it is woken, and
ticks only while there are tasks whose results could wait (see `Housekeeper.wake`); a worker that is idle, or runs
single tasks one after the other, costs it nothing.

The lifeline is a pipe whose other end only the spawner holds: it ends when the spawner dies, however it dies. Linux has
a death signal besides; macOS has only this.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from runtime.host import kernel

TICK_S: Final = 0.005
"""How long a result may wait behind a task that takes long. About a scheduling quantum of the interpreter."""
QUIET_TICKS: Final = 40
"""Ticks in a row without anything to do, after which the housekeeper sleeps until it is woken."""

OUR_THREADS: Final = "mainspring-"
"""How the names of our own threads begin."""
_LEFTOVER_NS: Final = 200_000_000
"""Longest wait for killed leftovers; what sits in the kernel beyond that is reaped later."""
_LEFTOVER_POLL_S: Final = 0.001


class Housekeeper(threading.Thread):
    """See the head of the file.

    Args:
        lifeline: Read end of the lifeline, or -1.
        duty: Called at each tick; returns whether there was something to do.
    """

    def __init__(self, lifeline: int, duty: Callable[[], bool]) -> None:
        super().__init__(name="mainspring-housekeeper", daemon=True)
        self.parked = False
        self._duty = duty
        self._lifeline = lifeline
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_write, False)
        self._ending = False

    def wake(self) -> None:
        """Tick again; does nothing while it ticks. Call where `parked` is set, after there is something to do."""
        self.parked = False
        self._poke()

    def end(self) -> None:
        """Stop the thread and wait for it."""
        self._ending = True
        self._poke()
        if self.is_alive():
            self.join()
        os.close(self._wake_read)
        os.close(self._wake_write)

    def run(self) -> None:
        """The thread's body."""
        poller = select.poll()
        poller.register(self._wake_read, select.POLLIN)
        if self._lifeline >= 0:
            poller.register(self._lifeline, select.POLLIN)
        quiet = 0
        while not self._ending:
            self.parked = quiet >= QUIET_TICKS
            if self.parked and self._duty():  # something began before the flag could be seen
                self.parked, quiet = False, 0
            for fd, _ in poller.poll(None if self.parked else TICK_S * 1000):
                if fd == self._lifeline:
                    end_own_group()
                os.read(self._wake_read, 64)
                quiet = 0
            quiet = 0 if self._duty() else quiet + 1

    def _poke(self) -> None:
        with suppress(BlockingIOError):
            os.write(self._wake_write, b"\1")


def end_own_group() -> None:
    """Kill this worker and what it started, because nobody is left to do so."""
    with suppress(OSError):
        os.killpg(os.getpgid(0), signal.SIGKILL)
    os._exit(1)


def end_leftovers(started_ns: int) -> bool:
    """After an attempt was stopped: kill and reap the processes that it started, wherever they put themselves.

    Orphans among them have come to this worker, which adopts them. A process that another attempt left less than 10 ms
    before may be taken for one of them.

    Args:
        started_ns: When the attempt started, on the monotonic clock.

    Returns:
        Whether threads are left that the attempt started; they can only be ended with the process.
    """
    start = kernel.start_time_of(started_ns)
    deadline_ns = time.monotonic_ns() + _LEFTOVER_NS
    while time.monotonic_ns() < deadline_ns:
        pids = [pid for pid in kernel.descendants(os.getpid()) if kernel.start_time(pid) >= start]
        if not pids:
            break
        for pid in pids:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
            with suppress(OSError):
                os.waitpid(pid, os.WNOHANG)
        select.select([], [], [], _LEFTOVER_POLL_S)
    ours = [thread.native_id for thread in threading.enumerate() if thread.name.startswith(OUR_THREADS)]
    return kernel.threads_since(start, ours) > 0


class ResidentMemory:
    """Resident bytes of this process, read at about 1.5 us from a file that stays open."""

    def __init__(self) -> None:
        self._page = os.sysconf("SC_PAGE_SIZE")
        try:
            self._fd = os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self._fd = -1

    def bytes(self) -> int:
        """Resident memory now; the peak where there is no /proc; never raises."""
        if self._fd >= 0:
            with suppress(OSError, ValueError, IndexError):
                return int(os.pread(self._fd, 128, 0).split()[1]) * self._page
        import resource  # lazy: only where there is no /proc

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024

    def close(self) -> None:
        """Close the file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class DeadChildren:
    """Reaps what handlers started and forgot, between tasks.

    Objects that wait for a child of their own would lose its exit status to us, so they go first: `subprocess` and
    `multiprocessing` collect theirs, and any other zombie is reaped only when it was one already at the look before.
    """

    def __init__(self) -> None:
        self._seen = 0

    def reap(self) -> bool:
        """Reap what is due; returns whether children are left, living or dead, so that another look makes sense."""
        try:
            found = _exited()
        except ChildProcessError:
            self._seen = 0
            return False
        if found == 0:
            self._seen = 0
            return True
        _let_owners_collect()
        if found != self._seen:
            self._seen = found
            return True
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        self._seen = 0
        return True


def _exited() -> int:
    """Pid of a child that is a zombie; 0 when all children live. Raises ChildProcessError: there are none."""
    if not hasattr(os, "waitid"):
        return os.waitpid(-1, os.WNOHANG)[0]
    found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    return found.si_pid if found is not None else 0


def _let_owners_collect() -> None:
    cleanup = getattr(sys.modules.get("subprocess"), "_cleanup", None)
    if cleanup is not None:
        cleanup()
    multiprocessing = sys.modules.get("multiprocessing.process")
    if multiprocessing is not None:
        multiprocessing.active_children()
