"""How fast work comes since it began to press: what a pool can know of a rise in load within some milliseconds.

The average that a pool's size follows in the long run (`actors.policy.scale`) is far too slow for that. The window
begins when something presses, so what came before, and the burst that made it press, do not count: a burst alone is a
rate of nothing, and is answered by its size. A window says nothing before POOL_SURGE_NS, and is cut to its younger half
at POOL_SURGE_MAX_NS.

Concurrency: none; owned by one policy.
"""

from __future__ import annotations

from actors.protocol import limits


class Surge:
    """See the module."""

    __slots__ = ("_arrived", "_began_ns", "_half")

    def __init__(self) -> None:
        self._began_ns: int | None = None
        self._arrived = 0
        self._half: tuple[int, int] | None = None

    def follow(self, pressed: bool, arrived: int, now_ns: int) -> None:
        """Note how many tasks came so far."""
        if not pressed:
            self._began_ns = self._half = None
        elif self._began_ns is None:
            self._began_ns, self._arrived = now_ns, arrived
        elif self._half is None:
            if now_ns - self._began_ns >= limits.POOL_SURGE_MAX_NS // 2:
                self._half = (now_ns, arrived)
        elif now_ns - self._began_ns >= limits.POOL_SURGE_MAX_NS:
            (self._began_ns, self._arrived), self._half = self._half, (now_ns, arrived)

    def rate(self, arrived: int, now_ns: int) -> float:
        """Tasks in a nanosecond; 0 where it is not known yet."""
        if self._began_ns is None or now_ns - self._began_ns < limits.POOL_SURGE_NS:
            return 0.0
        return self.arrived(arrived) / (now_ns - self._began_ns)

    def arrived(self, arrived: int) -> int:
        """Tasks that came in the window: as many are to be expected in the same time again."""
        return 0 if self._began_ns is None else max(0, arrived - self._arrived)
