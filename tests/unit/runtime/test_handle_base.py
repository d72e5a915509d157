"""What the handles of both faces share."""

from __future__ import annotations

from itertools import islice

import pytest

from runtime import handle_base
from runtime.handle_base import POLL_MAX_S, POLL_S, poll_intervals_s


def test_a_run_of_another_session_is_looked_at_less_and_less_often() -> None:
    intervals = list(islice(poll_intervals_s(None), 8))
    assert intervals[:3] == [POLL_S, 2 * POLL_S, 4 * POLL_S]
    assert intervals[-2:] == [POLL_MAX_S, POLL_MAX_S]


def test_looking_ends_with_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(handle_base.time, "monotonic", lambda: now)
    waited = []
    for interval in poll_intervals_s(1.0):
        waited.append(interval)
        now += interval
    assert sum(waited) == pytest.approx(1.0)
    assert waited[-1] < waited[-2], "the last wait is what is left"
    assert list(poll_intervals_s(0.0)) == []
