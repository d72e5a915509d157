"""Runs are counted from the log: those that end, how, and those that are late before they end."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from actors.event_kinds import Event
from actors.protocol.event_errors import CursorTooOld
from runtime.profile.monitor import meters
from runtime.profile.monitor.meters import RunMeter

S = 1_000_000_000


class Log:
    """Events that come when a test wants them, and a clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 100.0
        self._events: list[Event | Exception] = []
        self.closed = 0
        monkeypatch.setattr(meters.time, "time_ns", lambda: int(self.now_s * S))

    def say(self, at_s: float, kind: str, *runs: str) -> None:
        self._events += [Event(1, 0, int(at_s * S), f"run.{kind}", run) for run in runs]

    def read(self) -> Iterable[Event]:
        found, self._events = self._events, []
        for one in found:
            if isinstance(one, Exception):
                raise one
        return found  # type: ignore[return-value]

    def fail(self, error: Exception) -> None:
        self._events.append(error)

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Log:
    made = Log(monkeypatch)
    monkeypatch.setattr(RunMeter, "_begun", lambda self: made)
    return made


def test_ends_are_good_or_bad_and_those_cancelled_are_neither(log: Log) -> None:
    meter = RunMeter("state", within=2.0)
    log.say(99.0, "submitted", "good", "slow", "failed", "cancelled")
    log.say(100.0, "succeeded", "good", "of-before")
    log.say(100.0, "failed", "failed")
    log.say(100.0, "cancelled", "cancelled")
    assert meter() == (2, 1)
    log.say(101.5, "succeeded", "slow")
    log.now_s = 102.0
    assert meter() == (3, 2)


def test_what_is_late_is_bad_at_once_and_once(log: Log) -> None:
    meter = RunMeter("state", within=2.0)
    log.say(99.0, "submitted", "a", "b")
    log.say(100.5, "submitted", "c")
    assert meter() == (0, 0)
    log.now_s = 101.5
    assert meter() == (2, 2)
    log.say(102.0, "succeeded", "a", "c")
    assert meter() == (3, 2)


def test_without_a_time_only_failures_are_bad(log: Log) -> None:
    meter = RunMeter("state")
    log.say(1.0, "submitted", "a", "b")
    log.say(99.0, "succeeded", "a")
    log.say(99.0, "failed", "b")
    assert meter() == (2, 1)


def test_a_log_that_was_cut_begins_anew(log: Log) -> None:
    meter = RunMeter("state")
    log.say(1.0, "submitted", "a")
    meter()
    log.fail(CursorTooOld("gone", 9))
    assert meter() == (0, 0)
    assert log.closed == 1
    log.say(99.0, "succeeded", "a")
    assert meter() == (0, 0), "it was submitted before"
    meter.close()
    meter.close()
    assert log.closed == 2


def test_no_more_are_followed_than_there_is_room_for(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meters, "OPEN_MAX", 2)
    meter: Any = RunMeter("state")
    log.say(1.0, "submitted", "a", "b", "c")
    log.say(2.0, "succeeded", "a", "b", "c")
    assert meter() == (2, 0)
