"""Wall clock of an engine: the monotonic clock and one offset, so that two times that are told are in their true order.

Reading both clocks anew each turn would let a pause between the two readings put a child before its parent. The
offset is taken again only when the wall clock was set by more than `STEP_NS`.
"""

from __future__ import annotations

import time
from typing import Final

STEP_NS: Final = 50_000_000
"""Slower drift is the daily correction of clocks; more is somebody setting the clock, or a machine that slept."""
_TRIES: Final = 5


class WallClock:
    """See the module."""

    def __init__(self) -> None:
        self._offset_ns = _measured_offset_ns()

    def wall_ns(self, now_ns: int) -> int:
        """Nanoseconds since the epoch at monotonic time `now_ns`, which is about now."""
        if abs(time.time_ns() - now_ns - self._offset_ns) > STEP_NS:
            measured = _measured_offset_ns()
            if abs(measured - self._offset_ns) > STEP_NS:
                self._offset_ns = measured
        return now_ns + self._offset_ns


def _measured_offset_ns() -> int:
    """The difference of the clocks, from the closest of a few pairs of readings."""
    best = (1 << 62, 0)
    for _ in range(_TRIES):
        before = time.monotonic_ns()
        wall = time.time_ns()
        after = time.monotonic_ns()
        best = min(best, (after - before, wall - (before + after) // 2))
    return best[1]
