"""Times as people say them, and as nanoseconds."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from runtime.units import EPOCH, any_to_ns, datetime_to_ns, seconds_to_ns


def test_seconds_become_whole_nanoseconds() -> None:
    assert seconds_to_ns(1.5) == 1_500_000_000
    assert seconds_to_ns(None) is None
    assert any_to_ns(0.1 + 0.2) == 300_000_000


@pytest.mark.parametrize("value", [None, True, "5", 1e300, math.inf, -math.inf])
def test_what_is_no_number_of_seconds_stays_as_it_is(value: Any) -> None:
    assert any_to_ns(value) is value


@pytest.mark.parametrize("value", [10**13, -(10**13), 10**400])
def test_a_whole_number_that_is_too_long_is_not_taken_for_nanoseconds(value: int) -> None:
    assert any_to_ns(value) == math.inf


def test_a_datetime_is_exact_to_the_microsecond_in_any_zone() -> None:
    assert datetime_to_ns(EPOCH) == 0
    when = datetime(2026, 11, 29, 21, 44, 12, 345_678, tzinfo=UTC)
    assert datetime_to_ns(when) % 1_000_000_000 == 345_678_000
    assert datetime_to_ns(when.astimezone(timezone(timedelta(hours=5, minutes=45)))) == datetime_to_ns(when)
