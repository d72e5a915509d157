"""The calendar of this machine: cron expressions by `cronsim`, time zones by `zoneinfo` (and `tzdata` where the system
has none).

Fields are minute, hour, day of month, month and day of week, names and the usual signs included; a sixth one in front
is the second. "@hourly", "@daily" and their kind stand for expressions.

**Daylight saving: the rule of Debian's cron** (a modified Vixie cron).

- A job at fixed times (neither minute nor hour begins with "*") runs once for each of them: what falls into the hour
  that is left out runs right after it; what falls into the hour that comes twice runs at its first coming.
- A job that repeats ("*" in minute or hour, or seconds) follows the time that really passes: nothing for what is left
  out, and again for what comes twice.

So neither is skipped, doubled or late by an hour. What is due is an instant; nothing here is stored.

`cronsim` is asked about local time without a zone only, and the rule is carried out here: with a zone, its repeating
jobs miss minutes, or never come to an end, where clocks change by something else than an hour (Lord Howe, Chatham).
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Final, NamedTuple

from actors.protocol.errors import ConfigurationError
from actors.protocol.moments import NS_PER_S

MACROS: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
YEARS_KEPT: Final = 4096
"""Years of zones whose changes are remembered: all zones for some years."""
ZONES_KEPT: Final = 600
"""All that there are."""
_S_PER_DAY: Final = 86_400
_EPOCH: Final = datetime(1970, 1, 1)  # local time without a zone, as seconds from here
_FIELDS_WITHOUT_SECONDS: Final = 5


class OffsetChange(NamedTuple):
    """Clocks of a zone change: when, in seconds since the epoch, and its offsets before and after in seconds."""

    at: int
    before: int
    after: int


class ZoneCalendar:
    """See the module; an `actors.policy.recurrence.Calendar`."""

    def next_ns(self, expression: str, zone: str, after_ns: int) -> int | None:
        """The first due time after this one.

        Args:
            expression: A cron expression.
            zone: Name of a time zone.
            after_ns: Nanoseconds since the epoch.

        Returns:
            Likewise; None when there is none within fifty years.

        Raises:
            ConfigurationError: The expression or the zone cannot be read.
        """
        text = MACROS.get(expression.strip().lower(), expression)
        place = zone_of(zone)
        find = _next_fixed if is_fixed(text) else _next_repeated
        try:
            found = find(text, place, after_ns // NS_PER_S)
        except (OverflowError, ValueError):  # beyond the last year that has a date
            return None
        return None if found is None else found * NS_PER_S


def is_fixed(text: str) -> bool:
    """Whether a job runs at fixed times, as opposed to repeating.

    Args:
        text: Its expression.
    """
    fields = text.split()
    return len(fields) == _FIELDS_WITHOUT_SECONDS and not fields[0].startswith("*") and not fields[1].startswith("*")


def _next_fixed(text: str, place: Any, after: int) -> int | None:
    """Local times one after the other, each at its first coming, or at the end of the gap in which it lies."""
    for local in _matches(text, after + _offset(place, after)):
        at = _first_coming(place, local)
        if at > after:
            return at
    return None


def _next_repeated(text: str, place: Any, after: int) -> int | None:
    """Through one stretch of time with the same offset after the other."""
    offset = _offset(place, after)
    while True:
        local = next(_matches(text, after + offset), None)
        if local is None:
            return None
        at = local - offset
        change = _next_change(place, after, at)
        if change is None:
            return at
        far = local - offset - 2 * _S_PER_DAY
        if far > change.at and change.at + change.after >= after + offset:
            after, offset = far, _offset(place, far)  # no local time until then is due, and none comes twice
        else:
            after, offset = change.at, change.after
            if next(_matches(text, after + offset - 1), None) == after + offset:
                return after


def _first_coming(place: Any, local: int) -> int:
    """When it is this local time for the first time; the end of the gap when it never is."""
    for at in (local - 2 * _S_PER_DAY, local):
        for change in _changes(place, _year(at)):
            if change.at + change.before <= local < change.at + change.after:
                return change.at
    offset: Any = (_EPOCH + timedelta(seconds=local)).replace(tzinfo=place).utcoffset()
    return local - int(offset / timedelta(seconds=1))


def _next_change(place: Any, after: int, until: int) -> OffsetChange | None:
    """The first change after one moment, until another."""
    for year in range(_year(after), _year(until) + 1):
        for change in _changes(place, year):
            if after < change.at <= until:
                return change
    return None


@lru_cache(maxsize=YEARS_KEPT)
def _changes(place: Any, year: int) -> tuple[OffsetChange, ...]:
    """All changes of a year, found by looking at each day."""
    if place is UTC:
        return ()
    found = []
    first = (datetime(year, 1, 1) - _EPOCH).days * _S_PER_DAY
    last = (datetime(year, 12, 31) - _EPOCH).days * _S_PER_DAY + _S_PER_DAY
    for low in range(first, last, _S_PER_DAY):
        before, after = _offset(place, low), _offset(place, low + _S_PER_DAY)
        high = low + _S_PER_DAY
        while before != after and high - low > 1:
            middle = (low + high) // 2
            if _offset(place, middle) == before:
                low = middle
            else:
                high = middle
        if before != after:
            found.append(OffsetChange(high, before, after))
    return tuple(found)


def _matches(text: str, local: int) -> Iterator[int]:
    """Local times after this one that an expression names. Raises ConfigurationError: it cannot be read."""
    from cronsim import CronSim, CronSimError  # lazy: most engines have no schedules

    try:
        for found in CronSim(text, _EPOCH + timedelta(seconds=local)):
            yield (found - _EPOCH) // timedelta(seconds=1)
    except CronSimError as wrong:
        raise ConfigurationError(f"schedule: cron {text!a:.220} cannot be read: {wrong}") from wrong


def _offset(place: Any, at: int) -> int:
    offset: Any = datetime.fromtimestamp(at, place).utcoffset()
    return int(offset / timedelta(seconds=1))


def _year(at: int) -> int:
    return (_EPOCH + timedelta(seconds=at)).year


@lru_cache(maxsize=ZONES_KEPT)
def zone_of(name: str) -> Any:
    """The time zone of this name.

    Args:
        name: As in the IANA database, such as "Europe/Berlin".

    Raises:
        ConfigurationError: There is none.
    """
    from zoneinfo import ZoneInfo  # lazy: most engines have no schedules

    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as unknown:
        raise ConfigurationError(f"schedule: there is no time zone {name!a:.80}") from unknown
