"""Times: seconds and datetimes where people set and read them, whole nanoseconds everywhere else."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from actors.protocol.moments import NS_PER_S
from runtime.checks import is_number

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_ANY_S_MAX: Final = 1e12
"""What is longer is out of every range, and might not fit into a float as nanoseconds."""


def seconds_to_ns(seconds: float | None) -> int | None:
    """Integer nanoseconds of a time in seconds; None stays None."""
    return None if seconds is None else int(seconds * NS_PER_S)


def any_to_ns(seconds: Any) -> Any:
    """The same, rounded, for a value that may be anything, to be judged with the rest: what is no number stays as it
    is, and a whole number that is too long for any time becomes infinite, so that it is not taken for nanoseconds."""
    if is_number(seconds, -_ANY_S_MAX, _ANY_S_MAX):
        return round(seconds * NS_PER_S)
    return math.inf if type(seconds) is int else seconds


def datetime_to_ns(when: datetime) -> int:
    """Nanoseconds since 1970 of a time with a time zone, exact to the microsecond."""
    return (when - EPOCH) // timedelta(microseconds=1) * 1000
