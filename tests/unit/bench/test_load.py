"""Paced tasks: how they are timed, on a clock and a submitter that are made up."""

from __future__ import annotations

import time
from typing import Any

import pytest

from runtime.bench import load
from runtime.bench.figures import BenchError


class Slow:
    """Answers with one more than the last argument, after the time that it is told; the clock is its own."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *takes_ns: int) -> None:
        self.now_ns, self.takes_ns, self.answer = 0, list(takes_ns), 1
        monkeypatch.setattr(time, "perf_counter_ns", lambda: self.now_ns)
        monkeypatch.setattr(time, "sleep", self.pass_time)

    def pass_time(self, seconds: float) -> None:
        self.now_ns += round(seconds * 1e9)

    def submit(self, fn: Any, *args: int) -> Any:
        self.now_ns += self.takes_ns.pop(0)
        self.args = args
        return self

    def result(self, timeout: float) -> int:
        return self.args[-1] + self.answer


def times_of(slow: Slow) -> list[int]:
    count = len(slow.takes_ns)
    submitter: Any = slow
    return load.paced(submitter, lambda value: value, [], lambda due_ns: due_ns < count * load.PACE_NS)


def test_quick_ones_are_timed_from_when_they_are_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    assert times_of(Slow(monkeypatch, 5, 6, 7)) == [5, 6, 7]


def test_those_that_a_slow_one_holds_up_are_timed_from_when_they_were_due(monkeypatch: pytest.MonkeyPatch) -> None:
    pace = load.PACE_NS
    assert times_of(Slow(monkeypatch, 3 * pace, 0, 0, 0)) == [3 * pace, 2 * pace, pace, 0]


def test_a_wrong_result_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Slow(monkeypatch, 1)
    slow.answer = 2
    with pytest.raises(BenchError, match="paced tasks"):
        times_of(slow)
