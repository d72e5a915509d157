"""Timers of one actor: what is due, in order of time; a key may be moved or cancelled.

Time enters as an argument. O(log n) for each operation (`sortedcontainers`). A timer is one tuple, in the order and
under its key, so that a hundred thousand of them stay small.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any, Generic, TypeVar

from sortedcontainers import SortedList

K = TypeVar("K", bound=Hashable)


class Timers(Generic[K]):
    """At most one timer per key. Timers of one time are due in the order in which they were armed."""

    def __init__(self) -> None:
        self._armed: dict[K, tuple[int, int, K]] = {}
        self._order: SortedList[Any] = SortedList()  # (due, ticket, key); no two tickets are equal
        self._next_ticket = 0

    def __len__(self) -> int:
        return len(self._armed)

    def __iter__(self) -> Iterator[K]:
        """The keys that are armed, as of now."""
        return iter(list(self._armed))

    def set(self, key: K, due_ns: int) -> None:
        """Arm or move the timer of this key."""
        self.cancel(key)
        self._armed[key] = entry = (due_ns, self._next_ticket, key)
        self._next_ticket += 1
        self._order.add(entry)

    def cancel(self, key: K) -> bool:
        """Disarm; False when it was not armed."""
        entry = self._armed.pop(key, None)
        if entry is None:
            return False
        self._order.remove(entry)
        return True

    def due_ns(self, key: K) -> int | None:
        """When the key's timer is due."""
        entry = self._armed.get(key)
        return None if entry is None else entry[0]

    def next_ns(self) -> int | None:
        """When the earliest is due."""
        return self._order[0][0] if self._armed else None

    def pop_due(self, now_ns: int, count_max: int = 1000) -> list[K]:
        """Take what is due by now, earliest first, at most `count_max` of them."""
        order = self._order
        count = min(order.bisect_left((now_ns + 1,)), count_max) if self._armed else 0
        taken = [key for _, _, key in order[:count]]
        del order[:count]
        for key in taken:
            del self._armed[key]
        return taken
