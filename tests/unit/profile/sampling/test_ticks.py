"""Ticks: the books balance, nothing is left behind, and nothing of it concerns the interrupted code."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import zlib
from collections.abc import Iterator
from types import FrameType
from typing import Any

import pytest

from actors.protocol.control_signals import AttemptCancelled
from runtime.profile.sampling.buckets import Bucket
from runtime.profile.sampling.pace import HZ
from runtime.profile.sampling.ticks import CUTS, SELF, TICK, Ticks

DATA = bytes(range(256)) * 1_000


@pytest.fixture
def ticks() -> Iterator[Ticks]:
    made = Ticks()
    yield made
    made.stop("test")
    assert signal.getsignal(signal.SIGPROF) == signal.SIG_DFL
    assert signal.getitimer(signal.ITIMER_PROF) == (0.0, 0.0)
    assert made._timers is None


def left(ticks: Ticks) -> float:
    assert ticks._timers is not None
    return ticks._timers.main.left()


def first() -> FrameType:
    return sys._getframe()


def second() -> FrameType:
    return sys._getframe()


def burn(cpu_ns: int) -> None:
    until = time.process_time_ns() + cpu_ns
    while time.process_time_ns() < until:
        sum(range(1_000))


def pack(stop: threading.Event) -> None:
    while not stop.is_set():
        zlib.compress(DATA)


def test_the_sum_is_the_cpu_time_of_the_process(ticks: Ticks) -> None:
    stop = threading.Event()
    thread = threading.Thread(target=pack, args=(stop,), name="packs")
    before_ns = time.process_time_ns()
    assert ticks.start("test", 250)
    begun_ns = time.process_time_ns()
    thread.start()
    burn(400_000_000)
    ended_ns = time.process_time_ns()
    ticks.stop("test")
    after_ns = time.process_time_ns()
    stop.set()
    thread.join()
    assert ticks.count > 10
    assert 0.98 * (ended_ns - begun_ns) <= ticks.total_ns <= 1.02 * (after_ns - before_ns)
    rows = [row for bucket in ticks.buckets.closed(0) for row in bucket.rows.values()]
    assert sum(row.ns for row in rows) == ticks.total_ns
    packs = sum(row.ns for row in rows if row.thread == "packs")
    assert packs > 0


def test_a_tick_that_comes_late_has_its_lateness_for_itself(ticks: Ticks) -> None:
    """And what was asked for is everybody's: one long call must not get what was computed before it."""
    ticks.start("test", HZ)
    ticks._timers.suspend()  # type: ignore[union-attr]  # none but those here
    ticks.buckets.open = Bucket(time.monotonic_ns())
    ticks._asked_ns = 4_000_000
    ticks._see_main(first(), 4_000_000, TICK)
    ticks._see_main(second(), 104_000_000, TICK)
    ticks._due_ns = 7_000_000
    ticks._see_main(second(), 2_000_000, CUTS)
    assert ticks._due_ns == 5_000_000
    ticks.buckets.close(time.monotonic_ns())
    (bucket,) = ticks.buckets.closed(0)
    weights = {row.places[0].co_name: row.ns for row in bucket.rows.values()}  # type: ignore[union-attr]
    assert weights == {"first": 5_000_000, "second": 105_000_000}
    assert ticks.total_ns == 110_000_000


def test_what_a_late_tick_found_behind_the_kernels_look_is_of_the_next_one(ticks: Ticks) -> None:
    """A call ended 3 ms after the look at which its tick was due: those begin the next gap."""
    ticks.start("test", HZ)
    ticks._timers.suspend()  # type: ignore[union-attr]
    ticks._asked_ns, ticks._since_ns = 4_000_000, 3_000_000
    assert ticks._see_main(first(), 10_000_000, TICK) == 7_000_000
    assert ticks._see_main(first(), 5_000_000, TICK) == 4_000_000


def test_a_second_without_ticks_is_where_it_is_cut_outside_of_the_profiler(ticks: Ticks) -> None:
    ticks.start("test", 1)
    burn(2_000_000)
    ticks._timers.suspend()  # type: ignore[union-attr]
    had_none = not ticks.buckets.open.ticks
    ticks.cut()
    rows = [row for row in ticks.buckets.closed(0)[-1].rows.values() if row.places != (SELF,)]
    names = {row.places[0].co_name for row in rows}  # type: ignore[union-attr]
    assert not had_none or names == {"test_a_second_without_ticks_is_where_it_is_cut_outside_of_the_profiler"}


def test_two_who_want_ticks_get_them_until_the_last_has_enough(ticks: Ticks) -> None:
    assert ticks.start("test", HZ)
    assert ticks.start("other", 99)
    assert ticks.pace.hz == 99
    ticks.stop("other")
    assert ticks.on
    assert ticks.pace.hz == HZ
    ticks.stop("test")
    assert not ticks.on


def test_a_handler_of_others_is_left_alone(ticks: Ticks) -> None:
    theirs = signal.signal(signal.SIGPROF, signal.SIG_IGN)
    try:
        assert not ticks.start("test")
        assert signal.getsignal(signal.SIGPROF) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGPROF, theirs)


def test_a_timer_of_others_is_left_alone(ticks: Ticks) -> None:
    signal.setitimer(signal.ITIMER_PROF, 1_000.0)
    try:
        assert not ticks.start("test")
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def test_another_thread_cannot_start_them(ticks: Ticks) -> None:
    found: list[bool] = []
    thread = threading.Thread(target=lambda: found.append(ticks.start("test")))
    thread.start()
    thread.join()
    assert found == [False]


def test_who_may_not_have_them_has_none(ticks: Ticks) -> None:
    ticks.allowed = False
    assert not ticks.start("test")


def test_who_takes_the_signal_has_it(ticks: Ticks) -> None:
    assert ticks.start("test")
    signal.signal(signal.SIGPROF, signal.SIG_IGN)
    ticks.check()
    assert ticks.lost == 1
    assert not ticks.on
    assert not ticks.start("another")
    assert signal.getsignal(signal.SIGPROF) == signal.SIG_IGN
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    assert ticks.start("another")
    ticks.stop("another")
    assert (ticks.lost, ticks.on, ticks.askers()) == (1, True, ["test"])


def test_a_timer_that_was_taken_off_is_put_on_again(ticks: Ticks) -> None:
    assert ticks.start("test")
    assert ticks._timers is not None
    ticks._timers.main.disarm()
    assert left(ticks) == 0
    ticks.check()
    assert left(ticks) > 0


def test_what_goes_wrong_in_a_tick_is_counted_and_goes_no_further(
    ticks: Ticks, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ticks.start("test")

    def fails(*_: object, **__: object) -> None:
        raise KeyError

    with monkeypatch.context() as patch:
        patch.setattr(ticks, "_sample", fails)
        ticks._tick(signal.SIGPROF, None)
    assert ticks.errors >= 1
    assert not ticks._busy_ns


def test_what_ends_the_interrupted_code_passes_through(ticks: Ticks, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ticks.start("test")

    def stopped(*_: object, **__: object) -> None:
        raise AttemptCancelled("by the handler of another signal")

    with monkeypatch.context() as patch:
        patch.setattr(ticks, "_sample", stopped)
        with pytest.raises(AttemptCancelled):
            ticks._tick(signal.SIGPROF, None)
    assert not ticks._busy_ns


def test_a_tick_within_a_tick_does_nothing(ticks: Ticks) -> None:
    assert ticks.start("test")
    ticks._busy_ns = time.monotonic_ns()
    before = ticks.count
    ticks._guarded(None, True, True)
    assert ticks.count == before
    ticks._busy_ns = 1  # of a tick that something ended in the middle, long ago
    ticks._guarded(None, True, True)
    assert ticks.count == before + 1


def test_a_tick_while_a_bucket_is_closed_is_of_the_next_one(ticks: Ticks) -> None:
    """It would change the rows that are being gone through."""

    class Rows(dict[Any, Any]):
        def values(self) -> Any:
            for row in super().values():
                ticks._guarded(None, True, True)  # as by the handler, of a stack that was not there
                yield row

    assert ticks.start("test")
    ticks.buckets.open.rows = Rows(ticks.buckets.open.rows)
    burn(30_000_000)
    ticks._guarded(sys._getframe(), True, True)
    closes = ticks.buckets.open
    ticks.cut()
    assert closes.ended_ns
    assert not ticks.errors
    assert not ticks._busy_ns


def test_a_forked_child_is_off_and_the_parent_goes_on(ticks: Ticks) -> None:
    assert ticks.start("test")
    pid = os.fork()
    if pid == 0:
        fine = not ticks.on and signal.getsignal(signal.SIGPROF) == signal.SIG_DFL
        fine = fine and ticks._timers is None and os.execv.__module__ == "posix"
        os._exit(0 if fine else 1)
    assert os.waitpid(pid, 0)[1] == 0
    assert ticks.on
    assert left(ticks) > 0


def test_forks_of_other_threads_do_not_end_them(ticks: Ticks) -> None:
    assert ticks.start("test")

    def forks() -> None:
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        os.waitpid(pid, 0)

    thread = threading.Thread(target=forks)
    thread.start()
    thread.join()
    assert left(ticks) > 0


def test_a_tick_that_another_handler_ends_is_not_the_last(ticks: Ticks, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a timeout that arrives within it, at whichever line."""

    def interrupted(main_ns: int, process_ns: int) -> tuple[bool, bool]:
        raise AttemptCancelled

    assert ticks.start("test", 1)
    assert ticks._timers is not None
    ticks._timers.main.disarm()
    monkeypatch.setattr(ticks._timers, "reached", interrupted)
    with pytest.raises(AttemptCancelled):
        ticks._tick(signal.SIGPROF, first())
    assert left(ticks) > 0
