"""Timers on CPU time, whose SIGPROF goes to the main thread: one on its own clock, one on that of the process.

The main thread must be sampled by its own clock. By that of the process, ticks that others earn while it waits for a
core or for the interpreter lock find it where it waits, and not where it computes: beside a thread that compresses, on
a busy machine, a share of 24 % was seen as 16 %. The other timer says when there is something to see in other threads.

POSIX timers (`timer_create` with SIGEV_THREAD_ID, by `ctypes`) can do both, and neither a fork nor an `exec` inherits
them. Elsewhere it is ITIMER_PROF, which is on the clock of the process and sends to whichever thread runs.

Concurrency: made, armed and read by the main thread; any thread may `suspend`, `resume` and `close`.
Known limits: the kernel looks at CPU timers at its own tick, 1 to 10 ms: `since_kernel_tick_ns`. Where ITIMER_PROF
    sends to another thread, CPython does not tell the main one, which hears of it when it next takes the interpreter
    lock; so places of programs with busy threads are less exact there.
    A signal that comes just before the main thread waits in C, or while it waits for a lock, is heard behind that wait:
    other threads are seen late then, and those that ended meanwhile are nobody's.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from typing import Any, Final, Protocol

_SIGEV_THREAD_ID: Final = 4
_SIGEVENT_BYTES: Final = 64
PROCESS_CLOCK: Final = 2
MAIN_CLOCK: Final = 3
"""Of the thread that makes the timer: the main thread."""


_COARSE: Final = 6 if sys.platform.startswith("linux") else None
"""CLOCK_MONOTONIC_COARSE: the time of the last tick of the kernel."""

_GAP_S_MIN: Final = 0.0005
"""Nothing shorter is asked for: the kernel looks each 1 to 10 ms."""
_STRETCH_MAX: Final = 2.0
"""Times the gap that the other timer is armed for at most, while the others are idle."""


def since_kernel_tick_ns(now_ns: int) -> int:
    """How long ago the kernel last looked at CPU timers; 0 where that is not known.

    A handler that runs late, behind a long call in C, begins the next gap then and not now: a gap that began between
    two looks would end at the second one after it more often than any other, and what follows long calls would be seen
    too seldom.

    Args:
        now_ns: Monotonic.
    """
    return max(0, now_ns - time.clock_gettime_ns(_COARSE)) if _COARSE is not None else 0


class CpuTimer(Protocol):
    """One shot at a time."""

    def arm(self, gap_s: float) -> None:
        """Send the signal after so much CPU time, instead of what was asked for before."""

    def left(self) -> float:
        """Seconds until then; 0 when it is not armed."""

    def disarm(self) -> float:
        """Do not. Returns what was left."""

    def close(self) -> None:
        """It is not needed any more."""


class IntervalTimer:
    """ITIMER_PROF, of which a process has one."""

    def arm(self, gap_s: float) -> None:
        """See `CpuTimer`."""
        signal.setitimer(signal.ITIMER_PROF, gap_s)

    def left(self) -> float:
        """See `CpuTimer`."""
        return signal.getitimer(signal.ITIMER_PROF)[0]

    def disarm(self) -> float:
        """See `CpuTimer`."""
        return signal.setitimer(signal.ITIMER_PROF, 0)[0]

    def close(self) -> None:
        """See `CpuTimer`."""
        self.disarm()


class ThreadTimer:
    """A POSIX timer. Raises OSError or AttributeError where there are none."""

    def __init__(self, clock: int) -> None:
        import ctypes  # lazy: 2 ms, which only a process that is profiled needs

        class SignalEvent(ctypes.Structure):
            _fields_ = [
                ("value", ctypes.c_void_p),
                ("signo", ctypes.c_int),
                ("notify", ctypes.c_int),
                ("thread", ctypes.c_int),
                ("rest", ctypes.c_char * (_SIGEVENT_BYTES - 20)),
            ]

        # PyDLL keeps the interpreter lock: given up within a tick, it may be 5 ms until the main thread has it again.
        libc = ctypes.PyDLL(None, use_errno=True)
        self._set, self._get, self._delete = libc.timer_settime, libc.timer_gettime, libc.timer_delete
        # Not `main_thread().native_id`: in a forked process, as workers are, that is a thread of the parent.
        event = SignalEvent(None, int(signal.SIGPROF), _SIGEV_THREAD_ID, threading.get_native_id())
        self._id = ctypes.c_void_p()
        if libc.timer_create(clock, ctypes.byref(event), ctypes.byref(self._id)):
            raise OSError(ctypes.get_errno(), "timer_create")
        # interval and value, in seconds and nanoseconds each
        self._asked: Any = (ctypes.c_long * 4)()
        self._found: Any = (ctypes.c_long * 4)()

    def arm(self, gap_s: float) -> None:
        """See `CpuTimer`."""
        asked = self._asked
        asked[2], asked[3] = int(gap_s), int(gap_s % 1.0 * 1e9) or 1
        self._set(self._id, 0, asked, None)

    def left(self) -> float:
        """See `CpuTimer`."""
        found = self._found
        if self._get(self._id, found):
            return 0.0
        return float(found[2] + found[3] / 1e9)

    def disarm(self) -> float:
        """See `CpuTimer`."""
        asked, found = self._asked, self._found
        asked[2] = asked[3] = 0
        if self._set(self._id, 0, asked, found):
            return 0.0
        return float(found[2] + found[3] / 1e9)

    def close(self) -> None:
        """See `CpuTimer`."""
        self._delete(self._id)


class CpuTimers:
    """Both of them, or one that stands for both.

    When they are due is told by clocks that a tick reads anyway, which saves two calls of the kernel. The other timer's
    gaps are CPU time of the other threads. No clock shows that, so it is armed for as much of the process's time as
    they will need by their share of late; by the gap alone, one signal in three found nothing to see. Where their share
    grows meanwhile, the look comes late: after `_STRETCH_MAX` gaps at most.
    """

    def __init__(self) -> None:
        self.main: CpuTimer
        self.rest: CpuTimer | None
        try:
            if not sys.platform.startswith("linux"):
                raise OSError
            self.main, self.rest = ThreadTimer(MAIN_CLOCK), ThreadTimer(PROCESS_CLOCK)
        except (OSError, AttributeError, ImportError):
            self.main, self.rest = IntervalTimer(), None
        self._left = (0.0, 0.0)
        self._main_at_ns = self._rest_at_ns = self._rest_fires_at_ns = 0
        self._shared_at_ns, self._others_share = (0, 0), 1.0

    def reached(self, main_ns: int, process_ns: int) -> tuple[bool, bool]:
        """Whether the time has come to look at the main thread, and at the others.

        Args:
            main_ns: CPU time of the main thread.
            process_ns: That of the process.
        """
        if self.rest is None:
            main = not self.main.left()
            return main, main
        main = main_ns >= self._main_at_ns
        if process_ns < self._rest_fires_at_ns:
            return main, False
        # The signal may be the other timer's: that the main thread's clock is there does not say that it runs.
        return main and not self.main.left(), process_ns - main_ns >= self._rest_at_ns and not self.rest.left()

    def arm_main(self, gap_s: float, main_ns: int) -> None:
        """Look at the main thread when it has used `gap_s` more than `main_ns`, which is its CPU time now."""
        gap_s = max(gap_s, _GAP_S_MIN)
        self._main_at_ns = main_ns + int(gap_s * 1e9)
        self.main.arm(gap_s)

    def arm_rest(self, gap_s: float | None, main_ns: int, process_ns: int) -> None:
        """Look at the others when they have used `gap_s` more.

        Args:
            gap_s: None: the gap goes on, and where its signal came too early, what is left of it is asked for.
            main_ns: CPU time of the main thread now.
            process_ns: That of the process.
        """
        if self.rest is None or (gap_s is None and process_ns < self._rest_fires_at_ns):
            return
        others_ns = process_ns - main_ns
        if gap_s is not None:
            self._rest_at_ns = others_ns + int(gap_s * 1e9)
        before_ns, began_ns = self._shared_at_ns
        if process_ns > began_ns:
            share = min(max((others_ns - before_ns) / (process_ns - began_ns), 0.0), 1.0)
            self._others_share = (self._others_share + share) / 2
            self._shared_at_ns = others_ns, process_ns
        left_s = (self._rest_at_ns - others_ns) / 1e9 / max(self._others_share, 1 / _STRETCH_MAX)
        left_s = max(left_s, _GAP_S_MIN)
        self._rest_fires_at_ns = process_ns + int(left_s * 1e9)
        self.rest.arm(left_s)

    def off(self) -> bool:
        """Whether one of them is not armed."""
        return not self.main.left() or (self.rest is not None and not self.rest.left())

    def suspend(self) -> None:
        """No signals until `resume`. Again is harmless."""
        left = self.main.disarm(), 0.0 if self.rest is None else self.rest.disarm()
        self._left = left[0] or self._left[0], left[1] or self._left[1]

    def resume(self) -> None:
        """Go on with what was left. Any thread may: what is due is not known by clocks then, so the kernel is asked."""
        self.main.arm(max(self._left[0], _GAP_S_MIN))
        if self.rest is not None:
            self.rest.arm(max(self._left[1], _GAP_S_MIN))
        self._main_at_ns = self._rest_at_ns = self._rest_fires_at_ns = 0  # behind it: the kernel is never earlier

    def close(self) -> None:
        """They are not needed any more."""
        for timer in (self.main, self.rest):
            if timer is not None:
                timer.disarm()
                timer.close()
