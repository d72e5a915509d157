"""Some of a loop's tasks, evenly out of all of them, without a look at the others: `TaskRoster`.

Asyncio keeps its tasks in a set, and to draw from a set all of it is copied: with 10,000 tasks that touches as many
objects all over the memory, 1 to 3 ms in which the loop stands still, with 100,000 ten times that. The books have the
tasks of a worker's loop in the order in which they began, so what is new since the last time is at their end. Their
numbers are kept here in segments; what has ended is taken out of one segment after the other, each in a turn of the
loop.

Invariants: a task that was taken in is in one segment. After the segments were gone through there are at most a fourth
    of what lives, and a fourth of a segment, more numbers than tasks that lived when that began.
Concurrency: the loop's thread.
Known limits: a task that another thread enters within the same microsecond may be missed.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Iterator
from itertools import takewhile
from typing import Any, Final

from runtime.profile.ledger.books import LEDGER, Ledger
from runtime.profile.ledger.kinds import TASK

SEGMENT: Final = 1_000
"""To go through so many numbers takes a tenth of a millisecond."""
_TRIES: Final = 100
"""To copy what another thread, or a collection, changes meanwhile."""
_VISITS: Final = 4
"""Numbers that a draw looks at for each task that it wants, at most: right after many have ended, most are of those."""
_KEY: Final = 2
"""Of an entry: what is its thing."""


class TaskRoster:
    """See the module.

    Args:
        ledger: Whose books it draws from.
        segment: Numbers of a segment at most.
    """

    def __init__(self, ledger: Ledger = LEDGER, segment: int = SEGMENT) -> None:
        self._ledger, self._segment = ledger, segment
        self._segments: list[list[int]] = []
        self._kept = self._newest = 0
        self._left = 0
        """Segments that are still to be gone through."""

    def draw(self, most: int, seed: int) -> tuple[Iterator[weakref.ref[Any] | None], float]:
        """Some tasks, to be fetched a few in a turn: each costs some misses of caches, and where pages are idle, more.

        Args:
            most: About so many, where there are more.
            seed: By chance: which.

        Returns:
            They, the newest first, because those end first; None for what has ended. And of how many each is one.
        """
        live = self._take_in()
        few = len(live) <= 2 * most
        segments, kept = ([list(live)], len(live)) if few else (list(self._segments), self._kept)
        every = max(len(live) / most, kept / (_VISITS * most), 1.0)
        return _picked(segments, strata(kept, every, seed), live), every

    def tidy(self) -> bool:
        """Go through one segment, if there is need; returns whether there is another to go through."""
        live = self._ledger.book(TASK).live
        if not self._left:
            if self._kept <= len(live) + (len(live) + self._segment) // 4:
                return False
            self._left = len(self._segments)
        self._left -= 1
        segment = self._segments.pop(0)
        stays = [token for token in segment if token in live]
        self._kept -= len(segment) - len(stays)
        self._append(stays)
        return self._left > 0

    def _take_in(self) -> dict[int, tuple[Any, ...]]:
        """Take in what is new; returns what lives."""
        live = self._ledger.book(TASK).live
        for _ in range(_TRIES):
            try:
                fresh = list(takewhile(self._newest.__lt__, reversed(live)))
                break
            except RuntimeError:  # a collection changed it meanwhile
                continue
        else:
            return live
        if fresh:
            fresh.reverse()
            self._newest, self._kept = fresh[-1], self._kept + len(fresh)
            for at in range(0, len(fresh), self._segment):
                self._append(fresh[at : at + self._segment])
        return live

    def _append(self, tokens: list[int]) -> None:
        last = self._segments[-1] if self._segments else None
        if last is not None and len(last) + len(tokens) <= self._segment:
            self._segments[-1] = last + tokens  # a new list: a draw that is under way goes through the old one
        elif tokens:
            self._segments.append(tokens)


def strata(total: int, every: float, seed: int) -> Iterator[int]:
    """One of each `every` positions below `total`, at random within them: what comes at regular places is seen like
    anything else (stratified sampling)."""
    last = -1
    for number in range(math.ceil(total / every)):
        seed = (seed * 6364136223846793005 + 1442695040888963407) & 0xFFFFFFFFFFFFFFFF
        at = max(int((number + (seed >> 11) / 9007199254740992.0) * every), last + 1)
        if at >= total:
            return
        yield at
        last = at


def _picked(
    segments: list[list[int]], places: Iterator[int], live: dict[int, tuple[Any, ...]]
) -> Iterator[weakref.ref[Any] | None]:
    """Those at these places, from the end of the last segment on."""
    passed, left = 0, len(segments) - 1
    for at in places:
        while left >= 0 and at - passed >= len(segments[left]):
            passed += len(segments[left])
            left -= 1
        if left < 0:
            return
        entry = live.get(segments[left][passed - at - 1])
        yield entry[_KEY] if entry is not None and isinstance(entry[_KEY], weakref.ref) else None
