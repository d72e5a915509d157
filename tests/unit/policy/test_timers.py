"""Timers: order, moving, bounds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

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


@given(st.lists(st.tuples(st.sampled_from(("set", "cancel", "pop")), st.integers(0, 5), st.integers(-3, 9))))
def test_timers_do_as_a_sorted_list_does(steps: list[tuple[str, int, int]]) -> None:
    timers: Timers[int] = Timers()
    slow: list[tuple[int, int]] = []  # (due, key), in the order in which they were armed
    for what, key, ns in steps:
        armed = [entry for entry in slow if entry[1] == key]
        if what == "pop":
            due = sorted((entry for entry in slow if entry[0] <= ns), key=lambda entry: entry[0])[:key]
            assert timers.pop_due(ns, count_max=key) == [found for _, found in due]
            slow = [entry for entry in slow if entry not in due]
        else:
            slow = [entry for entry in slow if entry[1] != key]
            if what == "set":
                timers.set(key, ns)
                slow.append((ns, key))
            else:
                assert timers.cancel(key) is bool(armed)
        assert len(timers) == len(slow)
        assert timers.next_ns() == min((entry[0] for entry in slow), default=None)
        assert [timers.due_ns(found) for _, found in slow] == [entry[0] for entry in slow]
