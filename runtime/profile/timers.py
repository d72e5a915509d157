"""A timer on the CPU time of this process, whose SIGPROF goes to the main thread.

Linux sends the signal of ITIMER_PROF to whichever thread runs when it is due, and CPython 3.11 lets the main thread know
of a signal that another thread got only when the interpreter lock changes hands: ticks then come at the wrong moments
(a share of 28 % was seen as 19 %). So where there are POSIX timers (`timer_create` with SIGEV_THREAD_ID), the signal
goes to the main thread. Neither a fork nor an `exec` inherits them. Elsewhere it is ITIMER_PROF.

Concurrency: made by the main thread; any thread may arm it. Known limits: the kernel looks at CPU timers at its own
tick, 1 to 10 ms.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from contextlib import suppress
from typing import Any, Final, Protocol

_SIGEV_THREAD_ID: Final = 4
_SIGEVENT_BYTES: Final = 64
_PROCESS_CLOCK: Final = 2


class Timer(Protocol):
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
        """See `Timer`."""
        signal.setitimer(signal.ITIMER_PROF, gap_s)

    def left(self) -> float:
        """See `Timer`."""
        return signal.getitimer(signal.ITIMER_PROF)[0]

    def disarm(self) -> float:
        """See `Timer`."""
        return signal.setitimer(signal.ITIMER_PROF, 0)[0]

    def close(self) -> None:
        """See `Timer`."""
        self.disarm()


class ThreadTimer:
    """A POSIX timer. Raises OSError or AttributeError where there are none."""

    def __init__(self) -> None:
        import ctypes  # lazy: 2 ms

        class Event(ctypes.Structure):
            _fields_ = [  # noqa: RUF012 - as ctypes has it
                ("value", ctypes.c_void_p),
                ("signo", ctypes.c_int),
                ("notify", ctypes.c_int),
                ("thread", ctypes.c_int),
                ("rest", ctypes.c_char * (_SIGEVENT_BYTES - 20)),
            ]

        libc = ctypes.CDLL(None, use_errno=True)
        self._set, self._get, self._delete = libc.timer_settime, libc.timer_gettime, libc.timer_delete
        native = threading.main_thread().native_id or 0
        event = Event(None, int(signal.SIGPROF), _SIGEV_THREAD_ID, native)
        self._id = ctypes.c_void_p()
        if libc.timer_create(_PROCESS_CLOCK, ctypes.byref(event), ctypes.byref(self._id)):
            raise OSError(ctypes.get_errno(), "timer_create")
        # interval and value, in seconds and nanoseconds each
        self._asked: Any = (ctypes.c_long * 4)()
        self._found: Any = (ctypes.c_long * 4)()

    def arm(self, gap_s: float) -> None:
        """See `Timer`."""
        asked = self._asked
        asked[2], asked[3] = int(gap_s), int(gap_s % 1.0 * 1e9) or 1
        self._set(self._id, 0, asked, None)

    def left(self) -> float:
        """See `Timer`."""
        found = self._found
        if self._get(self._id, found):
            return 0.0
        return float(found[2] + found[3] / 1e9)

    def disarm(self) -> float:
        """See `Timer`."""
        left_s, asked = self.left(), self._asked
        asked[2] = asked[3] = 0
        self._set(self._id, 0, asked, None)
        return left_s

    def close(self) -> None:
        """See `Timer`."""
        self._delete(self._id)


def make_timer() -> Timer:
    """The best that there is here."""
    if sys.platform.startswith("linux") and hasattr(time, "pthread_getcpuclockid"):
        with suppress(OSError, AttributeError, ImportError):
            return ThreadTimer()
    return IntervalTimer()
