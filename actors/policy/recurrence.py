"""Recurrence: when a schedule is due, what of that was missed, and what becomes of what was missed.

Pure: expressions and zones are read by a `Calendar`, which the host brings, because zones are files. A plan is a cron
expression in a zone, or an interval; times are integer nanoseconds on the clock by which it is judged, the wall clock
for expressions and the monotonic one for intervals.

- **Due** is a time of the plan. **Its start** is `jitter_of` later: by name and due time, so it is the same after a
  crash, and less than the plan's jitter.
- **Missed** is what could not start in time: its start lies `limits.SCHEDULE_LATE_NS` back, or the next one is due by
  now. So an engine that is killed and started again within seconds has missed nothing.
- **Catch-up** is about what was missed: "none" drops it, "latest" keeps the last of it if nothing later can start by
  now, "all" keeps all, at most the latest `limits.SCHEDULE_QUEUED_MAX`.

Invariant: `ripe` gives ascending times after `after_ns`, whose starts are not later than now.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, Protocol

from actors.protocol import limits
from actors.protocol.errors import ConfigurationError
from actors.protocol.values import is_whole

CATCH_UP: Final = ("latest", "none", "all")
OVERLAP: Final = ("skip", "queue", "cancel", "allow")
NAME_BYTES_MAX: Final = 80
"""A run is called by its schedule and its due time, which together name a folder (`runtime.dispatch`)."""
EXPRESSION_CHARS_MAX: Final = 200
_WINDOW_NS: Final = 60_000_000_000
_FEW: Final = 8
"""More are never both ripe and not missed: the next one being due makes a due time missed."""


class Calendar(Protocol):
    """Reads cron expressions in time zones."""

    def next_ns(self, expression: str, zone: str, after_ns: int) -> int | None:
        """The first due time after this one, on the wall clock; None when there is none within decades.

        Raises:
            ConfigurationError: The expression or the zone cannot be read.
        """
        ...


class Recurrence(NamedTuple):
    """When to start something, and what if that was missed, or the one before still runs.

    Either `cron`, in `zone`, or `every_ns` is set.
    """

    cron: str | None = None
    zone: str = "UTC"
    every_ns: int | None = None
    catch_up: str = "latest"
    overlap: str = "skip"
    jitter_ns: int = 0

    @staticmethod
    def of(data: Mapping[str, Any]) -> Recurrence:
        """From plain data; unknown entries are not looked at.

        Raises:
            ConfigurationError: Values are out of range; all problems are named.
        """
        found = {name: data[name] for name in Recurrence._fields if data.get(name) is not None}
        plan = Recurrence(**found)
        problems = plan.problems()
        if problems:
            raise ConfigurationError(f"schedule: {'; '.join(problems)}")
        return plan

    def problems(self) -> list[str]:
        """What is wrong with it, without reading the expression."""
        cron: Any = self.cron  # what others wrote may be anything
        every: Any = self.every_ns
        jitter: Any = self.jitter_ns
        low, high = limits.SCHEDULE_EVERY_NS_MIN, limits.SCHEDULE_EVERY_NS_MAX
        is_text = cron is None or (_is_text(cron) and len(cron) <= EXPRESSION_CHARS_MAX)
        checks = (
            ((cron is None) != (every is None), "give either cron or every"),
            (is_text, f"cron must be a text of at most {EXPRESSION_CHARS_MAX} characters"),
            (_is_text(self.zone), 'zone must be the name of a time zone, such as "Europe/Berlin"'),
            (every is None or self.zone == "UTC", "zone is for cron; an interval has none"),
            (every is None or is_whole(every, low, high), f"every must be {low / 1e9:g} to {high / 1e9:,.0f} seconds"),
            (self.catch_up in CATCH_UP, f"catch_up must be one of {', '.join(CATCH_UP)}, not {self.catch_up!a:.60}"),
            (self.overlap in OVERLAP, f"overlap must be one of {', '.join(OVERLAP)}, not {self.overlap!a:.60}"),
            (
                is_whole(jitter, 0, limits.SCHEDULE_JITTER_NS_MAX),
                f"jitter must be 0 to {limits.SCHEDULE_JITTER_NS_MAX / 1e9:,.0f} seconds",
            ),
            (
                not (is_whole(jitter, 0, high) and is_whole(every, 1, high)) or jitter <= every,
                "jitter must not be longer than the interval",
            ),
            (
                (self.catch_up, self.overlap) != ("all", "cancel"),
                "catch_up='all' and overlap='cancel' exclude each other: each run would cancel the one before",
            ),
        )
        return [text for holds, text in checks if not holds]

    def to_json(self) -> dict[str, Any]:
        """As plain data; what is unset is left out."""
        return {name: value for name, value in self._asdict().items() if value is not None}

    def words(self) -> str:
        """The plan in words."""
        if self.every_ns is not None:
            return f"every {self.every_ns / 1e9:g} s"
        return f"{self.cron} {self.zone}"

    def next_ns(self, calendar: Calendar, after_ns: int) -> int | None:
        """The first due time after this one. Raises ConfigurationError: the expression or zone cannot be read."""
        if self.every_ns is not None:
            return after_ns + self.every_ns
        return calendar.next_ns(self.cron or "", self.zone, after_ns)


class Ripe(NamedTuple):
    """What a look at the clock found.

    Attributes:
        on_time: Due times that can start now.
        missed: Due times that shall be caught up, before those.
        dropped: Whether something was missed that shall not.
        until_ns: The last due time that was judged; None when there was none.
    """

    on_time: tuple[int, ...] = ()
    missed: tuple[int, ...] = ()
    dropped: bool = False
    until_ns: int | None = None


def jitter_of(name: str, due_ns: int, jitter_ns: int) -> int:
    """How long after its due time (on the wall clock) a run of this schedule starts: 0 to less than `jitter_ns`."""
    if not jitter_ns:
        return 0
    digest = hashlib.blake2b(f"{name}/{due_ns}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") % jitter_ns


def ripe(plan: Recurrence, name: str, calendar: Calendar, after_ns: int, now_ns: int, ahead_ns: int = 0) -> Ripe:
    """Judge what is due after one moment and by another.

    Args:
        plan: The plan.
        name: Its schedule's.
        calendar: Reads its expression.
        after_ns: The last due time that was judged before.
        now_ns: Now, on the same clock.
        ahead_ns: How far the wall clock is ahead of that clock: jitter is by the wall clock.

    Raises:
        ConfigurationError: The expression or zone cannot be read.
    """
    everything = plan.catch_up == "all"
    found, cut = _latest(plan, calendar, after_ns, now_ns, limits.SCHEDULE_QUEUED_MAX if everything else _FEW)
    starts = [due + jitter_of(name, due + ahead_ns, plan.jitter_ns) for due in found]
    count = next((place for place, start in enumerate(starts) if start > now_ns), len(found))
    if not count:
        return Ripe()
    nexts = [*found[1:count], now_ns]
    late = [
        now_ns > start + min(limits.SCHEDULE_LATE_NS, following - due if place < count - 1 else limits.SCHEDULE_LATE_NS)
        for place, (due, start, following) in enumerate(zip(found, starts[:count], nexts, strict=False))
    ]
    on_time = tuple(due for due, missed in zip(found, late, strict=False) if not missed)
    missed = tuple(due for due, missed in zip(found, late, strict=False) if missed)
    if everything:
        return Ripe(on_time, missed, cut, found[count - 1])
    kept = missed[-1:] if plan.catch_up == "latest" and not on_time else ()
    return Ripe(on_time, kept, cut or len(missed) > len(kept), found[count - 1])


def _latest(plan: Recurrence, calendar: Calendar, after_ns: int, now_ns: int, count_max: int) -> tuple[list[int], bool]:
    """The latest due times, at most so many, and whether there were more. Long ago is not looked at in vain: a window
    that ends now is doubled until it holds enough."""
    every = plan.every_ns
    if every is not None:
        count = max(0, (now_ns - after_ns) // every)
        return [after_ns + k * every for k in range(max(1, count - count_max + 1), count + 1)], count > count_max
    window_ns = _WINDOW_NS
    while True:
        start_ns = max(after_ns, now_ns - window_ns)
        found = []
        due = plan.next_ns(calendar, start_ns)
        while due is not None and due <= now_ns:
            found.append(due)
            due = plan.next_ns(calendar, due)
        if start_ns == after_ns or len(found) > count_max:
            return found[-count_max:], len(found) > count_max
        window_ns *= 2


def _is_text(value: object) -> bool:
    return isinstance(value, str) and value != ""
