"""Of which run a record speaks, by the beginning of its payload: what decides on which shard of a log it lies.

Results of several runs may share a record; it counts as one of the first. Records of no run, or of many by their
nature (policy, schedules, what was released), have None.

Invariant: the answer depends on nothing but the record, so that a shard holds a run's records in their order.
Known limit: a payload of a form that is not known here has None, which is harmless: readers go by LSNs.
"""

from __future__ import annotations

from collections.abc import Mapping
from re import DOTALL, Pattern
from re import compile as pattern
from types import MappingProxyType
from typing import Final

from actors.protocol.records import RecordType

_MIX: Final = 0x9E37_79B9_7F4A_7C15
"""2**64 / golden ratio (Knuth, The Art of Computer Programming 3, 6.4): consecutive numbers are spread evenly."""
_WORD: Final = 0xFFFF_FFFF_FFFF_FFFF

_TEXT: Final = rb'"(?:[^"\\]|\\.)*"'
_FIRST: Final = pattern(rb"\[(\d+)")
_SECOND: Final = pattern(rb'\[(?:\d+|"[a-z]*"),(\d+)')
_RUN_OF: Final[Mapping[int, Pattern[bytes]]] = MappingProxyType(
    {
        int(RecordType.SUBMITTED): pattern(rb"(?:[TM]|G.{4})\[" + _TEXT + rb",(\d+)", DOTALL),
        int(RecordType.COMPLETED): pattern(rb"\[\d+,\[\[\d+,(\d+)"),
        int(RecordType.ATTEMPT): _FIRST,
        int(RecordType.CANCEL): _FIRST,
        int(RecordType.SPAWNED): _SECOND,
        int(RecordType.PRIORITY): _FIRST,
        int(RecordType.DEBOUNCE): pattern(rb".{4}\[" + _TEXT + rb",\d+,(\d+)", DOTALL),
        int(RecordType.DEAD): pattern(rb'(?:\[(?:\d+|"[a-z]*"),|K.{4}\{"no":)(\d+)', DOTALL),
        int(RecordType.LENT): _FIRST,
    }
)


def run_of(type_: int, payload: bytes) -> int | None:
    """The number of the run that a record speaks of; None: of none."""
    known = _RUN_OF.get(type_)
    found = None if known is None else known.match(payload)
    return None if found is None else int(found[1])


def shard_of(type_: int, payload: bytes, shards: int) -> int:
    """The shard of a log, of so many, on which a record lies."""
    run = run_of(type_, payload)
    return 0 if run is None else shard_of_run(run, shards)


def shard_of_run(run: int, shards: int) -> int:
    """The shard of a run."""
    return (run * _MIX & _WORD) * shards >> 64
