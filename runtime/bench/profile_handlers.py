"""What the scenario `profile-cost` lets workers run: tasks that wait, probes for pauses, a proof in a large heap."""

from __future__ import annotations

import asyncio
import gc
import itertools
import os
import sys
import time
import tracemalloc
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from runtime.bench.measure import percentile
from runtime.bench.own_core import own_core
from runtime.bench.paired import abba
from runtime.profile.ledger.books import Ledger
from runtime.profile.sampling.always import ALWAYS
from runtime.profile.sampling.always_on import always_on
from runtime.profile.sampling.pace import HZ
from runtime.profile.sampling.sampler import CpuSampler
from runtime.profile.sampling.ticks import TICKS

DEPTH: Final = 20
NOTED_NS: Final = 1_000_000


async def increment_async(number: int) -> int:
    """The same as `increment`, on a loop."""
    return number + 1


async def park(count: int) -> int:
    """Have so many tasks wait here until `leave` is called; returns then how many there were."""
    event = asyncio.Event()
    PARKED.events.append(event)

    async def wait(number: int) -> int:
        await event.wait()
        return number

    return len(await asyncio.gather(*(wait(number) for number in range(count))))


async def parked() -> int:
    """How many of `park` have begun."""
    return len(PARKED.events)


async def leave() -> int:
    """Let all go that wait here."""
    found = len(PARKED.events)
    while PARKED.events:
        PARKED.events.pop().set()
    return found


class ParkedTasks:
    """What tasks wait for until `leave`."""

    def __init__(self) -> None:
        self.events: list[asyncio.Event] = []


# global: of this worker
PARKED: Final = ParkedTasks()


def probe(duration_ns: int, others: list[int]) -> list[int]:
    """Keep looking at the clocks for so long, on a core of its own; the longest pauses, as `Pauses` says.

    Args:
        duration_ns: How long.
        others: Pids of all that share the other cores.
    """
    with own_core(others):
        pauses, until_ns = Pauses(), time.monotonic_ns() + duration_ns
        while time.monotonic_ns() < until_ns:
            pauses.step()
        return pauses.longest()


async def probe_async(duration_ns: int, others: list[int]) -> list[int]:
    """The same in a loop, which has its turn after each look."""
    with own_core(others):
        pauses, until_ns = Pauses(), time.monotonic_ns() + duration_ns
        while time.monotonic_ns() < until_ns:
            await asyncio.sleep(0)
            pauses.step()
        return pauses.longest()


def paired_work(pairs: int, window_ns: int, capture_hz: float) -> list[list[float]]:
    """What a unit of work costs on this worker's main thread, without the profiler and with it, in turns.

    Args:
        pairs: How many.
        window_ns: CPU time of a window.
        capture_hz: 0: with what is always on; else with the ticks of a capture of this rate, and after each second of
            them all of it is put into words, as an answer is.

    Returns:
        Of each pair the CPU time of a unit of work, off and on, and the 99th percentile of its times on the wall.
    """
    if not capture_hz:
        return [_flat(pair) for pair in abba(pairs, lambda on: _window(window_ns, ALWAYS if on else None))]
    sampler, numbers = CpuSampler(capture_hz).start(), itertools.count(1)
    TICKS.stop(sampler)
    put_each = max(1, 1_000_000_000 // window_ns)

    def window(on: bool) -> WorkWindow:
        if not on:
            return _window(window_ns, None)
        puts = next(numbers) % put_each == 0
        return _window(window_ns, sampler, capture_hz, (lambda: sampler.flush().to_json()) if puts else None)

    try:
        return [_flat(pair) for pair in abba(pairs, window)]
    finally:
        sampler.stop()


class WorkWindow(NamedTuple):
    """CPU time of a unit of work, and the 99th percentile of its times on the wall."""

    cpu_ns: float
    p99_ns: float


def _flat(pair: tuple[WorkWindow, WorkWindow]) -> list[float]:
    off, on = pair
    return [off.cpu_ns, on.cpu_ns, off.p99_ns, on.p99_ns]


def _window(window_ns: int, who: object, hz: float = HZ, last: Callable[[], object] | None = None) -> WorkWindow:
    """With ticks for somebody or without, and with this as the last of it."""
    if who is None:
        TICKS.stop(ALWAYS)
    else:
        TICKS.start(who, hz)
    clock, wall, times = time.thread_time_ns, time.perf_counter_ns, list[int]()
    begun_ns = clock()
    while clock() - begun_ns < window_ns:
        unit_ns = wall()
        deep(DEPTH)
        times.append(wall() - unit_ns)
    if last is not None:
        last()
    used_ns = clock() - begun_ns
    if who is None:
        TICKS.start(ALWAYS)
    elif who is not ALWAYS:
        TICKS.stop(who)
    return WorkWindow(used_ns / len(times), percentile(times, 0.99))


async def paired_work_async(pairs: int, windows_ns: int) -> list[list[float]]:
    """The same in a loop, with looks at what waits there; a unit is with a turn of the loop."""
    found: list[list[float]] = []
    for number in range(pairs):
        order = (True, False) if number % 2 else (False, True)
        pair = {on: await _window_async(windows_ns, on) for on in order}
        found.append(_flat((pair[False], pair[True])))
    return found


async def _window_async(window_ns: int, on: bool) -> WorkWindow:
    always_on(on)
    await asyncio.sleep(0)
    clock, wall, times = time.thread_time_ns, time.perf_counter_ns, list[int]()
    begun_ns = clock()
    while clock() - begun_ns < window_ns:
        unit_ns = wall()
        deep(DEPTH)
        await asyncio.sleep(0)
        times.append(wall() - unit_ns)
    used_ns = clock() - begun_ns
    always_on(True)
    return WorkWindow(used_ns / len(times), percentile(times, 0.99))


def deep(depth: int) -> int:
    """A unit of work, some tens of microseconds, on a stack as deep as those of programs are."""
    if depth:
        return deep(depth - 1) + 1
    squares = {str(number): number * number for number in range(100)}
    return sum(squares.values())


class Pauses:
    """For how long whoever works in this thread stood still.

    By the clock on the wall; and the same without the time in which the thread was ready and had no core, as the kernel
    counts it: that is the machine's doing, and not the process's. What is left is a handler of a signal, something else
    in the loop, the collector, or a wait for the interpreter. (The CPU clock of the process would not do: while a timer
    runs on it, it moves by whole ticks of the kernel.)
    """

    def __init__(self) -> None:
        self._file = _open_delays()
        self._wall_ns = self._own_ns = 0
        gc.collect()
        self._noted_ns = self._at_ns = time.monotonic_ns()
        self._delay_ns = self._delayed_ns()

    def step(self) -> None:
        """A look."""
        at_ns = time.monotonic_ns()
        gap_ns = at_ns - self._at_ns
        if gap_ns > self._own_ns:
            delay_ns = self._delayed_ns()
            self._own_ns = max(self._own_ns, gap_ns - (delay_ns - self._delay_ns))
            self._wall_ns = max(self._wall_ns, gap_ns)
            self._delay_ns, self._noted_ns = delay_ns, at_ns
        elif at_ns - self._noted_ns > NOTED_NS:  # what is counted before a gap is not part of it
            self._delay_ns, self._noted_ns = self._delayed_ns(), at_ns
        self._at_ns = at_ns  # reading lets others have the interpreter: what that takes is part of the next gap

    def longest(self) -> list[int]:
        """By the wall clock, and without waiting for a core."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
        return [self._wall_ns, self._own_ns]

    def _delayed_ns(self) -> int:
        return int(os.pread(self._file, 96, 0).split()[1]) if self._file >= 0 else 0


def _open_delays() -> int:
    try:
        return os.open("/proc/thread-self/schedstat", os.O_RDONLY)
    except OSError:  # then waiting for a core counts, too
        return -1


async def prove_here(objects: int, times: int) -> list[list[int]]:
    """Prove so often in a heap of so many objects; pause in nanoseconds and objects, of each.

    There must be a task that waits, else there is nothing to prove.
    """
    from runtime.profile.proof.prove import examine  # lazy: only this task needs it

    heap = [[number] for number in range(objects)]
    waits = asyncio.create_task(asyncio.Event().wait())
    await asyncio.sleep(0)
    found = []
    for _ in range(times):
        proof = await asyncio.to_thread(examine, confirm_s=0.0)
        if not proof.objects:
            raise RuntimeError(f"no proof was made: {proof.notes}")
        found.append([proof.pause_ns, proof.objects])
    waits.cancel()
    del heap
    return found


def ledger_cost(entries: int) -> dict[str, float]:
    """What an entry of the books costs: time to enter and release it, the best of some rounds; bytes while it lives."""
    ledger = Ledger()
    track, release, best = ledger.track, ledger.release, sys.maxsize
    for _ in range(5):
        begun_ns = time.thread_time_ns()
        for _ in range(entries):
            release(track("task"))
        empty_ns = time.thread_time_ns()
        for _ in range(entries):
            pass
        best = min(best, 2 * empty_ns - begun_ns - time.thread_time_ns())
    tokens: list[Any] = [None] * entries
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for at in range(entries):
            tokens[at] = track("task")
        held = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    return {"pair_ns": best / entries, "entry_bytes": held / entries}
