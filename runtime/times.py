"""Options of time of a single task: `delay`, `due`, `expires` and `deadline`, as they are asked for and as they travel.

What is asked for in seconds counts from the call; the frame that is sent has times of the wall clock, so that it means
the same when it is sent again to a new engine: [..., due, expires, whether due is a time of day and not an interval,
deadline, whether that is one].
"""

from __future__ import annotations

import time
from datetime import datetime
from typing import Any, Final, NamedTuple

from actors.protocol.errors import ConfigurationError
from actors.protocol.moments import NS_PER_S
from runtime.checks import is_number, refuse
from runtime.units import datetime_to_ns, seconds_to_ns

TIME_OPTIONS: Final = frozenset({"delay", "due", "expires", "deadline"})
WAIT_S_MAX: Final = 100 * 366 * 86_400.0
"""Longest delay and expiry: a century. More is a mistake in a unit, and has to fit into 63 bits of nanoseconds."""
WAIT_RULE: Final = f"0 to {WAIT_S_MAX:,.0f} seconds"
SPAN_RULE: Final = f"above 0 and at most {WAIT_S_MAX:,.0f} seconds"
EXPIRY_RULE: Final = f"expires must be {SPAN_RULE}"
DEADLINE_RULE: Final = f"deadline must be {SPAN_RULE}"


class Times(NamedTuple):
    """What was asked for, in nanoseconds: a delay or a time of day, how long after the call no attempt starts, and by
    when it must have ended, as an interval or a time of day."""

    delay_ns: int | None = None
    due_ns: int | None = None
    expires_ns: int | None = None
    deadline_ns: int | None = None
    ends_ns: int | None = None

    def columns(self, expires_ns: int | None = None, deadline_ns: int | None = None) -> list[int | None]:
        """The columns of a row, as of now; empty when there are no times.

        Args:
            expires_ns: The task's own option, where the call has none.
            deadline_ns: Likewise.

        Raises:
            ConfigurationError: It would expire, or have to end, before it is due.
        """
        expires_ns = expires_ns if self.expires_ns is None else self.expires_ns
        deadline_ns = deadline_ns if self.deadline_ns is None else self.deadline_ns
        now_ns = time.time_ns()
        due = self.due_ns if self.delay_ns is None else now_ns + self.delay_ns
        expires = None if expires_ns is None else now_ns + expires_ns
        ends = self.ends_ns
        if ends is None and deadline_ns is not None:
            ends = now_ns + deadline_ns
        if due is not None and expires is not None and expires <= due:
            raise ConfigurationError("the task would expire before it is due: expires counts from the submission")
        if due is not None and ends is not None and ends <= due:
            raise ConfigurationError("the task would have to end before it is due: deadline counts from the submission")
        columns = [due, expires, None if self.due_ns is None else 1, ends, None if self.ends_ns is None else 1]
        while columns and columns[-1] is None:
            columns.pop()
        return columns


NO_TIMES: Final = Times()


def times_of(options: dict[str, Any]) -> Times:
    """The times among a call's options.

    Raises:
        ConfigurationError: A value is out of range; all problems are named.
    """
    delay, due, expires, deadline = (options.get(name) for name in ("delay", "due", "expires", "deadline"))
    ends_at = deadline if isinstance(deadline, datetime) else None
    checks = (
        (delay is None or is_wait(delay), f"delay must be {WAIT_RULE}, not {delay!r:.60}"),
        (delay is None or due is None, "delay and due exclude each other"),
        (due is None or (isinstance(due, datetime) and due.utcoffset() is not None), _due_rule(due)),
        (expires is None or is_expiry(expires), EXPIRY_RULE),
        (ends_at is None or ends_at.utcoffset() is not None, f"deadline must have a time zone; {deadline!r} has none"),
        (deadline is None or ends_at is not None or is_expiry(deadline), DEADLINE_RULE),
    )
    refuse("submit", *checks)
    interval = None if ends_at is not None else deadline
    return Times(
        seconds_to_ns(delay),
        _moment_ns("due", due),
        seconds_to_ns(expires),
        seconds_to_ns(interval),
        _moment_ns("deadline", ends_at),
    )


def tail_of(columns: list[int | None]) -> bytes:
    """Columns as they stand in a row behind the item."""
    return b"".join(b",null" if column is None else b",%d" % column for column in columns)


def is_expiry(value: object) -> bool:
    """Whether a task may be asked to expire, or to have ended, after this."""
    return is_number(value, 0, WAIT_S_MAX, above=True)


def is_wait(value: object) -> bool:
    """Whether it is a number of seconds that somebody may wait."""
    return is_number(value, 0, WAIT_S_MAX)


def _due_rule(due: object) -> str:
    if isinstance(due, datetime):
        return f"due must have a time zone; {due!r} has none"
    return f"due must be a datetime with a time zone, not {type(due).__name__}"


def _moment_ns(name: str, moment: datetime | None) -> int | None:
    if moment is None:
        return None
    at_ns = datetime_to_ns(moment)
    if at_ns > time.time_ns() + WAIT_S_MAX * NS_PER_S:
        raise ConfigurationError(f"submit: {name} must be within a century, not {moment}")
    return at_ns
