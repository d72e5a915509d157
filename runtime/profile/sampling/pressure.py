"""What a process waits for without being asked: a core, and its own event loop.

Run-queue delay is what Linux counts for each thread (second field of schedstat): ready, and no core was free. Loop lag
is by how much a timer comes late. Both are read when somebody looks; neither costs anything before.
"""

from __future__ import annotations

import os
import time
from collections import deque
from contextlib import suppress
from typing import Final

LAGS_MAX: Final = 256
_TASKS: Final = "/proc/self/task"
_SAID_FROM: Final = 0.01


def run_queue_ns() -> int | None:
    """How long threads of this process that live now have waited for a core; None where the system does not say."""
    total, found = 0, False
    with suppress(OSError):
        for name in os.listdir(_TASKS):
            with suppress(OSError, ValueError, IndexError), open(f"{_TASKS}/{name}/schedstat", "rb") as file:
                total += int(file.read().split()[1])
                found = True
    return total if found else None


class RunQueue:
    """Run-queue delay from now on."""

    def __init__(self) -> None:
        self._begun_ns = time.monotonic_ns()
        self._before = run_queue_ns()

    def delay_ns(self) -> int:
        """Nanoseconds that threads of this process stood ready without a core."""
        now = run_queue_ns()
        return 0 if now is None or self._before is None else max(now - self._before, 0)

    def notes(self) -> list[str]:
        """In words, where it is worth some."""
        part = self.delay_ns() / max(time.monotonic_ns() - self._begun_ns, 1)
        return [f"its threads stood ready without a core for {part:.1%} of the time"] if part >= _SAID_FROM else []


class LoopLag:
    """By how much timers of a loop came late."""

    def __init__(self) -> None:
        self._lags: deque[int] = deque(maxlen=LAGS_MAX)

    def add(self, late_ns: int, every_ns: int = 0) -> None:
        """One of them.

        Args:
            late_ns: By so much.
            every_ns: How often they come; what this one held up would have come late as well, each by less. 0: it
                stands for itself.
        """
        self._lags.append(max(late_ns, 0))
        for _ in range(min(late_ns // every_ns, LAGS_MAX) if every_ns and late_ns > every_ns else 0):
            late_ns -= every_ns
            self._lags.append(late_ns)

    def quantile_ns(self, part: float) -> int:
        """Of the last ones; 0 where there are none."""
        lags = sorted(self._lags)
        return lags[min(int(len(lags) * part), len(lags) - 1)] if lags else 0
