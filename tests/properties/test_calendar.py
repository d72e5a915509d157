"""Cron expressions in zones against a slow oracle, which walks from minute to minute and asks each one.

The oracle knows no cron library: a field is the set of its values, and the rule for daylight saving is written down
once more, for jobs at fixed times over the minutes of local time, for others over those that really pass.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.host.calendar import ZoneCalendar

ZONES = ("Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Pacific/Chatham", "Asia/Kolkata", "UTC")
MINUTE = timedelta(minutes=1)
DAYS = 1
YEARS = (2024, 2026)


class Field(NamedTuple):
    """A field of an expression, as it is written and as a set."""

    text: str
    values: frozenset[int]

    @property
    def free(self) -> bool:
        return self.text.startswith("*")


@st.composite
def fields(draw: Any, low: int, high: int, *, free: bool = True) -> Field:
    everything = frozenset(range(low, high + 1))
    what = draw(st.sampled_from(("one", "list", "range", *(("all", "step") if free else ()))))
    if what == "all":
        return Field("*", everything)
    if what == "step":
        step = draw(st.integers(1, 20))
        return Field(f"*/{step}", frozenset(sorted(everything)[::step]))
    if what == "range":
        first = draw(st.integers(low, high))
        last = draw(st.integers(first, high))
        return Field(f"{first}-{last}", frozenset(range(first, last + 1)))
    values = draw(st.sets(st.integers(low, high), min_size=1, max_size=1 if what == "one" else 4))
    return Field(",".join(map(str, sorted(values))), frozenset(values))


class Expression(NamedTuple):
    """Five fields."""

    minute: Field
    hour: Field
    day: Field
    month: Field
    weekday: Field

    @property
    def text(self) -> str:
        return " ".join(field.text for field in self)

    def matches(self, local: datetime) -> bool:
        day = local.day in self.day.values
        weekday = local.isoweekday() % 7 in self.weekday.values
        both = self.day.free or self.weekday.free
        return (
            local.minute in self.minute.values
            and local.hour in self.hour.values
            and local.month in self.month.values
            and ((day and weekday) if both else (day or weekday))
        )


def changes(zone: str) -> list[datetime]:
    """Hours before the zone's offset changes, in the years that are looked at; some others where it never does."""
    place, found = ZoneInfo(zone), []
    for year in YEARS:
        hour = datetime(year, 1, 1, tzinfo=UTC)
        while hour.year == year:
            following = hour + timedelta(hours=1)
            if hour.astimezone(place).utcoffset() != following.astimezone(place).utcoffset():
                found.append(hour)
            hour = following
    return found or [datetime(year, month, 28, tzinfo=UTC) for year in YEARS for month in (2, 6, 12)]


CHANGES = {zone: changes(zone) for zone in ZONES}


def exists(local: datetime, place: ZoneInfo) -> bool:
    aware = local.replace(tzinfo=place)
    return aware.astimezone(UTC).astimezone(place).replace(tzinfo=None) == local


def slow(expression: Expression, zone: str, start: datetime, end: datetime) -> list[datetime]:
    """Every due time after start, to end."""
    return (
        sorted(set(_fixed(expression, ZoneInfo(zone), start, end)))
        if _is_fixed(expression)
        else list(_repeated(expression, ZoneInfo(zone), start, end))
    )


def _is_fixed(expression: Expression) -> bool:
    return not expression.minute.free and not expression.hour.free


def _repeated(expression: Expression, place: ZoneInfo, start: datetime, end: datetime) -> Iterator[datetime]:
    moment = start.replace(second=0, microsecond=0) + MINUTE
    while moment <= end:
        if expression.matches(moment.astimezone(place).replace(tzinfo=None, fold=0)):
            yield moment
        moment += MINUTE


def _fixed(expression: Expression, place: ZoneInfo, start: datetime, end: datetime) -> Iterator[datetime]:
    local = start.astimezone(place).replace(tzinfo=None, fold=0, second=0, microsecond=0) - timedelta(hours=3)
    last = end.astimezone(place).replace(tzinfo=None, fold=0) + timedelta(hours=3)
    while local <= last:
        if expression.matches(local):
            there = local
            while not exists(there, place):
                there += MINUTE
            instant = there.replace(tzinfo=place).astimezone(UTC)
            if start < instant <= end:
                yield instant
        local += MINUTE


def quick(text: str, zone: str, start: datetime, end: datetime) -> list[datetime]:
    calendar, found = ZoneCalendar(), []
    due = calendar.next_ns(text, zone, _ns(start))
    while due is not None and due <= _ns(end):
        found.append(datetime.fromtimestamp(due / 1e9, UTC))
        due = calendar.next_ns(text, zone, due)
    return found


def _ns(moment: datetime) -> int:
    return int(moment.timestamp()) * 1_000_000_000


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(
    zone=st.sampled_from(ZONES),
    which=st.integers(0, 100),
    minutes=st.integers(-DAYS * 1440, 120),
    expression=st.builds(
        Expression,
        fields(0, 59),
        st.one_of(fields(0, 23), fields(1, 3, free=False)),
        st.one_of(st.just(Field("*", frozenset(range(1, 32)))), fields(1, 31)),
        st.one_of(st.just(Field("*", frozenset(range(1, 13)))), fields(1, 12)),
        st.one_of(st.just(Field("*", frozenset(range(7)))), fields(0, 6)),
    ),
)
def test_it_agrees_with_walking_from_minute_to_minute(
    zone: str, which: int, minutes: int, expression: Expression
) -> None:
    around = CHANGES[zone]
    start = around[which % len(around)] + minutes * MINUTE
    end = start + timedelta(days=DAYS)
    assert quick(expression.text, zone, start, end) == slow(expression, zone, start, end), expression.text


def test_the_oracle_finds_both_nights() -> None:
    every_half_past_two = Expression(
        Field("30", frozenset({30})),
        Field("2", frozenset({2})),
        Field("*", frozenset(range(1, 32))),
        Field("*", frozenset(range(1, 13))),
        Field("*", frozenset(range(7))),
    )
    for day, hour, minute in ((datetime(2026, 3, 29, tzinfo=UTC), 1, 0), (datetime(2026, 10, 25, tzinfo=UTC), 0, 30)):
        found = slow(every_half_past_two, "Europe/Berlin", day - timedelta(hours=2), day + timedelta(hours=20))
        assert found == [day.replace(hour=hour, minute=minute)]
