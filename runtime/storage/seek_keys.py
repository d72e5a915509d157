"""What says where a record is in an order that is not that of the LSNs: the number of a new run, and the time.

Invariants: read from the beginning of a payload, but for the time of an ATTEMPT, which is at its end.
Known limits: a payload of a form that is not known here has no key.
"""

from __future__ import annotations

from re import DOTALL
from re import compile as pattern
from typing import Final

import orjson

from actors.protocol.records import RecordType
from runtime.storage.seek import OrderKey

_SUBMITTED: Final = pattern(rb'(?:[TM]|G.{4})\["(?:[^"\\]|\\.)*",(\d+),(\d+)', DOTALL)
_ATTEMPT: Final = pattern(rb",(\d+),\[\d+,\d+,\d+\]\]\Z")


def run_no_of(type_: int, payload: bytes) -> int | None:
    """The number of the run that a record submits. The beginning of the payload is enough."""
    head = _submitted(type_, payload)
    return None if head is None else head[0]


def time_of(type_: int, payload: bytes) -> int | None:
    """The wall clock (ns) of a record that says it near its beginning or its end."""
    if type_ == RecordType.SUBMITTED:
        head = _submitted(type_, payload)
        return None if head is None else head[1]
    if type_ == RecordType.OPENED:
        return int(orjson.loads(payload)["wall_ns"])
    if type_ == RecordType.ATTEMPT and (found := _ATTEMPT.search(payload)) is not None:
        return int(found[1])
    return None


def _submitted(type_: int, payload: bytes) -> tuple[int, int] | None:
    """Number and time of a new run."""
    if type_ != RecordType.SUBMITTED:
        return None
    found = _SUBMITTED.match(payload)
    return None if found is None else (int(found[1]), int(found[2]))


BY_RUN: Final = OrderKey(frozenset({RecordType.SUBMITTED}), run_no_of)
"""New runs, by their number."""
BY_TIME: Final = OrderKey(frozenset({RecordType.SUBMITTED, RecordType.OPENED, RecordType.ATTEMPT}), time_of)
"""What tells a time, by it (wall clock, ns)."""
