"""Virtual time and a mail that delays: what was posted is delivered in order within one queue, in any order between
two.

Fault model: every queue has its own random delay per message, from nothing to `delay_max_ns`, so that messages of
different queues overtake each other at will; a queue never reorders, loses or doubles by itself (shared memory does
not). A queue can be cut: what is still in it is gone, as with a ring whose owner died.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count
from random import Random


class Clock:
    """Time and what is to happen."""

    def __init__(self, random: Random) -> None:
        self.now_ns = 1_000_000_000
        self.wall_offset_ns = 1_700_000_000_000_000_000
        self.random = random
        self._tickets = count()
        self._heap: list[tuple[int, int, Callable[[], None]]] = []

    @property
    def wall_ns(self) -> int:
        """Wall clock: jumps with `wall_offset_ns`."""
        return self.now_ns + self.wall_offset_ns

    def at(self, due_ns: int, action: Callable[[], None]) -> None:
        """Do this at that time."""
        heapq.heappush(self._heap, (max(due_ns, self.now_ns), next(self._tickets), action))

    def step(self) -> bool:
        """Do the next thing; False when there is none."""
        if not self._heap:
            return False
        due_ns, _, action = heapq.heappop(self._heap)
        self.now_ns = max(self.now_ns, due_ns)
        action()
        return True


class Queue:
    """One queue: keeps order, delays each message."""

    def __init__(self, clock: Clock, deliver: Callable[[object], None], delay_max_ns: int = 200_000) -> None:
        self._clock = clock
        self._deliver = deliver
        self._delay_max_ns = delay_max_ns
        self._last_ns = 0
        self._open = True

    def post(self, message: object) -> None:
        """Send."""
        due = self._clock.now_ns + self._clock.random.randrange(self._delay_max_ns + 1)
        self._last_ns = max(self._last_ns, due)
        self._clock.at(self._last_ns, lambda: self._arrive(message))

    def cut(self) -> None:
        """Lose what is on the way and all that comes."""
        self._open = False

    def _arrive(self, message: object) -> None:
        if self._open:
            self._deliver(message)
