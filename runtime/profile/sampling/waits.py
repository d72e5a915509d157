"""What waits here, weighted by time: some looks a second at the suspended tasks of a loop, or at the main thread.

A look takes at most `TASKS_MAX` tasks (`ALWAYS_TASKS` of what is always on), evenly out of all of them from a random
place (`TaskRoster`), and scales their weights, so the sum stays right: 100 tasks that wait for 10 s are 1,000 s. It is
done in slices of `SLICE` tasks or `SLICE_NS`, with other work of the loop in between, so that nobody waits for it. A
task's weight is the time since the look before; its stack is where it is suspended, with the tasks that wait for it
above; its labels come from its context.

A process without a loop is looked at by a thread: the main thread's weight is the time in which its CPU clock stood
still. There labels are those that its worker told `ThreadLabels`.

Concurrency: a look at tasks runs in their loop's thread; `start`, `stop` and `take` in any.
Known limits: a task that began after the look before counts as if it had waited since, and one that ends within the
    turns of a look is not seen: where a turn takes 10 ms, that is most of those that live for 50. Tasks are drawn from
    the books where there are more than `COPIED_MAX` and the books know nine in ten of them: the others (made with
    `asyncio.Task` and not by the loop's factory, or done and kept) are not seen then. Elsewhere asyncio's sets of
    tasks are copied, which are private: where they are missing, `asyncio.all_tasks` is asked, which takes 0.4 us a
    task.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from runtime.profile.ledger.books import LEDGER
from runtime.profile.ledger.kinds import TASK
from runtime.profile.ledger.pins import PINS, Pinned
from runtime.profile.sampling.buckets import Bucket, Buckets
from runtime.profile.sampling.labels import LABELS, MAIN, THREADS, expand
from runtime.profile.sampling.parents import above, chain_of, context_of
from runtime.profile.sampling.pressure import LoopLag
from runtime.profile.sampling.roster import TaskRoster, strata
from runtime.profile.sampling.self_cost import SELF_COST
from runtime.profile.sampling.threads import walk

if TYPE_CHECKING:
    import asyncio

AWAIT_HZ: Final = 10.0
ALWAYS_HZ: Final = 1.0
TASKS_MAX: Final = 256
ALWAYS_TASKS: Final = 128
"""A task costs 6 to 13 us, so that once a second this is 0.1 % of a core; a minute has 7,680 of them."""
SLICE: Final = 16
SLICE_NS: Final = 200_000
"""Where idle pages are far away, 16 tasks took 1 ms."""
COPIED_MAX: Final = 1_000
"""To copy so many takes 0.1 to 0.3 ms."""
_UNKNOWN: Final = object()
RUNNABLE: Final = "<ready>"
"""Innermost frame of a task that waits for nothing but its turn."""


class WaitLooks:
    """See the module.

    Args:
        loop: The loop; None: the one that this process works in, and without one the main thread.
        hz: Looks in a second.
        most: Tasks that a look takes.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop | None, hz: float, most: int = TASKS_MAX) -> None:
        self.loop = loop or HERE_WAITS.loop
        self.hz, self._most = hz, most
        self.looks = 0
        self.lag = LoopLag()
        self.buckets = Buckets()
        self._on = False
        self._handle: Any = None
        self._labels: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
        self._under_way: list[Iterator[None]] = []
        self._last_ns = self._due_ns = self._cpu_ns = self._read_ns = 0

    # --- on and off -----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to look."""
        self._on = True
        if self._pinned not in PINS:
            PINS.append(self._pinned)
        self._last_ns = time.monotonic_ns()
        if self.loop is None:
            self._cpu_ns = _cpu_ns()
            threading.Thread(target=self._by_thread, name="mainspring-waits", daemon=True).start()
        else:
            self._call(self._plan)

    def switch(self, on: bool) -> None:
        """Begin or stop, whatever it is now. The first look comes after a part of the usual time that is different each
        time, so that short times between two switches have their part of looks."""
        if on and not self._on:
            self._on, self._last_ns = True, time.monotonic_ns()
            self._call(self._plan_first)
        elif self._on and not on:
            self.stop()

    def stop(self) -> None:
        """Look no more."""
        self._on = False
        with suppress(ValueError):  # stopped before
            PINS.remove(self._pinned)
        if self.loop is not None:
            self._call(self._cancel)

    def _pinned(self) -> Pinned:
        """Who looks at tasks wakes none, though a timer leads to it."""
        return Pinned((self, self._labels, self._under_way, *self._under_way))

    def take(self) -> list[Bucket]:
        """What was seen since the last time; in the loop's thread, or of a second that goes on meanwhile the rest."""
        self.buckets.close(time.monotonic_ns())
        found = self.buckets.closed(self._read_ns)
        if found:
            self._read_ns = found[-1].ended_ns
        return found

    def notes(self) -> list[str]:
        """What whoever reads it must know."""
        said = [f"{self.looks} looks at what waits"]
        if self.looks and self.loop is not None:
            late_ms = self.lag.quantile_ns(0.99) / 1e6
            said.append(f"its loop came late by {late_ms:.1f} ms at the 99th percentile")
        if self.buckets.label_sets.overflowed:
            said.append(
                f"{self.buckets.label_sets.overflowed} waits had more label sets than are kept apart; they are 'other'"
            )
        return said

    def _call(self, call: Any) -> None:
        with suppress(RuntimeError):  # the loop is closed
            if self.loop is not None:
                self.loop.call_soon_threadsafe(call)

    # --- a loop ---------------------------------------------------------------------------------------------------

    def _plan_first(self) -> None:
        self._cancel()
        self._plan((time.monotonic_ns() ^ os.getpid() * 7_919) % 1_009 / 1_009)

    def _plan(self, part: float = 1.0) -> None:
        if self._on and self.loop is not None:
            self._due_ns = time.monotonic_ns() + int(part * 1e9 / self.hz)
            self._handle = self.loop.call_later(part / self.hz, self._look)

    def _cancel(self) -> None:
        if self._handle is not None:
            self._handle.cancel()

    def _look(self) -> None:
        now_ns, begun_ns = time.monotonic_ns(), time.thread_time_ns()
        elapsed_ns, self._last_ns = now_ns - self._last_ns, now_ns
        self.lag.add(now_ns - self._due_ns)
        self.looks += 1
        look = self._slices(now_ns, elapsed_ns)
        self._under_way.append(look)
        if self.loop is not None:
            self.loop.call_soon(self._slice, look)
        self._plan()
        SELF_COST.looks_ns += time.thread_time_ns() - begun_ns

    def _slice(self, look: Iterator[None]) -> None:
        begun_ns = time.thread_time_ns()
        ended = True
        try:
            ended = next(look, self) is self
        finally:
            if ended:
                self._under_way.remove(look)
            elif self.loop is not None:
                self.loop.call_soon(self._slice, look)
            SELF_COST.looks_ns += time.thread_time_ns() - begun_ns

    def _slices(self, now_ns: int, elapsed_ns: int) -> Iterator[None]:
        """A look, a slice at a time."""
        if self.buckets.is_over(now_ns):
            self.buckets.close(now_ns)
            yield
        drawn, every = self._draw(now_ns)
        weight_ns, until_ns, left = int(elapsed_ns * every), time.monotonic_ns() + SLICE_NS, SLICE
        for found in drawn:
            task = found() if isinstance(found, weakref.ref) else found
            if task is not None and not task.done() and task.get_loop() is self.loop:
                with suppress(Exception):  # private attributes: see `parents`
                    self._add_task(task, weight_ns)
            del task
            left -= 1
            if not left or time.monotonic_ns() > until_ns:
                yield
                until_ns, left = time.monotonic_ns() + SLICE_NS, SLICE
        while self.loop is HERE_WAITS.loop and HERE_WAITS.roster.tidy():
            yield

    def _draw(self, seed: int) -> tuple[Iterable[Any], float]:
        """Some tasks, and for how many of all each stands."""
        if HERE_WAITS.entered(self.loop) and _are_many():
            return HERE_WAITS.roster.draw(self._most, seed)
        tasks = _tasks(self.loop)
        every = max(len(tasks) / self._most, 1.0)
        return [tasks[at] for at in strata(len(tasks), every, seed)], every

    def _add_task(self, task: Any, weight_ns: int) -> None:
        places, offsets = chain_of(task.get_coro())
        places.reverse()
        offsets.reverse()
        waiter: Any = getattr(task, "_fut_waiter", _UNKNOWN)
        if waiter is None or (waiter is not _UNKNOWN and waiter.done()):
            places.insert(0, RUNNABLE)
            offsets.insert(0, -1)
        found, at = above(task)
        context = context_of(task)
        if context is not None:
            self._labels[task] = labels = context.get(LABELS)
        else:  # it is about to run
            labels = self._labels.get(task)
        self.buckets.add((*places, *found), (*offsets, *at), expand(labels), "MainThread", weight_ns)

    # --- a thread -------------------------------------------------------------------------------------------------

    def _by_thread(self) -> None:
        main = threading.main_thread().ident or 0
        while self._on:
            time.sleep(1.0 / self.hz)
            now_ns, cpu_ns = time.monotonic_ns(), _cpu_ns()
            waited_ns = now_ns - self._last_ns - (cpu_ns - self._cpu_ns)
            self._last_ns, self._cpu_ns = now_ns, cpu_ns
            self.looks += 1
            frame = sys._current_frames().get(main)
            if frame is not None and waited_ns > 0:
                labels = expand(THREADS.by_thread.get(MAIN))
                self.buckets.add(*walk(frame), labels, "MainThread", waited_ns)


class HereWaits:
    """The loop that this process works in, and what is always on there."""

    def __init__(self) -> None:
        self.loop: asyncio.AbstractEventLoop | None = None
        self.always: WaitLooks | None = None
        self.roster = TaskRoster()
        self._enters: Callable[[], bool] | None = None

    @property
    def hz(self) -> float:
        """Of what is always on."""
        return self.always.hz if self.always is not None else 0.0

    @property
    def lag(self) -> LoopLag | None:
        """How late timers of the loop came in the last minutes; None where nobody looks."""
        return self.always.lag if self.always is not None else None

    def begin(
        self, loop: asyncio.AbstractEventLoop, *, always: bool = True, enters: Callable[[], bool] | None = None
    ) -> None:
        """This process works in that loop; `enters`: whether all tasks that its factory makes are in the books."""
        self.loop, self._enters = loop, enters
        if always:
            self.always = WaitLooks(loop, ALWAYS_HZ, ALWAYS_TASKS)
            self.always.start()

    def entered(self, loop: asyncio.AbstractEventLoop | None) -> bool:
        """Whether the books have what this loop's factory makes."""
        return loop is self.loop and self._enters is not None and self._enters()

    def ring(self) -> list[Bucket]:
        """The last minute of what is always on."""
        return [] if self.always is None else self.always.buckets.closed(0)


def _cpu_ns() -> int:
    """The main thread's CPU clock."""
    ident = threading.main_thread().ident
    return time.clock_gettime_ns(time.pthread_getcpuclockid(ident)) if ident is not None else 0


def _tasks(loop: Any) -> list[Any]:
    """All tasks, as weak references where they are kept so; done ones and those of other loops may be among them."""
    asyncio = sys.modules["asyncio"]
    kept = _set_of_tasks()
    return list(asyncio.all_tasks(loop)) if kept is None else [*kept, *getattr(asyncio.tasks, "_eager_tasks", ())]


def _are_many() -> bool:
    """Whether there are many tasks, and the books know nearly all of them."""
    kept = _set_of_tasks()
    return kept is not None and COPIED_MAX < len(kept) <= len(LEDGER.book(TASK).live) / 0.9


def _set_of_tasks() -> set[Any] | None:
    """Asyncio's own, of weak references."""
    asyncio = sys.modules["asyncio"]
    for name in ("_scheduled_tasks", "_all_tasks"):  # of 3.12 and 3.13; of 3.11
        kept: set[Any] | None = getattr(getattr(asyncio.tasks, name, None), "data", None)
        if kept is not None:
            return kept
    return None


# global: of this process, as its loop is
HERE_WAITS: Final = HereWaits()
