"""The ticks of this process: where its CPU time goes, by SIGPROF on the main thread.

    kernel ── SIGPROF ──► Ticks._tick, at the next bytecode ──► Bucket of this second ──► ring of the last minute

The timers (see `timers`) run on CPU time, so an idle process has no ticks. They are armed for one tick at a time, with
gaps that are exponentially distributed (see `pace`): what comes at regular times is seen too. The handler runs on the
main thread inside whatever was interrupted, so it finds its labels (a context variable) and its task without a search.
A tick is never weighted by its number, but by clocks:

- the main thread's own clock, since the tick before, is the weight of where the main thread is: the gap that was asked
  for goes to all ticks of its second alike (see `buckets`), and what passed beyond it to where the tick came late;
- what the other threads used (clock of the process less that) is given to each whose own clock moved, at the place
  where it is; they are looked at only then (`sys._current_frames`, with the collector off: CPython #106883);
- what no Python thread used, such as a native pool, or a thread that ended, is `NATIVE`;
- what the handler itself used is `SELF`.

So the sum is the CPU time of the process, to the nanosecond. A time in one long C call has no ticks of its own, and all
of it is the weight of the line that called it.

States: off -> on (armed) -> off; suspended around a fork, and before an `exec`. A tick's record is a row of a bucket, a
second long: code objects and offsets, for `rendering` to put into words when somebody looks.

Invariants: while the timer is armed the signal has our handler, which never raises, takes no lock and does no I/O;
    before the handler goes, the timer is off and what is pending was thrown away; a forked child is off.
    What it costs is measured by its own clock: over its budget (see `pace`) the rate is halved, and that is said.
Concurrency: `start`, `stop` and ticks on the main thread; any thread may read buckets that are closed.
Known limits: interval timers survive `exec`, so `os.execv` and `os.execve` are wrapped while it is on; a C library that
    replaces the process by itself is not seen. Who sets the default action for SIGPROF while it is on ends the process.
    C libraries that cannot stand interrupted system calls: `NodeType(profile_signal=False)`.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
from contextlib import suppress
from time import clock_gettime_ns, monotonic_ns, process_time_ns, thread_time_ns
from types import FrameType
from typing import Final

from runtime.profile.ledger.sites import HANDLERS
from runtime.profile.sampling.buckets import Bucket, Buckets, Places
from runtime.profile.sampling.execs import EXECS
from runtime.profile.sampling.labels import LABELS, THREADS, Labels, expand
from runtime.profile.sampling.pace import HZ, HZ_MAX, Pace
from runtime.profile.sampling.parents import PoolWork, chain_above
from runtime.profile.sampling.self_cost import SELF_COST
from runtime.profile.sampling.threads import clock_of, other_frames, thread_name, walk
from runtime.profile.sampling.timers import CpuTimers, since_kernel_tick_ns

_REST_NS: Final = 50_000
"""Other threads are looked at when they used at least this."""
_STALE_NS: Final = 1_000_000_000

_IDLE_FILES: Final = ("concurrent/futures/thread.py", "/threading.py", "/queue.py", "/selectors.py")
"""Where threads of the standard library wait for work. A CPU clock that moved says that there was some since."""
TICK, CUTS, ENDS = range(3)
"""Why it is looked: the timer went off; a bucket is closed; the same, and nothing is kept back."""
_OURS: Final = "runtime.profile."
NATIVE: Final = "<native threads>"
SELF: Final = "<profiler>"


class Ticks:
    """See the module."""

    def __init__(self) -> None:
        self.buckets = Buckets()
        self.on = False
        self.allowed, self.failure = True, ""
        self.count = self.errors = self.lost = self.total_ns = self.self_ns = 0
        self.pace = Pace()
        self._busy_ns = self._suspended = 0
        self._timers: CpuTimers | None = None
        self._hooked = False
        self._reset()

    def _reset(self) -> None:
        self._main_ns = self._seen_ns = self._process_ns = self._rest_ns = 0
        self._asked_ns = self._due_ns = self._since_ns = 0
        self._clocks: dict[int, int] = {}
        self._held: dict[int, int] = {}

    # --- on and off -----------------------------------------------------------------------------------------------

    @property
    def timer(self) -> str:
        """What sends the signal; "" when it is off."""
        return "" if self._timers is None else type(self._timers.main).__name__

    def askers(self) -> list[object]:
        """Who wants ticks."""
        return list(self.pace.rates)

    def start(self, who: object, hz: float = HZ) -> bool:
        """Have ticks; of several who want them, the fastest decides. On the main thread.

        Args:
            who: For `stop`; again with the same changes the rate.
            hz: In a second of CPU time.

        Returns:
            False where somebody else has the signal or the timer, or there is none.
        """
        if not self.allowed or not (self.on or self._take()):
            return False
        self.pace.rates[who] = min(max(hz, 1.0), HZ_MAX)
        if not self.on:
            self.on = True
            self._begin()
        else:
            self.cut()
        self._arm(True, True)
        return True

    def stop(self, who: object) -> None:
        """Have none for this one any more. On the main thread; again is harmless."""
        if who not in self.pace.rates:
            return
        self.cut(ends=True)
        del self.pace.rates[who]
        if self.pace.rates:
            return
        self.on = False
        self._release()

    def cut(self, ends: bool = False) -> None:
        """Bring the bucket up to here and now, and close it. On the main thread. `ends`: keep nothing back."""
        if self.on:
            frame = sys._getframe(1)
            while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(_OURS):
                frame = frame.f_back
            self._guarded(frame, True, True, how=ENDS if ends else CUTS)
        self.buckets.close(monotonic_ns())

    def check(self) -> None:
        """See that all is in order, and `cut`: user code may have taken the timer off, which is armed again, or taken
        the signal, which is then its own. On the main thread."""
        if self.on and not self._suspended:
            if signal.getsignal(signal.SIGPROF) != self._tick:
                self.lost += 1
                self.on = False  # whoever wants ticks has them again when the next one can have the signal
                self._close_timer()
                EXECS.unwrap()
            elif self._timers is not None and self._timers.off():
                self._arm(True, True)
        self.cut()

    def forget(self, who: object) -> None:
        """As `stop`, by another thread, where the main thread does not come to it: the handler stays."""
        self.pace.rates.pop(who, None)
        if not self.pace.rates:
            self.on = False
            self._close_timer()

    def _take(self) -> bool:
        if not hasattr(signal, "ITIMER_PROF") or threading.current_thread() is not threading.main_thread():
            return False
        if signal.getsignal(signal.SIGPROF) not in (signal.SIG_DFL, self._tick):
            return False
        if signal.getitimer(signal.ITIMER_PROF)[0]:
            return False
        self._timers = CpuTimers()
        signal.signal(signal.SIGPROF, self._tick)
        signal.siginterrupt(signal.SIGPROF, False)
        if not self._hooked:
            self._hooked = True
            # none of them does anything while it is off
            os.register_at_fork(before=self._suspend, after_in_parent=self._resume, after_in_child=self._forked)
            atexit.register(self._exit)
        EXECS.wrap(self._suspend, self._resume)
        return True

    def _release(self) -> None:
        """First no more signals, then throw away what is pending, then the default action."""
        self._close_timer()
        if signal.getsignal(signal.SIGPROF) == self._tick:
            signal.signal(signal.SIGPROF, signal.SIG_IGN)
            signal.signal(signal.SIGPROF, signal.SIG_DFL)
        EXECS.unwrap()

    def _close_timer(self) -> None:
        timers, self._timers = self._timers, None
        if timers is not None:
            timers.close()

    def _begin(self) -> None:
        self._reset()
        self._clocks = {clock: clock_gettime_ns(clock) for clock in map(clock_of, other_frames()) if clock}
        self._main_ns = self._seen_ns = thread_time_ns()
        self._process_ns = process_time_ns()
        self.pace.begin(self._process_ns, self.self_ns, self._main_ns, self.count)
        self.buckets.open = Bucket(monotonic_ns())

    def _exit(self) -> None:
        for who in list(self.pace.rates):
            with suppress(Exception):
                self.stop(who)

    # --- fork and exec --------------------------------------------------------------------------------------------

    def _suspend(self) -> None:
        """By any thread: no ticks from here to `_resume`."""
        if self.on:
            self._suspended += 1  # first: a tick in between would arm them again
            if self._timers is not None:
                self._timers.suspend()

    def _resume(self) -> None:
        if self._suspended:
            self._suspended -= 1
            if self.on and not self._suspended and self._timers is not None:
                self._timers.resume()

    def _forked(self) -> None:
        """In the child, which has the handler and no timer."""
        self._timers = None
        was_on, self.on, self._suspended, self._busy_ns = self.on, False, 0, 0
        self.pace = Pace()
        self.buckets.forget()
        if was_on and threading.current_thread() is threading.main_thread():
            with suppress(OSError, ValueError):
                self._release()

    # --- the tick -------------------------------------------------------------------------------------------------

    def _arm(self, main: bool, rest: bool, main_ns: int = 0, process_ns: int = 0) -> None:
        """For the next tick of those that are due. Clocks that are 0 are read here."""
        timers = self._timers
        if timers is None:
            return
        main_ns, process_ns = main_ns or thread_time_ns(), process_ns or process_time_ns()
        if main:
            gap_s = self.pace.gap_s()
            self._asked_ns, self._due_ns = self._due_ns, int(gap_s * 1e9)
            timers.arm_main(gap_s - self._since_ns / 1e9, main_ns)
        if timers.rest is not None:
            timers.arm_rest(self.pace.gap_s() if rest else None, main_ns, process_ns)
        if self._suspended:  # by another thread, just now
            timers.suspend()

    def _tick(self, signum: int, frame: FrameType | None) -> None:
        """SIGPROF. Lets nothing out but what other handlers raise to end the interrupted code."""
        try:
            timers = self._timers
            if self.on and not self._suspended and timers is not None:
                main_ns, process_ns = thread_time_ns(), process_time_ns()
                main, rest = timers.reached(main_ns, process_ns)
                if main:
                    self._since_ns = since_kernel_tick_ns(monotonic_ns())
                self._arm(main, rest, main_ns, process_ns)
                self._guarded(frame, main, rest, main_ns, process_ns)
        except Exception as failed:  # noqa: BLE001, RUF100 - nothing of it concerns the interrupted code
            self.errors, self.failure = self.errors + 1, f"{type(failed).__name__}: {failed}"
        except BaseException:  # of another handler, at whichever line: without this it may have been the last tick
            self._arm(True, True)
            raise

    def _guarded(
        self,
        frame: FrameType | None,
        main: bool,
        rest: bool,
        main_ns: int = 0,
        process_ns: int = 0,
        how: int = TICK,
    ) -> None:
        now_ns = monotonic_ns()
        if self._busy_ns and now_ns - self._busy_ns < _STALE_NS:
            return
        self._busy_ns = now_ns
        try:
            main_ns, process_ns = main_ns or thread_time_ns(), process_ns or process_time_ns()
            if self.buckets.is_over(now_ns):
                self.buckets.close(now_ns)
            self._sample(frame, main_ns, process_ns, main, rest, how)
        finally:
            self._busy_ns = 0

    def _sample(self, frame: FrameType | None, main_ns: int, process_ns: int, main: bool, rest: bool, how: int) -> None:
        self._rest_ns += process_ns - self._process_ns - (main_ns - self._seen_ns)
        if main:
            self._main_ns += self._see_main(frame, main_ns - self._main_ns, how)
        if rest and (self._rest_ns > _REST_NS or (how == ENDS and self._held)):
            self._rest_ns = min(self._rest_ns - self._look_at_others(how == ENDS), 0)
        end_ns = thread_time_ns()
        cost_ns = end_ns - main_ns
        self._add((SELF,), (-1,), (), "MainThread", cost_ns)
        self._main_ns += cost_ns
        self._seen_ns, self._process_ns = end_ns, process_ns + cost_ns
        self.self_ns += cost_ns
        SELF_COST.ticks_ns += cost_ns
        self.pace.adapt(process_ns, self.self_ns, end_ns, self.count)

    def _see_main(self, frame: FrameType | None, spent_ns: int, how: int) -> int:
        """Where the main thread is, and what it used since it was last seen. Returns how much of that is dealt with."""
        buckets = self.buckets
        if how == TICK:
            even_ns = min(spent_ns, self._asked_ns)
            spent_ns -= min(spent_ns - even_ns, self._since_ns)
            self.count += 1
        else:  # the gap goes on; this part of it is over
            even_ns = min(spent_ns, self._due_ns)
            self._due_ns -= even_ns
        self.total_ns += spent_ns
        if how != TICK and buckets.open.ticks:
            buckets.open.even_ns += even_ns
            if spent_ns == even_ns:
                return spent_ns
        places, offsets = chain_above(*walk(frame))
        row = buckets.add(places, offsets, expand(LABELS.get()), "MainThread", spent_ns - even_ns)
        if how == TICK or not buckets.open.ticks:
            buckets.ticked(row, even_ns)
        return spent_ns

    def _look_at_others(self, ends: bool) -> int:
        """Give what the other threads used to those whose clocks moved. Returns how much that is.

        A pool's thread that has its work behind it keeps its weight for the next time that it is seen at work.
        """
        given, clocks = 0, {}
        for thread, frame in other_frames().items():
            clock = clock_of(thread)
            if not clock:
                continue
            at_ns = clocks[clock] = clock_gettime_ns(clock)
            used_ns = at_ns - self._clocks.get(clock, 0)
            if used_ns > 0:
                given += used_ns
                used_ns += self._held.pop(clock, 0)
                places, offsets = walk(frame)
                if not ends and frame.f_code.co_filename.endswith(_IDLE_FILES):
                    self._held[clock] = used_ns
                    continue
                found = THREADS.by_thread.get(thread) or PoolWork.labels_in(frame)
                self._add(places, offsets, expand(found), thread_name(thread), used_ns)
        self._clocks = clocks
        for clock in [clock for clock in self._held if ends or clock not in clocks]:
            self._add((NATIVE,), (-1,), (), "native", self._held.pop(clock))
        if self._rest_ns > given:
            self._add((NATIVE,), (-1,), (), "native", self._rest_ns - given)
        return given

    def _add(self, places: Places, offsets: tuple[int, ...], labels: Labels, thread: str, ns: int) -> None:
        self.buckets.add(places, offsets, labels, thread, ns)
        self.total_ns += ns


# global: of this process, as its signal handlers are
TICKS: Final = Ticks()
HANDLERS.add(Ticks._tick.__code__)
