"""Timers: order, moving, bounds."""

from __future__ import annotations

from actors.policy.timers import Timers


def test_due_ones_come_in_order_of_time() -> None:
    timers: Timers[str] = Timers()
    timers.set("late", 30)
    timers.set("early", 10)
    timers.set("middle", 20)
    assert timers.next_ns() == 10
    assert timers.pop_due(20) == ["early", "middle"]
    assert timers.next_ns() == 30


def test_a_key_has_one_timer_which_can_be_moved_and_cancelled() -> None:
    timers: Timers[str] = Timers()
    timers.set("a", 10)
    timers.set("a", 50)
    assert len(timers) == 1
    assert timers.pop_due(49) == []
    assert timers.due_ns("a") == 50
    assert timers.cancel("a")
    assert not timers.cancel("a")
    assert timers.next_ns() is None


def test_work_per_call_is_bounded() -> None:
    timers: Timers[int] = Timers()
    for key in range(10):
        timers.set(key, 1)
    assert timers.pop_due(1, count_max=4) == [0, 1, 2, 3]
    assert len(timers) == 6
