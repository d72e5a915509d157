"""One rate limit by the generic cell rate algorithm (GCRA), in exact integers.

Source: ITU-T Recommendation I.371 (1993), virtual scheduling; as a rate limiter: Brandur Leach, "Rate Limiting, Cells,
and GCRA", 2015, https://brandur.org/rate-limiting. All there is to remember is one time: when the meter will be full
again, the theoretical arrival time. Each take moves it on by what it costs; a take passes as long as that time is at
most the burst ahead.

Exact: time is counted in ticks of 1/n ns, where the rate is n/d in a second. One part of cost is then a whole number of
ticks, whatever the rate, and after 10^9 takes at 3 in a second the meter is where the first was computed to be. Costs
are rounded to `COST_PARTS`, and at least one of them; a rate is the fraction that the float given is.

Invariants: over any span of t seconds what passes costs at most burst + rate * t, unless single takes cost more than
the burst: such a one passes when the meter is full, and its debt is paid before the next. Times must not step back
(`policy.forward`) and are not negative. Concurrency: none; owned by one mechanism. Known limits: a rate is a bound, not
an aim: with a burst of 1 every take that comes late, be it by a rounded nanosecond, is time lost; a larger burst makes
up for it.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Final

from actors.protocol.errors import ConfigurationError
from actors.protocol.moments import NS_PER_S

COST_PARTS: Final = 1_000_000
"""Parts of a cost of 1."""
PER_S_MIN: Final = 1e-9
"""Lowest rate: one in 32 years. To let nothing through, a scope is paused."""
PER_S_MAX: Final = 1e9
"""Highest rate, and largest burst: one in a nanosecond."""
_PART_NS: Final = NS_PER_S // COST_PARTS


def cost_parts(cost: float) -> int:
    """A cost in whole parts; a cost above 0 is at least one."""
    return max(round(cost * COST_PARTS), 1) if cost > 0 else 0


def rate_problem(per_s: object, burst: object) -> str:
    """What is wrong with a rate, in one line; empty when nothing is."""
    for value, what, least in ((per_s, "rate", PER_S_MIN), (burst, "burst", 1)):
        if isinstance(value, bool) or not isinstance(value, int | float | Fraction):
            return f"a {what} is a number, not {value!r:.80}"
        if not least <= value <= PER_S_MAX:
            return f"a {what} is from {least:g} to {PER_S_MAX:g}, not {value!r:.80}"
    return ""


class Gcra:
    """A meter that is full at first, lets `burst` pass at once and fills with `per_s`."""

    __slots__ = ("_depth", "_full", "_part", "_ticks", "burst", "per_s")

    def __init__(self, per_s: float | Fraction, burst: float) -> None:
        trouble = rate_problem(per_s, burst)
        if trouble:
            raise ConfigurationError(trouble)
        self.per_s = per_s
        self.burst = burst
        self._ticks, denominator = Fraction(per_s).as_integer_ratio()
        self._part = denominator * _PART_NS
        self._depth = cost_parts(burst) * self._part
        self._full = 0

    def take(self, wanted: int, parts: int, now_ns: int) -> int:
        """Take as many as pass now of those wanted, at so many parts each."""
        count = max(min(wanted, self.room(parts, now_ns)), 0)
        if count:
            self._full = max(self._full, now_ns * self._ticks) + int(count) * parts * self._part
        return int(count)

    def room(self, parts: int, now_ns: int) -> float:
        """How many pass now, at so many parts each."""
        busy = max(self._full - now_ns * self._ticks, 0)
        cost = parts * self._part
        if cost == 0:
            return math.inf
        # What is dearer than the burst passes alone, when the meter is full.
        return max(self._depth - busy, 0) // cost or (1 if busy == 0 else 0)

    def next_ns(self, parts: int, now_ns: int) -> int:
        """When one more at so many parts passes, if nothing is taken until then."""
        ahead = max(self._depth - parts * self._part, 0)
        return max(now_ns, -((ahead - self._full) // self._ticks)) if parts else now_ns

    def reserve(self, parts: int, now_ns: int) -> int:
        """Take one whether it passes or not; when it would have. Those reserved are in order and a cost apart."""
        time_ns = self.next_ns(parts, now_ns)
        self._full = max(self._full, now_ns * self._ticks) + parts * self._part
        return time_ns

    def busy_ns(self, now_ns: int) -> int:
        """How long until the meter is full, rounded up."""
        return max(-((now_ns * self._ticks - self._full) // self._ticks), 0)

    def resume(self, busy_ns: int, now_ns: int) -> None:
        """Be full again after so long."""
        self._full = (now_ns + busy_ns) * self._ticks

    def changed(self, per_s: float | Fraction, burst: float, now_ns: int) -> Gcra:
        """A meter with another rate and burst that lacks as much as this one does, rounded up to one tick."""
        other = Gcra(per_s, burst)
        busy = max(self._full - now_ns * self._ticks, 0)
        other._full = now_ns * other._ticks - (-busy * other._part // self._part)
        return other
