"""The lenders of this process, for whoever asks it from outside what its pools hold (`runtime.profile.presence`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from weakref import WeakSet

import orjson

if TYPE_CHECKING:
    from runtime.host.lender import Lender
    from runtime.profile.presence.here import Request

# global: which lenders a process has is a fact of it, as its threads are; mostly one
LENDERS: Final[WeakSet[Lender]] = WeakSet()


def answer(request: Request) -> bytes:
    """How each pool stands: rows of a name and `actors.policy.object_pool.PoolCounts`."""
    return orjson.dumps([row for lender in list(LENDERS) for row in lender.rows()])
