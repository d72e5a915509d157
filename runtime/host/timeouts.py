"""Deadlines of attempts in one loop: which are over, in order of time."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from time import monotonic_ns


class TimeoutQueues:
    """Deadlines of attempts, one queue per kind: tasks of one kind have one timeout, so their deadlines ascend.

    Ended attempts are not taken out; they are passed over when their time comes, which bounds the queues by the tasks
    started within one timeout.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, passed: Callable[[int], None]) -> None:
        self._loop = loop
        self._passed = passed
        self._queues: dict[int, deque[tuple[int, int]]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ns = 0

    def add(self, kind_no: int, deadline_ns: int, serial: int) -> None:
        """Call `passed(serial)` at the deadline."""
        queue = self._queues.get(kind_no)
        if queue is None:
            queue = self._queues[kind_no] = deque()
        queue.append((deadline_ns, serial))
        if self._timer is None or deadline_ns < self._timer_ns:
            self._plan(deadline_ns)

    def _plan(self, due_ns: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_ns = due_ns
        self._timer = self._loop.call_later(max(0, due_ns - monotonic_ns()) / 1e9, self._fired)

    def _fired(self) -> None:
        self._timer = None
        now_ns = monotonic_ns()
        for queue in self._queues.values():
            while queue and queue[0][0] <= now_ns:
                self._passed(queue.popleft()[1])
        due = [queue[0][0] for queue in self._queues.values() if queue]
        if due:
            self._plan(min(due))
