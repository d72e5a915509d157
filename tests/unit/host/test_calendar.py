"""Both nights of daylight saving in zones of every kind, and what cannot be read."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from actors.protocol.errors import ConfigurationError
from runtime.host.calendar import MACROS, ZoneCalendar

CALENDAR = ZoneCalendar()


def ns(moment: datetime) -> int:
    return int(moment.timestamp()) * 1_000_000_000


def due(expression: str, zone: str, day: str, days: int = 1) -> list[str]:
    """Due times from ten in the morning of the day before (UTC) to the end of so many days, in UTC."""
    start = ns(datetime.fromisoformat(f"{day}T00:00").replace(tzinfo=UTC)) - 14 * 3_600_000_000_000
    end = start + (days * 24 + 14) * 3_600_000_000_000
    found = []
    at = CALENDAR.next_ns(expression, zone, start)
    while at is not None and at <= end:
        found.append(datetime.fromtimestamp(at / 1e9, UTC).strftime("%d %H:%M"))
        at = CALENDAR.next_ns(expression, zone, at)
    return found


@pytest.mark.parametrize(
    ("zone", "expression", "day", "expected"),
    [
        ("Europe/Berlin", "30 2 * * *", "2026-03-29", ["29 01:00"]),
        ("Europe/Berlin", "30 2 * * *", "2026-10-25", ["25 00:30"]),
        ("America/New_York", "30 2 * * *", "2026-03-08", ["08 07:00"]),
        ("America/New_York", "30 1 * * *", "2026-11-01", ["01 05:30"]),
        ("Australia/Lord_Howe", "15 2 * * *", "2026-10-04", ["03 15:30", "04 15:15"]),
        ("Australia/Lord_Howe", "45 1 * * *", "2026-04-05", ["04 14:45", "05 15:15"]),
        ("Pacific/Chatham", "0 3 * * *", "2026-09-27", ["26 14:00", "27 13:15"]),
        ("Pacific/Chatham", "15 3 * * *", "2026-04-05", ["04 13:30", "05 14:30"]),
    ],
)
def test_a_job_at_a_fixed_time_runs_once_in_either_night(
    zone: str, expression: str, day: str, expected: list[str]
) -> None:
    assert due(expression, zone, day) == expected


@pytest.mark.parametrize(
    ("zone", "day"),
    [
        ("Europe/Berlin", "2026-03-29"),
        ("Europe/Berlin", "2026-10-25"),
        ("America/New_York", "2026-03-08"),
        ("America/New_York", "2026-11-01"),
    ],
)
def test_a_job_of_every_hour_runs_every_hour(zone: str, day: str) -> None:
    hours = due("15 * * * *", zone, day)
    assert len(hours) == 38
    assert len(set(hours)) == 38


def test_a_job_that_repeats_within_an_hour_follows_the_time_that_passes() -> None:
    assert due("*/30 2 * * *", "Europe/Berlin", "2026-10-25") == ["25 00:00", "25 00:30", "25 01:00", "25 01:30"]
    assert due("*/30 2 * * *", "Europe/Berlin", "2026-03-29") == ["30 00:00"]


def test_short_names_stand_for_expressions() -> None:
    for name, expression in MACROS.items():
        at = ns(datetime(2026, 6, 1, 12, tzinfo=UTC))
        assert CALENDAR.next_ns(name.upper(), "UTC", at) == CALENDAR.next_ns(expression, "UTC", at)


def test_a_sixth_field_is_the_second_and_what_never_comes_is_none() -> None:
    at = ns(datetime(2026, 6, 1, tzinfo=UTC))
    assert CALENDAR.next_ns("*/10 * * * * *", "Europe/Berlin", at) == at + 10_000_000_000
    assert CALENDAR.next_ns("0 0 29 2 *", "UTC", at) == ns(datetime(2028, 2, 29, tzinfo=UTC))
    assert CALENDAR.next_ns("0 0 29 2 *", "UTC", ns(datetime(9996, 3, 1, tzinfo=UTC))) is None


@pytest.mark.parametrize(
    ("expression", "zone", "why"),
    [
        ("60 * * * *", "UTC", "Bad minute"),
        ("* * * *", "UTC", "Wrong number of fields"),
        ("", "UTC", "Wrong number of fields"),
        ("0 0 30 2 *", "UTC", "Bad day-of-month"),
        ("@reboot", "UTC", "Wrong number of fields"),
        ("* * * * *", "Europe/Nowhere", "no time zone 'Europe/Nowhere'"),
        ("* * * * *", "Europe", "no time zone"),
        ("* * * * *", "../../etc/passwd", "no time zone"),
        ("* * * * *", "", "no time zone"),
    ],
)
def test_what_cannot_be_read_is_refused(expression: str, zone: str, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        CALENDAR.next_ns(expression, zone, 0)
