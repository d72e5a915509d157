"""Looking at the rings for a moment before sleeping, where an answer is near.

A sleeper must be woken by its peer, which costs both about 40 us on a virtual machine. Between two looks the core is
given to whoever wants it: on two cores that is the worker whose answer is waited for.

Measured with the engine lingering: 10 to 30 % more tasks of a graph a second, a fifth off a round trip; with the
workers lingering, too: a third off the hop of a chain.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Final

from runtime.mail.link import SPIN_MISSES_MAX, SPIN_RETRY_EVERY, Link, cores

LINGER_NS: Final = 150_000
"""About what a round trip to a worker takes, its sleep included."""
WORKER_LINGER_NS: Final = 100_000
"""About what the engine takes to enter a result and to send what follows from it."""


def linger(links: Sequence[Link], wait_ns: int) -> bool:
    """Look at the links for at most `wait_ns`; True as soon as one has something to receive."""
    clock_ns, give_way = time.monotonic_ns, os.sched_yield
    until_ns = clock_ns() + wait_ns
    while clock_ns() < until_ns:
        for link in links:
            if link.pending():
                return True
        give_way()
    return False


class Lingerer:
    """Lingers at one link, for `wait_ns`, mostly only where that paid lately, and never on a single core."""

    def __init__(self, link: Link, wait_ns: int) -> None:
        self._links = (link,)
        self._wait_ns = wait_ns if cores() > 1 else 0
        self._misses = 0

    def linger(self) -> bool:
        """True: there is something to receive."""
        misses = self._misses
        looks = self._wait_ns > 0 and (misses < SPIN_MISSES_MAX or misses % SPIN_RETRY_EVERY == 0)
        if looks and linger(self._links, self._wait_ns):
            self._misses = 0
            return True
        self._misses = misses + 1
        return False
