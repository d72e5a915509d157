"""Options of time of a single task: `delay`, `due` and `expires`, as they are asked for and as they travel.

What is asked for in seconds counts from the call; the frame that is sent has times of the wall clock, so that it means
the same when it is sent again to a new engine: [..., due, expires, whether due is a time of day and not an interval].
"""

from __future__ import annotations

import math
import time
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from actors.protocol.errors import ConfigurationError
from runtime.config import NS_PER_S

TIME_OPTIONS: Final = frozenset({"delay", "due", "expires"})
WAIT_S_MAX: Final = 100 * 366 * 86_400.0
"""Longest delay and expiry: a century. More is a mistake in a unit, and has to fit into 63 bits of nanoseconds."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


class Times(NamedTuple):
    """What was asked for, in nanoseconds: a delay or a time of day, and how long after the call no attempt starts."""

    delay_ns: int | None = None
    due_ns: int | None = None
    expires_ns: int | None = None

    def columns(self, expires_ns: int | None) -> list[int | None]:
        """The columns of a row, as of now; empty when there are no times.

        Args:
            expires_ns: The task's own option, where the call has none.

        Raises:
            ConfigurationError: It would expire before it is due.
        """
        expires_ns = expires_ns if self.expires_ns is None else self.expires_ns
        now_ns = time.time_ns()
        due = self.due_ns if self.delay_ns is None else now_ns + self.delay_ns
        expires = None if expires_ns is None else now_ns + expires_ns
        if due is not None and expires is not None and expires <= due:
            raise ConfigurationError("the task would expire before it is due: expires counts from the submission")
        if self.due_ns is not None:
            return [due, expires, 1]
        return [due, expires] if expires is not None else [due] if due is not None else []


NO_TIMES: Final = Times()


def times_of(options: dict[str, Any]) -> Times:
    """The times among a call's options.

    Raises:
        ConfigurationError: A value is out of range; all problems are named.
    """
    delay, due, expires = (options.get(name) for name in ("delay", "due", "expires"))
    checks = (
        (delay is None or is_wait(delay), f"delay must be 0 to {WAIT_S_MAX:,.0f} seconds, not {delay!r}"),
        (delay is None or due is None, "delay and due exclude each other"),
        (due is None or (isinstance(due, datetime) and due.utcoffset() is not None), _due_rule(due)),
        (expires is None or is_expiry(expires), EXPIRY_RULE),
    )
    problems = [text for holds, text in checks if not holds]
    if problems:
        raise ConfigurationError(f"submit: {'; '.join(problems)}")
    due_ns = None if due is None else (due - _EPOCH) // _MICROSECOND * 1000
    if due_ns is not None and due_ns > time.time_ns() + WAIT_S_MAX * NS_PER_S:
        raise ConfigurationError(f"submit: due must be within a century, not {due}")
    return Times(_ns(delay), due_ns, _ns(expires))


def tail_of(columns: list[int | None]) -> bytes:
    """Columns as they stand in a row behind the item."""
    return b"".join(b",null" if column is None else b",%d" % column for column in columns)


WAIT_RULE: Final = f"0 to {WAIT_S_MAX:,.0f} seconds"
EXPIRY_RULE: Final = f"expires must be above 0 and at most {WAIT_S_MAX:,.0f} seconds"


def is_expiry(value: object) -> bool:
    """Whether a task may be asked to expire after this."""
    return is_wait(value) and value > 0  # type: ignore[operator]  # it is a number


def is_wait(value: object) -> bool:
    """Whether it is a number of seconds that somebody may wait."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return math.isfinite(value) and 0 <= value <= WAIT_S_MAX


def _due_rule(due: object) -> str:
    if isinstance(due, datetime):
        return f"due must have a time zone; {due!r} has none"
    return f"due must be a datetime with a time zone, not {type(due).__name__}"


def _ns(seconds: float | None) -> int | None:
    return None if seconds is None else int(seconds * NS_PER_S)
