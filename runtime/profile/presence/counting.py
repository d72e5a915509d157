"""The answer to "how many": the books of this process as they are now, and what the profiler itself has cost in it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import orjson

from runtime.profile.ledger.books import LEDGER
from runtime.profile.sampling.self_cost import SELF_COST

if TYPE_CHECKING:
    from runtime.profile.presence.here import Request


def answer(request: Request) -> bytes:
    """The books as they are now; also of a process that sleeps and writes none."""
    request.presence.slot.publish(time.monotonic_ns())
    request.presence.slot.show_cost(SELF_COST.total_ns())
    return orjson.dumps({name: [*count] for name, count in LEDGER.counts().items()})
