"""A digest of what a scheduler knows: equal for equal states, so that two of them are compared by one line.

It walks the objects themselves, field by field, so a field that somebody adds is in it. What is walked is what the log
decides: runs and sessions, keys, schedules, the policy, and when runs ended. Queues, timers and what sits at workers
follow from that at a start and are left out.

The digest is of one version of the program: another one may have other fields.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

import orjson

from actors.protocol.kinds import Kind

if TYPE_CHECKING:
    from actors.run import Run
    from actors.scheduler import Scheduler

DIGEST_BYTES: Final = 16
_PLAIN: Final = (bool, int, float, str, type(None))
_BYTES: Final = (bytes, bytearray, memoryview)
_LEFT_OUT: Final = frozenset({"calendar"})
"""Fields that are tools of an object and no part of its state."""


def state_digest(scheduler: Scheduler) -> str:
    """Of all that a scheduler knows from its log, as hexadecimal digits."""
    walk = _Walk()
    walk.take([scheduler.lsn, scheduler.ended_ns])
    for part in (scheduler.book, scheduler.keys, scheduler.schedules, scheduler.standing):
        walk.take(part)
    return walk.digits()


def run_digest(run: Run) -> str:
    """Of one run."""
    walk = _Walk()
    walk.take(run)
    return walk.digits()


class _Walk:
    """Feeds a hash with values, each with its type and length in front, so that no two states read the same."""

    def __init__(self) -> None:
        self._hash = blake2b(digest_size=DIGEST_BYTES)
        self._met: dict[int, int] = {}

    def digits(self) -> str:
        return self._hash.hexdigest()

    def take(self, value: Any) -> None:
        kind = type(value)
        if kind in _PLAIN:
            self._put(kind.__name__, repr(value).encode("utf-8", "backslashreplace"))
        elif kind in _BYTES:
            self._put("bytes", bytes(value))
        elif kind is array:
            self._put(f"array {value.typecode}", value.tobytes())
        elif isinstance(value, Kind):
            self._put("kind", value.text)
        elif isinstance(value, list | tuple | deque | range):
            self._sequence(value)
        elif isinstance(value, Mapping):
            self._put("mapping", str(len(value)).encode())
            for key, entry in value.items():
                self.take(key)
                self.take(entry)
        elif isinstance(value, set | frozenset):
            self._sequence(sorted(value, key=repr))
        else:
            self._object(value)

    def _sequence(self, values: Iterable[Any]) -> None:
        listed = list(values)
        self._put("sequence", str(len(listed)).encode())
        try:  # what a log holds came as JSON, so it has no infinities, which would read as null here
            self._put("json", orjson.dumps(listed, option=orjson.OPT_PASSTHROUGH_DATACLASS))
        except TypeError:
            for value in listed:
                self.take(value)

    def _object(self, value: Any) -> None:
        """Each object once; where it comes again, which one it was."""
        number = self._met.get(id(value))
        if number is not None:
            self._put("again", str(number).encode())
            return
        self._met[id(value)] = len(self._met)
        self._put("object", type(value).__name__.encode())
        if isinstance(value, type) or callable(value):
            return
        for name in _fields(value):
            self._put("field", name.encode())
            self.take(getattr(value, name))

    def _put(self, tag: str, content: bytes) -> None:
        self._hash.update(b"%b %d:" % (tag.encode(), len(content)))
        self._hash.update(content)


def _fields(value: Any) -> list[str]:
    """Names of what an object holds, slots and others."""
    names = {name for base in type(value).__mro__ for name in _slots_of(base)}
    names.update(getattr(value, "__dict__", ()))
    return sorted(name for name in names - _LEFT_OUT if hasattr(value, name))


def _slots_of(base: type) -> tuple[str, ...]:
    slots = base.__dict__.get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)
