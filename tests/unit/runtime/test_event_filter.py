"""Filters of events: patterns find kinds, runs and names; what cannot be meant is refused, all of it at once."""

from __future__ import annotations

from datetime import UTC, datetime
from fnmatch import fnmatchcase
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.event_kinds import EVENT_KINDS, Event
from actors.protocol import limits
from actors.protocol.errors import ConfigurationError
from runtime.event_filter import check_since, filter_of, moment_ns


def event(run: str | None = "r", name: str = "n") -> Event:
    return Event(1, 0, 0, "run.submitted", run, None, "", name)


def test_patterns_of_kinds() -> None:
    assert filter_of().kinds == frozenset(EVENT_KINDS)
    assert filter_of("*.failed").kinds == {"node.failed", "run.failed"}
    assert filter_of(["run.failed", "engine.*"]).kinds == {"run.failed", "engine.opened"}


def test_runs_and_names() -> None:
    handle = SimpleNamespace(run_id="a-1")
    matches = filter_of(run=[handle, "b*"], name="et?").matcher()
    assert matches(event("a-1", "etl"))
    assert matches(event("bcd", "etc"))
    assert not matches(event("a-2", "etl"))
    assert not matches(event("a-1", "other"))
    assert not matches(event(None, "etl"))


@pytest.mark.slow
@given(st.text("ab*?[]!-", min_size=1, max_size=8), st.text("ab-", max_size=6))
def test_patterns_mean_what_they_mean_to_a_shell(pattern: str, text: str) -> None:
    try:
        matches = filter_of(name=pattern).matcher()
    except ConfigurationError:
        assert "[" in pattern
        return
    assert matches(event(name=text)) == fnmatchcase(text, pattern)


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ({"kinds": "node.exploded"}, "no kind of event"),
        ({"kinds": []}, "kinds: patterns"),
        ({"kinds": ""}, "kinds: patterns"),
        ({"kinds": [7]}, "kinds: patterns"),
        ({"kinds": 7}, "kinds: patterns"),
        ({"name": True}, "name: patterns"),
        ({"kinds": "node.[x"}, r"\[ without"),
        ({"run": "["}, r"run: .* \[ without"),
        ({"run": 7}, "run: patterns"),
        ({"name": "x" * (limits.EVENT_PATTERN_CHARS_MAX + 1)}, "longer than"),
        ({"name": ["x"] * (limits.EVENT_PATTERNS_MAX + 1)}, "at most"),
        ({"kinds": "nothing", "run": "["}, r"no kind of event.*; run"),
    ],
)
def test_what_cannot_be_meant_is_refused(wanted: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        filter_of(**wanted)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "since",
    ["later", 0, -1, True, None, datetime(2026, 1, 1), 1 << 63, float("nan"), float("inf"), -float("inf"), 1e18],
)
def test_places_that_are_none(since: object) -> None:
    with pytest.raises(ConfigurationError):
        check_since(since)  # type: ignore[arg-type]


def test_a_moment_as_text_is_told_how_to_be_one() -> None:
    with pytest.raises(ConfigurationError, match="a moment is a datetime with a time zone"):
        check_since("2026-11-30T09:00:00Z")


def test_moments() -> None:
    assert moment_ns(1.5) == 1_500_000_000
    assert moment_ns(datetime(1970, 1, 2, tzinfo=UTC)) == 86_400 * 10**9
    assert [check_since(place) for place in ("begin", "now", 7, 7.0)] == ["begin", "now", 7, 7.0]
