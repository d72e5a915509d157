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
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Final

from actors.protocol.errors import ConfigurationError

MACROS: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
ZONES_KEPT: Final = 600
"""All that there are."""
_NS_PER_S: Final = 1_000_000_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


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
        from cronsim import CronSim, CronSimError  # lazy: most engines have no schedules

        place = zone_of(zone)
        text = MACROS.get(expression.strip().lower(), expression)
        try:
            after = (_EPOCH + timedelta(seconds=after_ns // _NS_PER_S)).astimezone(place)
            for found in CronSim(text, after):
                due_ns = int((found - _EPOCH) / timedelta(seconds=1)) * _NS_PER_S
                if due_ns > after_ns:  # the first coming of an hour may be over
                    return due_ns
        except CronSimError as wrong:
            raise ConfigurationError(f"schedule: cron {expression!a:.220} cannot be read: {wrong}") from wrong
        except OverflowError:
            return None
        return None


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
