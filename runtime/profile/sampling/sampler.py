"""Samplers: what this process computes (`CpuSampler`) and what it waits for (`AwaitSampler`), and the last minute.

    sampler = CpuSampler(99).start()
    ...
    profile = sampler.stop()

The ticks themselves are in `ticks`, and in `waits` for what waits. A sampler is a reader of them: several may read at
once, each gets all of its own time. `answer_cpu`, `answer_await` and `answer_flight` are how a process answers who asks
all of them (see `presence`): a capture puts what is new in place each second, and a last time when the process ends, so
that one which is killed loses a second. Each second goes into one of `PARTS` parts in turn, which is put whole: what a
second costs hardly grows with how long the capture has run.

Concurrency: handlers of signals are installed by the main thread; from another one `start` and `stop` have it done at
the main thread's next bytecode (`presence.HERE.on_main_thread`).
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Self

from runtime.host import kernel
from runtime.profile.model import AWAIT, CPU, Process, Profile
from runtime.profile.presence.here import HERE
from runtime.profile.sampling.buckets import RING_S, since
from runtime.profile.sampling.pace import CAPTURE_HZ, HZ_MAX
from runtime.profile.sampling.pressure import RunQueue
from runtime.profile.sampling.rendering import Names, profile_of
from runtime.profile.sampling.ticks import TICKS
from runtime.profile.sampling.waits import AWAIT_HZ, HERE_WAITS, WaitLooks
from runtime.profile.turns import TURNS

if TYPE_CHECKING:
    import asyncio

    from runtime.profile.presence.answers import Content
    from runtime.profile.presence.here import Request

FLUSH_S: Final = 1.0
PARTS: Final = 16
"""Of a long capture: each is put again after so many seconds, and has a sixteenth of it."""
MAIN_S: Final = 2.0
"""For the main thread to come to its next bytecode."""


class SamplerUnavailable(RuntimeError):
    """The signal or the timer is somebody else's, or the main thread does not come to a bytecode."""


class CpuSampler:
    """Where CPU time goes in this process, by SIGPROF.

    Args:
        hz: Ticks in a second of CPU time, 1 to 1,000.
        process: This process, as the profile shall name it.
    """

    def __init__(self, hz: float = CAPTURE_HZ, process: Process | None = None) -> None:
        if not 1 <= hz <= HZ_MAX:
            raise ValueError(f"hz must be 1 to {HZ_MAX:,.0f}, not {hz!r}")
        self.hz, self.process = hz, process or this_process()
        self._names = Names()
        self._read_ns = self._begun_ns = self._wall_ns = self._cost_ns = self._total_ns = self._halved = 0
        self._overflowed = self._errors = self._lost = self._missed_ns = 0
        self._queue = RunQueue()
        self._on = False

    def start(self) -> Self:
        """Begin.

        Raises:
            SamplerUnavailable: See there.
        """
        started: list[bool] = []
        if not on_main_thread(lambda: started.append(TICKS.start(self, self.hz))) or not started[0]:
            raise SamplerUnavailable("SIGPROF or its timer is used by this program, or its main thread does not run")
        self._begun_ns = self._read_ns = TICKS.buckets.open.begun_ns
        self._wall_ns = time.time_ns()
        self._cost_ns, self._total_ns, self._halved = TICKS.self_ns, TICKS.total_ns, TICKS.pace.halved
        self._overflowed, self._errors = TICKS.buckets.label_sets.overflowed, TICKS.errors
        self._lost = TICKS.lost
        self._queue = RunQueue()
        self._on = True
        return self

    def flush(self) -> Profile:
        """What was seen from the last time on, or from the beginning, with what must be known of all of it.

        To be called at least once a minute, which is what the ring has.
        """
        on_main_thread(TICKS.check)
        self._missed_ns += max(TICKS.buckets.gone_ns - self._read_ns, 0)
        buckets = TICKS.buckets.closed(self._read_ns)
        if buckets:
            self._read_ns = buckets[-1].ended_ns
        found = profile_of(buckets, self.process, self.hz, self._names)
        found.begun_ns, found.duration_ns = self._wall_ns, time.monotonic_ns() - self._begun_ns
        found.notes = self._notes()
        return found

    def stop(self) -> Profile:
        """End. Returns what was not flushed before; again is harmless."""
        if self._on:
            self._on = False
            if not on_main_thread(lambda: TICKS.stop(self)):
                TICKS.forget(self)
        return self.flush()

    def _notes(self) -> list[str]:
        total_ns = max(TICKS.total_ns - self._total_ns, 1)
        title = f"{self.process.title} ({self.process.pid})"
        cost_ns = TICKS.self_ns - self._cost_ns
        notes = [f"{title}: ticks took {cost_ns / 1e6:.3g} ms, {cost_ns / total_ns:.2%} of its CPU time"]
        notes += [f"{title}: {note}" for note in slowed(TICKS.pace.halved - self._halved)]
        if overflowed := TICKS.buckets.label_sets.overflowed - self._overflowed:
            notes.append(f"{title}: {overflowed} ticks had more label sets than are kept apart; they are 'other'")
        if self._missed_ns:
            notes.append(f"{title}: {self._missed_ns / 1e9:.3g} s are missing, because the ring was not read in time")
        if errors := TICKS.errors - self._errors:
            notes.append(f"{title}: {errors} ticks were lost ({TICKS.failure})")
        if TICKS.lost != self._lost:
            notes.append(f"{title}: the program took SIGPROF for itself, so ticks ended")
        notes += [f"{title}: {note}" for note in self._queue.notes()]
        return notes


class AwaitSampler:
    """What the tasks of a loop of this process wait for, weighted by time.

    Args:
        hz: Looks in a second, 0.1 to 10.
        process: This process, as the profile shall name it.
        loop: The loop; None: the one that this process works in.
    """

    def __init__(
        self, hz: float = AWAIT_HZ, process: Process | None = None, loop: asyncio.AbstractEventLoop | None = None
    ) -> None:
        if not 0.1 <= hz <= AWAIT_HZ:
            raise ValueError(f"hz must be 0.1 to {AWAIT_HZ:g}, not {hz!r}")
        self.hz, self.process = hz, process or this_process()
        self._waits = WaitLooks(loop, hz)
        self._names = Names()
        self._wall_ns = self._begun_ns = 0

    def start(self) -> Self:
        """Begin. A process without a loop is looked at as a thread that waits."""
        self._wall_ns, self._begun_ns = time.time_ns(), time.monotonic_ns()
        self._waits.start()
        return self

    def flush(self) -> Profile:
        """What was seen from the last time on."""
        found = profile_of(self._waits.take(), self.process, self.hz, self._names)
        found.kind, found.begun_ns = AWAIT, self._wall_ns
        found.duration_ns = time.monotonic_ns() - self._begun_ns
        found.notes = [f"{self.process.title} ({self.process.pid}): {note}" for note in self._waits.notes()]
        return found

    def stop(self) -> Profile:
        """End. Returns what was not flushed before."""
        self._waits.stop()
        return self.flush()


def slowed(halved: int) -> list[str]:
    """What the breaker did, in words: how often it has halved the rate, and whether it still holds it down."""
    said = [f"ticks cost too much, so their rate was halved {halved} times"] if halved else []
    if TICKS.pace.slowdown > 1.0:
        said.append(f"ticks are slowed down to {TICKS.pace.hz:.3g} a second, because they cost too much")
    return said


def this_process() -> Process:
    """This process, as it stands in the page of processes, or nameless."""
    for presence in HERE.presences:
        return presence.process
    pid = os.getpid()
    return Process(pid, kernel.start_time(pid), "process")


def on_main_thread(call: Callable[[], None]) -> bool:
    """Have the main thread call something now; False where it does not come to it."""
    if threading.current_thread() is threading.main_thread():
        call()
        return True
    return HERE.on_main_thread(call, MAIN_S)


def flight(seconds: float = RING_S, process: Process | None = None, kind: str = CPU) -> Profile:
    """The last seconds of this process, at most a minute, of what is always on. Empty where it is off.

    Args:
        seconds: How far back. What was seen is kept by the second, and one that is cut belongs to it.
        process: This process, as the profile shall name it.
        kind: CPU or AWAIT.

    Returns:
        The profile; `duration_ns` says how far it does go back.
    """
    now_ns = time.monotonic_ns()
    if kind == AWAIT:
        ring, hz = HERE_WAITS.ring(), HERE_WAITS.hz
    else:
        on_main_thread(TICKS.check)
        ring, hz = TICKS.buckets.closed(0), TICKS.pace.hz
    buckets = since(ring, now_ns - int(seconds * 1e9))
    found = profile_of(buckets, process or this_process(), hz)
    found.kind = kind
    if kind == CPU:
        found.notes += [f"{(process or this_process()).title}: {note}" for note in slowed(0)]
    if buckets:
        found.duration_ns = now_ns - buckets[0].begun_ns
        found.begun_ns = time.time_ns() - found.duration_ns
    return found


# --- answers ------------------------------------------------------------------------------------------------------


def answer_cpu(request: Request) -> Content | None:
    """A CPU profile of as long as is asked for; option `hz`.

    A process that may have no threads answers within a handler, where it cannot wait: what it uses is read from the
    kernel by who asks (`others`).
    """
    if not request.threads:
        return Profile(CPU).to_json()
    sampler = CpuSampler(float(request.options.get("hz", CAPTURE_HZ)), request.process).start()
    return _answer(request, sampler)


def answer_await(request: Request) -> Content | None:
    """An await profile of as long as is asked for; option `hz`."""
    if not request.threads:
        return Profile(AWAIT).to_json()
    return _answer(request, AwaitSampler(float(request.options.get("hz", AWAIT_HZ)), request.process).start())


def answer_flight(request: Request) -> Content:
    """The last minute; options `back_s` and `kind`."""
    options = request.options
    return flight(float(options.get("back_s", RING_S)), request.process, options.get("kind", CPU)).json_pieces()


def _answer(request: Request, sampler: CpuSampler | AwaitSampler) -> Content | None:
    """Put what is new each second; the last of it is returned."""
    parts = Parts(request)
    ended, puts = threading.Lock(), threading.Lock()

    def at_exit() -> None:
        in_time = puts.acquire(timeout=MAIN_S)  # what was taken is put first
        if ended.acquire(blocking=False):
            with suppress(Exception):
                request.put(sampler.stop().json_pieces())
        if in_time:
            puts.release()

    atexit.register(at_exit)
    try:
        while (left := request.left_s()) > 0 and not request.over():
            time.sleep(min(FLUSH_S, left))
            if left > FLUSH_S:
                with puts, TURNS.short():
                    if not ended.locked():
                        parts.put(sampler.flush())
        if not ended.acquire(blocking=False):
            return None
        with TURNS.short():
            return sampler.stop().json_pieces()
    except BaseException:  # as where the page was closed, with which this runtime ends
        sampler.stop()
        raise
    finally:
        atexit.unregister(at_exit)


class Parts:
    """What was put of a capture, in turns; see the module. Its last words are none of them."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._parts: list[Profile] = []
        self._count = 0

    def put(self, found: Profile) -> None:
        """Put what is new; what must be known goes where the last words will stand. Raises OSError."""
        said = found.without_samples()
        found.notes.clear()
        at = self._count % PARTS
        self._count += 1
        if at == len(self._parts):
            self._parts.append(found)
        else:
            self._parts[at].merge(found)
        self._request.put(self._parts[at].json_pieces(), at + 1)
        self._request.put(said.json_pieces())
