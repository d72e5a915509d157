"""A clock that only goes forward, whatever the one behind it does.

Purpose: mechanisms that fill or forget with time must neither stand still for an hour nor give twice because a clock
was set back by an hour. Here time is the sum of the forward steps: a step back takes no time, then time goes on from
where it was. A step forward counts as time that passed. Times are not negative.

Invariant: `at` never returns less than before. Concurrency: none; owned by one mechanism.
"""

from __future__ import annotations


class ForwardClock:
    """Translates the time outside, which may step back, to a time inside, which does not. `inside_ns`: the latest."""

    __slots__ = ("_lost_ns", "inside_ns")

    def __init__(self) -> None:
        self.inside_ns = 0
        self._lost_ns = 0

    def at(self, now_ns: int) -> int:
        """The time inside at this time outside, which is the latest reading from now on."""
        inside = now_ns + self._lost_ns
        if inside < self.inside_ns:
            self._lost_ns += self.inside_ns - inside
            inside = self.inside_ns
        self.inside_ns = inside
        return inside

    def outside(self, inside_ns: int) -> int:
        """When the clock outside will show it, if it does not step back again."""
        return inside_ns - self._lost_ns
