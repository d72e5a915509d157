"""When a record was written, as far as the record itself says.

A log has no column of times: a submission says when it came, results say when they ended, by the worker's clock, and
what leads from that clock to the wall clock stands in the record of the opening. What somebody asks for (a cancel, a
pause, another policy, a schedule, to forget a run) carries the time of the turn that did it; records of older versions
do not. A record that says nothing was written when the one before it was, or later.

Times ascend but for two reasons: results are logged some milliseconds after they ended, and somebody may set the wall
clock. So "as of a time" means: before the first record that tells of something later.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import orjson

from actors import kept
from actors.imported import committed_ns
from actors.once import HEAD_BYTES
from actors.protocol.errors import ProtocolError
from actors.protocol.records import Record, RecordType
from actors.released import released_ns

_TASKS_HEAD: Final = re.compile(rb'\["(?:[^"\\]|\\.)*",\d+,(\d+)')
"""Session, number and time of a submission of tasks: the body behind it may be long."""
_WALL_IN_HEAD: Final = 2
_WALL_IN_DEBOUNCE: Final = 4


class RecordTimes:
    """Tells the times of the records of one log, which it must be shown in order."""

    def __init__(self) -> None:
        self.offset_ns: int | None = None
        """From the workers' clock to the wall clock, as of the latest opening; None where that is not known."""

    def tells(self, record: Record) -> bool:
        """Whether a record says when it was written; most do."""
        return record.type in _READERS and (record.type not in _NOT_ALWAYS or self.at(record) is not None)

    def at(self, record: Record) -> int | None:
        """When it was written (wall clock, ns); None: it does not say. Raises ProtocolError: it cannot be read."""
        reader = _READERS.get(record.type)
        if reader is None:
            return None
        try:
            return reader(self, record.payload)
        except (AttributeError, KeyError, ValueError, TypeError, IndexError) as broken:
            raise ProtocolError(f"record {record.lsn} of type {record.type} does not fit: {broken!r}") from broken


def _submitted(times: RecordTimes, payload: bytes) -> int | None:
    if payload[:1] == b"G":
        length = int.from_bytes(payload[1:5], "little")
        return int(orjson.loads(payload[5 : 5 + length])[_WALL_IN_HEAD])
    found = _TASKS_HEAD.match(payload, 1)
    return int(found[1]) if found else int(orjson.loads(payload[1:])[_WALL_IN_HEAD])


def _completed(times: RecordTimes, payload: bytes) -> int | None:
    if times.offset_ns is None:
        return None
    _, groups = orjson.loads(payload)
    return max((times.offset_ns + started_ns + ends[-1] for *_, started_ns, ends in groups), default=None)


def _opened(times: RecordTimes, payload: bytes) -> int | None:
    opened = orjson.loads(payload)
    times.offset_ns = opened["wall_ns"] - opened["now_ns"]
    return int(opened["wall_ns"])


def _debounced(times: RecordTimes, payload: bytes) -> int | None:
    length = int.from_bytes(payload[:HEAD_BYTES], "little")
    return int(orjson.loads(payload[HEAD_BYTES : HEAD_BYTES + length])[_WALL_IN_DEBOUNCE])


def _dead(times: RecordTimes, payload: bytes) -> int | None:
    return None if payload[:1] == kept.MARK else int(orjson.loads(payload)[3])


def _column(place: int) -> Callable[[RecordTimes, bytes], int | None]:
    return lambda times, payload: int(orjson.loads(payload)[place])


def _cancelled(times: RecordTimes, payload: bytes) -> int | None:
    told = orjson.loads(payload)[3:]
    return int(told[0]) if told else None


def _noted(times: RecordTimes, payload: bytes) -> int | None:
    at_ns = orjson.loads(payload).get("at_ns")
    return None if at_ns is None else int(at_ns)


def _rates(times: RecordTimes, payload: bytes) -> int | None:
    return int(orjson.loads(payload)["wall_ns"])


_READERS: Final[dict[int, Callable[[Any, bytes], int | None]]] = {
    int(RecordType.SUBMITTED): _submitted,
    int(RecordType.COMPLETED): _completed,
    int(RecordType.ATTEMPT): _column(6),
    int(RecordType.OPENED): _opened,
    int(RecordType.RATES): _rates,
    int(RecordType.PRIORITY): _column(3),
    int(RecordType.DEBOUNCE): _debounced,
    int(RecordType.DEAD): _dead,
    int(RecordType.CANCEL): _cancelled,
    int(RecordType.POLICY): _noted,
    int(RecordType.SCHEDULE): _noted,
    int(RecordType.KEYS): _noted,
    int(RecordType.RELEASED): lambda times, payload: released_ns(payload),
    int(RecordType.IMPORTED): lambda times, payload: committed_ns(payload),
    int(RecordType.LENT): _column(2),
}
_NOT_ALWAYS: Final = frozenset(
    map(
        int,
        (
            RecordType.CANCEL,
            RecordType.POLICY,
            RecordType.SCHEDULE,
            RecordType.KEYS,
            RecordType.RELEASED,
            RecordType.IMPORTED,
            RecordType.DEAD,
        ),
    )
)
"""Types of which older records, or some, do not say it."""
