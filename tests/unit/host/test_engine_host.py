"""The engine's one timer: it is never later than what is due next, and is not set anew where an earlier one will do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from actors.protocol import effects as fx
from runtime.host import engine_host
from runtime.host.engine_host import EngineHost

MS = 1_000_000


class Timer:
    """A call that is planned; as `asyncio.TimerHandle`."""

    def __init__(self, due_ns: int, call: Callable[[], None]) -> None:
        self.due_ns = due_ns
        self.call = call
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class Sleeper(EngineHost):
    """A host that only sleeps and wakes, on a clock of its own."""

    def __init__(self) -> None:
        self.now_ns = 0
        self.timers: list[Timer] = []
        self.asked = 0
        self._timer: Any = None
        self._wake_ns = self._timer_ns = 0
        self.loop: Any = self

    def monotonic_ns(self) -> int:
        return self.now_ns

    def call_later(self, delay: float, call: Callable[[], None]) -> Timer:
        self.timers.append(Timer(self.now_ns + round(delay * 1e9), call))
        return self.timers[-1]

    def need(self, due_ns: int) -> None:
        """A turn that asks to be woken."""
        self._wake_at(fx.WakeAt(due_ns))
        self._plan_timer()

    def _ask_turn(self) -> None:
        self.asked += 1

    def waits(self) -> list[int]:
        """When timers will fire."""
        return [timer.due_ns for timer in self.timers if not timer.cancelled]

    def fire(self) -> None:
        """The next timer fires, and a turn follows: nothing is needed any more that was due."""
        timer = next(timer for timer in self.timers if not timer.cancelled)
        self.timers.remove(timer)
        self.now_ns = timer.due_ns
        timer.call()
        if self._wake_ns and self.now_ns >= self._wake_ns:
            self._wake_ns = 0
        self._plan_timer()


@pytest.fixture
def sleeper(monkeypatch: pytest.MonkeyPatch) -> Sleeper:
    host = Sleeper()
    monkeypatch.setattr(engine_host, "time", host)
    return host


def test_what_is_due_earlier_replaces_the_timer(sleeper: Sleeper) -> None:
    sleeper.need(9 * MS)
    sleeper.need(4 * MS)
    assert sleeper.waits() == [4 * MS]


def test_a_timer_that_comes_too_early_stays_and_plans_the_next(sleeper: Sleeper) -> None:
    sleeper.need(4 * MS)
    sleeper._wake_ns = 0  # its time came in a turn that had another reason
    sleeper.need(9 * MS)
    assert sleeper.waits() == [4 * MS]
    sleeper.fire()
    assert (sleeper.waits(), sleeper.asked) == ([9 * MS], 1)
    sleeper.fire()
    assert (sleeper.waits(), sleeper.asked) == ([], 2)


def test_nothing_due_sets_no_timer(sleeper: Sleeper) -> None:
    sleeper._plan_timer()
    assert sleeper.waits() == []
