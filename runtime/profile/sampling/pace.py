"""How often there are ticks: what is asked for, less what the breaker holds down, more where the kernel lags.

Gaps between ticks are exponentially distributed, so that what comes at regular times is seen like anything else.

Concurrency: the main thread, also within a handler that interrupts it here, which may draw the same gaps again. Any
    thread may read, and take an asker away (`Ticks.forget`).
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
"""Ticks between two looks at whether the kernel lags."""
_SLOWDOWN_MAX: Final = 64.0
_CATCH_UP_MAX: Final = 4.0
"""At most so many times the rate is asked for."""
_GAPS: Final = 64
"""Drawn at once: within a handler, where nothing of it is in a cache, each would take 10 us."""


class Pace:
    """See the module.

    Attributes:
        rates: What each asker wants, in ticks a second of CPU time; the fastest decides.
        slowdown: By how much the breaker holds the rate down: 1, 2, 4, ...
        halved: How often it has halved it.
    """

    def __init__(self) -> None:
        self.rates: dict[object, float] = {}
        self.slowdown, self.halved = 1.0, 0
        self._catch_up = 1.0
        self._drawn: list[float] = []
        self._seed = (os.getpid() << 20 ^ monotonic_ns()) & 0xFFFFFFFFFFFFFFFF
        self._judged = self._rated = (0, 0)

    @property
    def hz(self) -> float:
        """Ticks in a second of CPU time, as they are now."""
        return max(self.rates.values(), default=0.0) / self.slowdown

    def begin(self, process_ns: int, cost_ns: int, main_ns: int, count: int) -> None:
        """Judge from here on.

        Args:
            process_ns: CPU time of the process.
            cost_ns: What all ticks took of it.
            main_ns: CPU time of the main thread.
            count: Its ticks.
        """
        self._judged, self._rated = (process_ns, cost_ns), (main_ns, count)

    def adapt(self, process_ns: int, cost_ns: int, main_ns: int, count: int) -> None:
        """Hold the rate down or let it go, and catch up with a kernel that lags, where there is enough to tell.

        Args: as `begin`.
        """
        if process_ns - self._judged[0] >= _JUDGED_NS:
            self._judge(process_ns, cost_ns)
        if count - self._rated[1] >= _RATE_TICKS:
            self._catch_up_with_kernel(main_ns, count)

    def gap_s(self) -> float:
        """Seconds of CPU time until the next tick, at the rate of now; somebody must ask for some."""
        if not self._drawn:
            self._draw()
        return self._drawn.pop() / (self.hz * self._catch_up)

    def _draw(self) -> None:
        seed = self._seed
        for _ in range(_GAPS):
            seed = (seed * 6364136223846793005 + 1442695040888963407) & 0xFFFFFFFFFFFFFFFF
            self._drawn.append(-math.log(1.0 - (seed >> 11) / 9007199254740992.0))
        self._seed = seed

    def _judge(self, process_ns: int, cost_ns: int) -> None:
        """Halve the rate where ticks cost too much; double it again where they cost little."""
        began_ns, before_ns = self._judged
        part = (cost_ns - before_ns) / (process_ns - began_ns)
        most = CAPTURE_BUDGET if max(self.rates.values(), default=0.0) > HZ else BUDGET
        if part > most:
            self.slowdown = min(self.slowdown * 2.0, _SLOWDOWN_MAX)
            self.halved += 1
        elif self.slowdown > 1.0 and part < most / 4:
            self.slowdown /= 2.0
        self._judged = (process_ns, cost_ns)

    def _catch_up_with_kernel(self, main_ns: int, count: int) -> None:
        """It rounds gaps up to its own tick, and ticks within one become one: ask for more, where it lags."""
        began_ns, before = self._rated
        rate = (count - before) * 1e9 / max(main_ns - began_ns, 1)
        if rate < 0.95 * self.hz:
            self._catch_up = min(self._catch_up * 1.2, _CATCH_UP_MAX)
        elif rate > 1.05 * self.hz:
            self._catch_up = max(self._catch_up / 1.2, 1.0)
        self._rated = (main_ns, count)
