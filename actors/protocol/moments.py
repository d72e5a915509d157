"""A time of the wall clock in words: what stories and reasons say of when.

Days to dates: Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", civil_from_days. Here because what decides
imports no clock, and the standard library's dates come with one.
"""

from __future__ import annotations

from typing import Final

NS_PER_S: Final = 1_000_000_000
_S_PER_DAY = 86_400
_DAYS_TO_EPOCH = 719_468
_DAYS_PER_ERA = 146_097


def moment(wall_ns: int) -> str:
    """Nanoseconds since the epoch as "2026-11-29 21:44:12 UTC", rounded down to the second."""
    days, second = divmod(wall_ns // NS_PER_S, _S_PER_DAY)
    year, month, day = _date(days)
    return f"{year:04}-{month:02}-{day:02} {second // 3600:02}:{second // 60 % 60:02}:{second % 60:02} UTC"


def precise_moment(wall_ns: int) -> str:
    """The same to the hundredth of a second: "2026-11-29 21:44:12.05 UTC"."""
    return f"{moment(wall_ns).removesuffix(' UTC')}.{wall_ns // 10_000_000 % 100:02} UTC"


def stamp(wall_ns: int) -> str:
    """Nanoseconds since the epoch as "20261129T214412Z", or "20261129T214412.5Z": short, exact, and a file's name."""
    seconds, ns = divmod(wall_ns, NS_PER_S)
    days, second = divmod(seconds, _S_PER_DAY)
    year, month, day = _date(days)
    part = f".{ns:09}".rstrip("0") if ns else ""
    return f"{year:04}{month:02}{day:02}T{second // 3600:02}{second // 60 % 60:02}{second % 60:02}{part}Z"


def _date(days: int) -> tuple[int, int, int]:
    """Year, month and day of a day, counted from 1970-01-01."""
    era, day_of_era = divmod(days + _DAYS_TO_EPOCH, _DAYS_PER_ERA)
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    march_month = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * march_month + 2) // 5 + 1
    month = march_month + 3 if march_month < 10 else march_month - 9
    return year_of_era + 400 * era + (month <= 2), month, day
