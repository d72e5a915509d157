"""Timers on CPU time: one shot, what is left of it, and to whom the signal goes."""

from __future__ import annotations

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

pytestmark = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there are no interval timers")
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
        assert timers.due() == (True, True)
        timers.main.arm(500.0)
        assert timers.due()[0] is False
        timers.suspend()
        timers.suspend()
        assert timers.due()[0] is True
        timers.resume(0.001)
        assert timers.main.left() == pytest.approx(500.0, abs=5)
    finally:
        timers.close()


@pytest.mark.skipif(not kernel.LINUX, reason="elsewhere the kernel chooses the thread")
def test_a_forked_process_has_timers_of_its_own() -> None:
    """As each worker is: its main thread is another one than that of the process that it was forked from."""
    pid = os.fork()
    if pid == 0:
        os._exit(0 if isinstance(CpuTimers().main, ThreadTimer) else 1)
    assert os.waitpid(pid, 0)[1] == 0


@pytest.mark.skipif(not kernel.LINUX, reason="elsewhere it is not known")
def test_the_kernel_looked_a_short_while_ago() -> None:
    found = [since_kernel_tick_ns(time.monotonic_ns()) for _ in range(1_000)]
    assert min(found) >= 0
    assert since_kernel_tick_ns(time.monotonic_ns() + 10**12) > 0.9 * 10**12
    assert since_kernel_tick_ns(0) == 0
