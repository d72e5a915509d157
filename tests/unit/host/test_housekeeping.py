"""Lifeline, ticking and sleeping, dead children."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable

from runtime.host import kernel
from runtime.host.housekeeping import DeadChildren, Housekeeper, ResidentMemory, end_leftovers


def forked(body: Callable[[], None]) -> int:
    """Wait status of a forked child that leads its own group and runs `body`."""
    pid = os.fork()
    if pid == 0:
        try:
            os.setsid()
            body()
        finally:
            os._exit(0)
    return os.waitpid(pid, 0)[1]


def test_it_ticks_while_there_is_something_to_do_and_then_parks() -> None:
    ticks = threading.Semaphore(0)
    busy = [True]

    def duty() -> bool:
        ticks.release()
        return busy[0]

    keeper = Housekeeper(-1, duty)
    keeper.start()
    for _ in range(60):
        assert ticks.acquire(timeout=5)
    assert not keeper.parked
    busy[0] = False
    while not keeper.parked:
        ticks.acquire(timeout=5)
    while ticks.acquire(blocking=False):
        pass
    assert not ticks.acquire(timeout=0.03), "a parked housekeeper does nothing"
    keeper.wake()
    assert ticks.acquire(timeout=5)
    keeper.end()
    assert not keeper.is_alive()


def test_the_end_of_the_lifeline_ends_the_group() -> None:
    def body() -> None:
        read_fd, write_fd = os.pipe()
        keeper = Housekeeper(read_fd, lambda: False)
        keeper.start()
        os.close(write_fd)
        threading.Event().wait(10)

    assert os.waitstatus_to_exitcode(forked(body)) == -signal.SIGKILL


def test_resident_memory_is_plausible() -> None:
    memory = ResidentMemory()
    assert 1_000_000 < memory.bytes() < 100_000_000_000
    memory.close()
    assert memory.bytes() > 1_000_000, "the peak, where there is no /proc"


def test_forgotten_children_are_reaped_at_the_second_look() -> None:
    def body() -> None:
        dead = DeadChildren()
        if dead.reap():
            os._exit(1)
        pids = []
        for _ in range(5):
            pid = os.fork()
            if pid == 0:
                os._exit(0)
            pids.append(pid)
        for pid in pids:
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        looks = 1
        while dead.reap():
            looks += 1
        os._exit(0 if looks == 3 else 2)

    assert os.waitstatus_to_exitcode(forked(body)) == 0


def test_owners_collect_their_own_children_first() -> None:
    def body() -> None:
        dead = DeadChildren()
        child = subprocess.Popen(["sh", "-c", "exit 3"])
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        dead.reap()
        os._exit(0 if child.wait() == 3 else 1)

    assert os.waitstatus_to_exitcode(forked(body)) == 0


def test_a_living_child_asks_for_another_look() -> None:
    def body() -> None:
        with subprocess.Popen(["sleep", "60"]) as child:
            seen = DeadChildren().reap()
            child.kill()
        os._exit(0 if seen else 1)

    assert os.waitstatus_to_exitcode(forked(body)) == 0


def test_a_thread_that_answers_is_not_what_an_attempt_left() -> None:
    began, gate = kernel.start_time_of(time.monotonic_ns()), threading.Event()
    while kernel.start_time_of(started_ns := time.monotonic_ns()) < began + 3:
        pass  # threads of another test are of an earlier tick, whatever either clock rounds
    ours = threading.Thread(target=gate.wait, name="mainspring-answer")
    theirs = threading.Thread(target=gate.wait, name="theirs")
    ours.start()
    try:
        assert not end_leftovers(started_ns)
        theirs.start()
        assert end_leftovers(started_ns)
    finally:
        gate.set()
        ours.join()
        if theirs.ident is not None:
            theirs.join()
