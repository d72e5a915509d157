"""Timers of one actor: what is due, in order of time; a key may be moved or cancelled.

Time enters as an argument. O(log n) for each operation (`sortedcontainers`).
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

from sortedcontainers import SortedList

K = TypeVar("K", bound=Hashable)


class Timers(Generic[K]):
    """At most one timer per key."""

    def __init__(self) -> None:
        self._due: dict[K, int] = {}
        self._order: SortedList[tuple[int, int]] = SortedList()
        self._keys: dict[int, K] = {}
        self._tickets: dict[K, int] = {}
        self._next_ticket = 0

    def __len__(self) -> int:
        return len(self._due)

    def set(self, key: K, due_ns: int) -> None:
        """Arm or move the timer of this key."""
        self.cancel(key)
        ticket = self._next_ticket
        self._next_ticket += 1
        self._due[key] = due_ns
        self._tickets[key] = ticket
        self._keys[ticket] = key
        self._order.add((due_ns, ticket))

    def cancel(self, key: K) -> bool:
        """Disarm; False when it was not armed."""
        due = self._due.pop(key, None)
        if due is None:
            return False
        ticket = self._tickets.pop(key)
        del self._keys[ticket]
        self._order.remove((due, ticket))
        return True

    def due_ns(self, key: K) -> int | None:
        """When the key's timer is due."""
        return self._due.get(key)

    def next_ns(self) -> int | None:
        """When the earliest is due."""
        return self._order[0][0] if self._order else None

    def pop_due(self, now_ns: int, count_max: int = 1000) -> list[K]:
        """Take what is due by now, earliest first, at most `count_max` of them."""
        taken: list[K] = []
        while self._order and self._order[0][0] <= now_ns and len(taken) < count_max:
            _, ticket = self._order.pop(0)
            key = self._keys.pop(ticket)
            del self._due[key]
            del self._tickets[key]
            taken.append(key)
        return taken
