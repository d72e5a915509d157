"""Service-level objectives: how fast what may fail is used up.

An objective says that a share of things must be good ("99 % within 0.5 s"). What is left, 1 %, is its budget; the burn
rate is the share of bad ones divided by that. A rate of 1 uses the budget up exactly in its period. A breach is a rate
above `Slo.burn` over a fast and a slow window at the same time: the slow one tells it from a moment, the fast one ends
it when it is over (Site Reliability Workbook, chapter 5, "multiwindow, multi-burn-rate alerts").

Pure: times and counts come in, an answer comes out. Only `SloMeter`, which counts, has a lock.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from actors.protocol.errors import ConfigurationError

SEEN_MIN: Final = 10
"""Things in the slow window before anything is said."""
_POINTS_MAX: Final = 4_096


class SloMeter:
    """Counts good and bad ones, from any thread.

    Args:
        within: Seconds; what took longer is bad, however it ended. None: only failures are.
    """

    def __init__(self, within: float | None = None) -> None:
        self._within = within
        self._lock = threading.Lock()
        self._total = self._bad = 0

    def add(self, seconds: float = 0.0, *, ok: bool = True) -> None:
        """One thing, with how long it took and how it ended."""
        bad = not ok or (self._within is not None and seconds > self._within)
        with self._lock:
            self._total += 1
            self._bad += bad

    def __call__(self) -> tuple[int, int]:
        """All so far, and the bad ones among them."""
        with self._lock:
            return self._total, self._bad


@dataclass(frozen=True, slots=True)
class Slo:
    """An objective.

    Args:
        name: Names it, and its bundles.
        measure: Gives (all, bad), counted from any beginning: a `SloMeter`, or a function of one's own.
        target: Share of good ones, above 0 and below 1.
        fast: Seconds of the fast window.
        slow: Seconds of the slow one.
        burn: Rate in both windows from which on it is a breach; with 14.4, 2 % of a month's budget go in an hour.
    """

    name: str
    measure: Callable[[], tuple[int, int]]
    target: float = 0.99
    fast: float = 60.0
    slow: float = 600.0
    burn: float = 14.4

    def __post_init__(self) -> None:
        if not 0 < self.target < 1:
            raise ConfigurationError(f"Slo {self.name!r}: target is a share between 0 and 1, not {self.target}")
        if not 0 < self.fast <= self.slow:
            raise ConfigurationError(f"Slo {self.name!r}: it takes 0 < fast <= slow")
        if self.burn * (1 - self.target) > 1:
            raise ConfigurationError(
                f"Slo {self.name!r}: with everything bad it burns at {1 / (1 - self.target):g} only"
            )


class Burning:
    """What an objective's counts were, for as long as its slow window."""

    def __init__(self, slo: Slo) -> None:
        self.slo = slo
        self._points: deque[tuple[int, int, int]] = deque(maxlen=_POINTS_MAX)

    def add(self, at_ns: int, total: int, bad: int) -> None:
        """Counts as they are now. Smaller ones than before begin anew."""
        points = self._points
        if points and (total < points[-1][1] or bad < points[-1][2]):
            points.clear()
        points.append((at_ns, total, bad))
        while len(points) > 2 and points[1][0] <= at_ns - int(self.slo.slow * 1e9):
            points.popleft()

    def rates(self) -> tuple[float, float]:
        """Burn rate of the fast and of the slow window; 0 where there is too little."""
        return self._rate(self.slo.fast, 1), self._rate(self.slo.slow, SEEN_MIN)

    def breached(self) -> bool:
        """Whether both are above what is allowed."""
        return min(self.rates()) >= self.slo.burn

    def _rate(self, seconds: float, seen_min: int) -> float:
        if not self._points:
            return 0.0
        at_ns, total, bad = self._points[-1]
        begin_ns = at_ns - int(seconds * 1e9)
        before = self._points[0]
        for point in self._points:
            if point[0] > begin_ns:
                break
            before = point
        seen = total - before[1]
        return 0.0 if seen < seen_min else (bad - before[2]) / seen / (1 - self.slo.target)
