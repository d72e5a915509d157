"""How often there are ticks: what is asked for, less what the breaker holds down, more where the kernel lags.

Gaps between ticks are exponentially distributed, so that what comes at regular times is seen like anything else.

Concurrency: of the thread that has the ticks; any thread may read.
"""

from __future__ import annotations

import math
import os
from time import monotonic_ns
from typing import Final

HZ: Final = 19.0
"""Always on. A prime, and no divisor of usual intervals."""
CAPTURE_HZ: Final = 99.0
HZ_MAX: Final = 1_000.0
BUDGET: Final = 0.01
"""Part of the CPU time of the process that ticks may take at `HZ`; `CAPTURE_BUDGET` above."""
CAPTURE_BUDGET: Final = 0.03
_JUDGED_NS: Final = 1_000_000_000
"""CPU time between two looks at the budget."""
_RATE_TICKS: Final = 32
_SLOW_MAX: Final = 64.0
_CATCHES_UP: Final = 4.0
_GAPS: Final = 64
"""Drawn at once: within a handler, where nothing of it is in a cache, each would take 10 us."""


class Pace:
    """See the module.

    Attributes:
        rates: What each asker wants, in ticks a second of CPU time; the fastest decides.
        slow: By how much the breaker holds the rate down: 1, 2, 4, ...
        halved: How often it has halved it.
    """

    def __init__(self) -> None:
        self.rates: dict[object, float] = {}
        self.slow, self.halved = 1.0, 0
        self._catch_up = 1.0
        self._drawn: list[float] = []
        self._seed = (os.getpid() << 20 ^ monotonic_ns()) & 0xFFFFFFFFFFFFFFFF
        self._judged = self._rated = (0, 0)

    @property
    def hz(self) -> float:
        """Ticks in a second of CPU time, as they are now."""
        return max(self.rates.values(), default=0.0) / self.slow

    def is_due(self, process_ns: int, count: int) -> bool:
        """Whether `judge` or `keep_pace` would have something to do; see there."""
        return process_ns - self._judged[0] >= _JUDGED_NS or count - self._rated[1] >= _RATE_TICKS

    def begin(self, process_ns: int, cost_ns: int, main_ns: int, count: int) -> None:
        """Judge from here on; see `judge` and `keep_pace`."""
        self._judged, self._rated = (process_ns, cost_ns), (main_ns, count)

    def gap_s(self) -> float:
        """CPU time until the next tick."""
        if not self._drawn:
            self._draw()
        return self._drawn.pop() / (self.hz * self._catch_up)

    def _draw(self) -> None:
        seed = self._seed
        for _ in range(_GAPS):
            seed = (seed * 6364136223846793005 + 1442695040888963407) & 0xFFFFFFFFFFFFFFFF
            self._drawn.append(-math.log(1.0 - (seed >> 11) / 9007199254740992.0))
        self._seed = seed

    def judge(self, process_ns: int, cost_ns: int) -> None:
        """Each second of CPU time: halve the rate where ticks cost too much; double it again where they cost little.

        Args:
            process_ns: CPU time of the process.
            cost_ns: What all ticks took of it.
        """
        began_ns, before_ns = self._judged
        if process_ns - began_ns < _JUDGED_NS:
            return
        part = (cost_ns - before_ns) / (process_ns - began_ns)
        most = CAPTURE_BUDGET if max(self.rates.values(), default=0.0) > HZ else BUDGET
        if part > most:
            self.slow = min(self.slow * 2.0, _SLOW_MAX)
            self.halved += 1
        elif self.slow > 1.0 and part < most / 4:
            self.slow /= 2.0
        self._judged = (process_ns, cost_ns)

    def keep_pace(self, main_ns: int, count: int) -> None:
        """The kernel rounds gaps up to its own tick, and ticks within one become one: ask for more, where it lags.

        Args:
            main_ns: CPU time of the main thread.
            count: Its ticks.
        """
        began_ns, before = self._rated
        if count - before < _RATE_TICKS:
            return
        rate = (count - before) * 1e9 / max(main_ns - began_ns, 1)
        if rate < 0.95 * self.hz:
            self._catch_up = min(self._catch_up * 1.2, _CATCHES_UP)
        elif rate > 1.05 * self.hz:
            self._catch_up = max(self._catch_up / 1.2, 1.0)
        self._rated = (main_ns, count)
