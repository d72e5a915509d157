"""When the archive is trimmed: by a process of its own, when the first of its runs is over.

    state     look: it is time      ended
    IDLE      RUNNING
    RUNNING                         IDLE

- The time of the next is said by whoever looked into the archive last: the process that takes a checkpoint, or the one
  that trims. Times are intervals on the monotonic clock, looked at anew every `LOOK_MAX_NS`: the wall clock can be set.
- Between two there are `REST_NS`: what is over within that goes with the next one. After a failure `RETRY_NS`.

Invariant: never two at once. Concurrency: none; whoever has the timer calls.
"""

from __future__ import annotations

from typing import Final

FIRST_NS: Final = 2_000_000_000
"""From the start of the engine: it is busy with other things then."""
REST_NS: Final = 1_000_000_000
RETRY_NS: Final = 60_000_000_000
LOOK_MAX_NS: Final = 3_600_000_000_000
"""See the module."""


class Trimming:
    """See the module.

    Attributes:
        at_ns: When to `look`; None: not before somebody says so.
    """

    def __init__(self) -> None:
        self.at_ns: int | None = None
        self.running = False
        self._next_ns: int | None = None

    def begin(self, now_ns: int) -> None:
        """The engine starts: nobody has looked into the archive yet."""
        self._plan(now_ns + FIRST_NS)

    def due(self, now_ns: int, in_ns: int | None) -> None:
        """Somebody has looked: the first run is over after this time; None: none ever."""
        if in_ns is not None:
            self._plan(now_ns + min(max(in_ns, 0), LOOK_MAX_NS))

    def look(self, now_ns: int) -> bool:
        """Whether to begin now."""
        if self.running or self.at_ns is None or now_ns < self.at_ns:
            return False
        self.running, self.at_ns = True, None
        return True

    def ended(self, now_ns: int, in_ns: int | None, *, failed: bool) -> None:
        """It has ended, and says when the first of those that are left is over.

        Args:
            now_ns: Now (monotonic).
            in_ns: From now on; None: none is left that ever is.
            failed: It says nothing, because it failed.
        """
        self.running = False
        later, self._next_ns = self._next_ns, None
        if failed:
            self._plan(now_ns + RETRY_NS)
            return
        if later is not None:
            self._plan(max(later, now_ns + REST_NS))
        if in_ns is not None:
            self._plan(now_ns + min(max(in_ns, REST_NS), LOOK_MAX_NS))

    def _plan(self, at_ns: int) -> None:
        if self.running:
            self._next_ns = at_ns if self._next_ns is None else min(self._next_ns, at_ns)
        else:
            self.at_ns = at_ns if self.at_ns is None else min(self.at_ns, at_ns)
