"""Handlers of a replayed workflow: they take as long as the recorded task did, times a scale.

Two ways to take time:

- `sleep_for`: async, waits without using a core. Many wait at once in one worker, so that a workflow which was
  recorded on a cluster keeps its width on one machine.
- `burn`: uses a core until this thread has had the CPU time; one at a time in a worker process. A machine with too
  few cores makes it take longer, as real work would.

uvloop's timers count whole milliseconds (measured: a sleep of 0.3 ms returns after 3 µs, one of 1.3 ms after 1.1 ms),
so short times, and the rest of long ones, are left to `Alarm`: one thread per process that wakes coroutines within
about 0.1 ms of their time, without spinning.
"""

from __future__ import annotations

import asyncio
import functools
import heapq
import itertools
import threading
import time
from typing import Final

FINE_S: Final = 0.004
"""The loop's own timer waits up to this long before the end: longer than its error."""
BURN_STEPS: Final = 200
"""Multiplications between two looks at the clock: about 10 µs."""


async def sleep_for(seconds: float) -> None:
    """Wait, precisely, without using a core.

    Args:
        seconds: From the call on; 0 or less does not wait.
    """
    deadline = time.monotonic() + seconds
    if seconds > 2 * FINE_S:
        await asyncio.sleep(seconds - FINE_S)
    if time.monotonic() < deadline:
        await _alarm().at(deadline)


def burn(seconds: float) -> None:
    """Use a core until this thread has had `seconds` of CPU time."""
    until = time.thread_time() + seconds
    value = 1
    while time.thread_time() < until:
        for _ in range(BURN_STEPS):
            value = value * 1_103_515_245 % 2_147_483_647


@functools.cache
def _alarm() -> Alarm:
    """The alarm of this process, made when it is first needed, and never in a process that forks workers."""
    return Alarm()


class Alarm:
    """Wakes coroutines at given times from a thread of its own.

    Concurrency: `at` is called in event loops; the heap is shared with the thread under `_changed`. The thread lives
    while somebody waits: starting it costs less than the shortest wait is worth. What was cancelled stays in the heap
    until its time and is then passed over.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._heap: list[tuple[float, int, asyncio.AbstractEventLoop, asyncio.Future[None]]] = []
        self._numbers = itertools.count()
        self._watching = False

    def at(self, deadline: float) -> asyncio.Future[None]:
        """A future of the running loop that is done at a time of the monotonic clock."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        with self._changed:
            heapq.heappush(self._heap, (deadline, next(self._numbers), loop, future))
            if not self._watching:
                self._watching = True
                threading.Thread(target=self._watch, name="replay-alarm", daemon=True).start()
            elif self._heap[0][3] is future:
                self._changed.notify()
        return future

    def _watch(self) -> None:
        with self._changed:
            while self._heap:
                if (left := self._heap[0][0] - time.monotonic()) > 0:
                    self._changed.wait(left)
                else:
                    _, _, loop, future = heapq.heappop(self._heap)
                    _wake(loop, future)
            self._watching = False


def _wake(loop: asyncio.AbstractEventLoop, future: asyncio.Future[None]) -> None:
    try:
        loop.call_soon_threadsafe(_finish, future)
    except RuntimeError:  # the loop was closed meanwhile
        pass


def _finish(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
