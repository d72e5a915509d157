"""What the profiler itself costs this process: CPU time by its own clocks, by part.

    ticks      the handler of SIGPROF, from its first line to its last
    looks      looks at what waits
    books      writing the books into the page
    answers    whatever answers who asks: threads of their own

The page shows the sum (`PageSlot.show_cost`), so that anybody can divide it by the CPU time of the process: that is
`profiler_self_cpu_ratio`. What no clock of ours sees (the kernel's part of a signal, caches that are cold afterwards)
is measured by `python -m runtime.bench profile-cost`, with all of it on and off in turns.

Concurrency: each part has one writer but `answers`, of whose additions one in a million may be lost.
"""

from __future__ import annotations

import os
from typing import Final


class SelfCost:
    """See the module; all in nanoseconds."""

    __slots__ = ("answers_ns", "books_ns", "looks_ns", "ticks_ns")

    def __init__(self) -> None:
        self.forked()

    def forked(self) -> None:
        """A child begins anew, as its CPU clock does."""
        self.ticks_ns = self.looks_ns = self.books_ns = self.answers_ns = 0

    def total_ns(self) -> int:
        """All parts."""
        return self.ticks_ns + self.looks_ns + self.books_ns + self.answers_ns


# global: of this process, as its CPU clock is
SELF_COST: Final = SelfCost()
os.register_at_fork(after_in_child=SELF_COST.forked)
