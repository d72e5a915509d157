"""Looking at the rings for a moment before sleeping, where an answer is near.

A sleeper must be woken by its peer, which costs both about 40 us on a virtual machine. Between two looks the core is
given to whoever wants it: on two cores that is the worker whose answer is waited for.

Measured with the engine lingering: 10 to 30 % more tasks of a graph a second, a fifth off a round trip.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Final

from runtime.mail.link import Link

LINGER_NS: Final = 150_000
"""About what a round trip to a worker takes, its sleep included."""


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
