"""Times of the wall clock in words: as the standard library's dates say."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.protocol.moments import moment

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@given(st.datetimes(min_value=datetime(1, 1, 1), max_value=datetime(9999, 12, 31), timezones=st.just(UTC)))
def test_every_second_reads_as_the_standard_library_has_it(when: datetime) -> None:
    ns = (when - EPOCH) // timedelta(microseconds=1) * 1000
    assert moment(ns) == f"{when.replace(microsecond=0):%H:%M:%S UTC}".join((f"{when.date().isoformat()} ", ""))


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "1970-01-01 00:00:00 UTC"), (951_782_400, "2000-02-29 00:00:00 UTC"), (-1, "1969-12-31 23:59:59 UTC")],
)
def test_known_moments(seconds: int, text: str) -> None:
    assert moment(seconds * 1_000_000_000 + 999_999_999) == text
