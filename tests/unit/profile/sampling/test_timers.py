"""Timers on CPU time: one shot, what is left of it, and to whom the signal goes."""

from __future__ import annotations

import itertools
import os
import signal
import threading
import time
from collections.abc import Callable
from functools import partial
from types import FrameType

import pytest

from runtime.host import kernel
from runtime.profile.sampling.timers import (
    MAIN_CLOCK,
    PROCESS_CLOCK,
    CpuTimer,
    CpuTimers,
    IntervalTimer,
    ThreadTimer,
    since_kernel_tick_ns,
)

MS = 1_000_000
KINDS: list[Callable[[], CpuTimer]] = [IntervalTimer]
if kernel.LINUX:
    KINDS += [partial(ThreadTimer, MAIN_CLOCK), partial(ThreadTimer, PROCESS_CLOCK)]


@pytest.mark.parametrize("make", KINDS)
def test_a_shot_comes_after_its_cpu_time_and_once(make: Callable[[], CpuTimer]) -> None:
    came: list[int] = []

    def tick(signum: int, frame: FrameType | None) -> None:
        came.append(time.process_time_ns())

    before = signal.signal(signal.SIGPROF, tick)
    timer = make()
    try:
        assert timer.left() == 0
        timer.arm(1_000.5)
        assert timer.left() == pytest.approx(1_000.5, abs=5)
        assert timer.disarm() > 900
        assert timer.left() == 0
        begun_ns = time.process_time_ns()
        timer.arm(0.005)
        while time.process_time_ns() < begun_ns + 100_000_000:
            sum(range(1_000))
        assert len(came) == 1
        assert came[0] - begun_ns >= 4_000_000
    finally:
        timer.close()
        signal.signal(signal.SIGPROF, signal.SIG_IGN)
        signal.signal(signal.SIGPROF, before)


@pytest.mark.skipif(not kernel.LINUX, reason="elsewhere the kernel chooses the thread")
def test_the_main_thread_gets_the_signal_of_another_ones_work() -> None:
    """It would wait for the lock to change hands otherwise; here the other thread never lets it go by itself."""
    came: list[str] = []
    before = signal.signal(signal.SIGPROF, lambda *_: came.append(threading.current_thread().name))
    timer = ThreadTimer(PROCESS_CLOCK)
    try:
        timer.arm(0.005)
        thread = threading.Thread(target=lambda: sum(range(3_000_000)))
        thread.start()
        thread.join()
    finally:
        timer.close()
        signal.signal(signal.SIGPROF, signal.SIG_IGN)
        signal.signal(signal.SIGPROF, before)
    assert came == ["MainThread"]


@pytest.mark.skipif(not kernel.LINUX, reason="elsewhere there is one timer that stands for both")
def test_a_forked_child_has_both_timers() -> None:
    """As every worker and the engine are."""
    assert threading.main_thread().native_id == os.getpid()
    pid = os.fork()
    if not pid:
        timers = CpuTimers()
        os._exit(isinstance(timers.main, ThreadTimer) and isinstance(timers.rest, ThreadTimer))
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 1


def test_what_is_suspended_goes_on_where_it_was() -> None:
    timers = CpuTimers()
    try:
        assert timers.off()
        timers.arm_main(500.0, time.thread_time_ns())
        timers.arm_rest(500.0, time.thread_time_ns(), time.process_time_ns())
        assert not timers.off()
        timers.suspend()
        timers.suspend()
        assert timers.off()
        timers.resume()
        assert timers.main.left() == pytest.approx(500.0, abs=5)
        assert timers.rest is None or timers.rest.left() > 490.0, "their gap, stretched by what they use"
    finally:
        timers.close()


class Asked:
    """A timer that only notes what it is asked for; `gone_off` is what the kernel would say."""

    def __init__(self) -> None:
        self.gaps: list[float] = []
        self.gone_off = False

    def arm(self, gap_s: float) -> None:
        self.gaps.append(round(gap_s, 6))
        self.gone_off = False

    def left(self) -> float:
        return 0.0 if self.gone_off else 1e-9

    def disarm(self) -> float:
        return self.left()

    def close(self) -> None:
        pass


@pytest.fixture
def noted() -> tuple[CpuTimers, Asked, Asked]:
    timers = CpuTimers()
    timers.close()
    timers.main, timers.rest = main, rest = Asked(), Asked()
    return timers, main, rest


def test_each_is_due_by_its_own_clock(noted: tuple[CpuTimers, Asked, Asked]) -> None:
    """The main thread's by its own, the others' by what they use, as long as only the main thread's timer can be it."""
    timers, main, rest = noted
    timers.arm_main(0.01, 5 * MS)
    timers.arm_rest(0.02, 5 * MS, 5 * MS)
    assert (main.gaps, len(rest.gaps)) == ([0.01], 1)
    assert timers.reached(15 * MS - 1, 20 * MS) == (False, False)
    assert timers.reached(15 * MS, 20 * MS) == (True, False)


def test_where_it_may_be_the_others_timer_the_kernel_says_which(noted: tuple[CpuTimers, Asked, Asked]) -> None:
    """The main thread's clock is where it shall be, but the kernel did not find it running: it waits for the lock."""
    timers, main, rest = noted
    timers.arm_main(0.01, 5 * MS)
    timers.arm_rest(0.02, 5 * MS, 5 * MS)
    for main.gone_off, rest.gone_off in itertools.product((True, False), repeat=2):
        assert timers.reached(15 * MS, 200 * MS) == (main.gone_off, rest.gone_off)
    main.gone_off = rest.gone_off = True
    assert timers.reached(15 * MS - 1, 200 * MS) == (False, True)
    assert timers.reached(185 * MS, 200 * MS) == (True, False)
    timers.resume()
    main.gone_off = True
    assert timers.reached(0, 1) == (True, False), "behind a fork nothing is known"


def test_the_others_are_waited_for_as_long_as_they_will_take(noted: tuple[CpuTimers, Asked, Asked]) -> None:
    """They use a tenth of the process, then half of it, then all: asked for are 2, 2 and 1 times their gap."""
    timers, _, rest = noted
    main_ns = others_ns = 0
    for main_part, gaps in ((9, 2.0), (5, 2.0), (0, 1.0)):
        for _ in range(20):
            main_ns, others_ns = main_ns + main_part * MS, others_ns + (10 - main_part) * MS
            timers.arm_rest(0.05, main_ns, main_ns + others_ns)
        assert rest.gaps[-1] == pytest.approx(0.05 * gaps, rel=1e-3)


def test_a_signal_that_came_too_early_is_asked_for_again(noted: tuple[CpuTimers, Asked, Asked]) -> None:
    """The others were idle meanwhile: what is left of their gap is, and before it went off nothing."""
    timers, _, rest = noted
    timers.arm_rest(0.01, 0, 0)
    asked = len(rest.gaps)
    timers.arm_rest(None, 9 * MS, 9 * MS)
    assert len(rest.gaps) == asked, "it has yet to go off"
    timers.arm_rest(None, 38 * MS, 40 * MS)
    (gap_s,) = rest.gaps[asked:]
    assert 0.008 <= gap_s <= 0.016
    rest.gone_off = True
    assert timers.reached(38 * MS, 200 * MS)[1]


@pytest.mark.skipif(not kernel.LINUX, reason="elsewhere it is not known")
def test_the_kernel_looked_a_short_while_ago() -> None:
    found = [since_kernel_tick_ns(time.monotonic_ns()) for _ in range(1_000)]
    assert min(found) >= 0
    assert since_kernel_tick_ns(time.monotonic_ns() + 10**12) > 0.9 * 10**12
    assert since_kernel_tick_ns(0) == 0
