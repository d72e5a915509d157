"""What a RELEASED record holds: the numbers of runs that were let go of, and when.

    [number, number, ..., -time]

The time (wall clock, ns) is negative, so that a reader that knows of numbers only finds one that no run has. Older
records have none.
"""

from __future__ import annotations

from collections.abc import Iterable

import orjson


def released_payload(numbers: Iterable[int], wall_ns: int) -> bytes:
    """The record of runs that are let go of now."""
    return orjson.dumps([*numbers, -wall_ns] if wall_ns > 0 else [*numbers])


def released(payload: bytes) -> list[int]:
    """The numbers of the runs."""
    return [no for no in orjson.loads(payload) if no > 0]


def released_ns(payload: bytes) -> int | None:
    """When they were let go of; None: the record does not say."""
    told = orjson.loads(payload)
    return -told[-1] if told and told[-1] < 0 else None
