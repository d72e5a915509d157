"""Unique and debounced calls through the face: what is refused, what counts as the same, and what the handles give."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from runtime import Flow, NodeState, Runtime
from runtime.errors import CallerError, ConfigurationError, TaskCancelled, TaskFailed
from runtime.idempotency import KEY_BYTES_MAX, Key
from runtime.once import LONGEST_S, Debounce, Unique, once_of
from tests.unit.runtime.handlers import add_one, any_keyword, echo

S = 1_000_000_000


def test_what_a_call_may_ask_for() -> None:
    assert once_of({"unique": True}) == Unique(None)
    assert once_of({"unique": "k"}) == Unique("k")
    assert once_of({"unique": False}) is once_of({"unique": None}) is once_of({"debounce": None}) is None
    assert once_of({"unique": False, "idempotency_key": "a", "idempotency_window": 1}) == Key("a", S)
    assert once_of({"debounce": 1.5}) == Debounce(1_500_000_000, None, int(LONGEST_S) * S)
    assert once_of({"debounce": 2 * LONGEST_S}) == Debounce(2 * int(LONGEST_S) * S, None, 2 * int(LONGEST_S) * S)
    assert once_of({"debounce": 1, "debounce_key": "k", "debounce_max": 3}) == Debounce(S, "k", 3 * S)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"unique": ""}, "unique must be"),
        ({"unique": 5}, "unique must be"),
        ({"unique": "x" * (KEY_BYTES_MAX + 1)}, "unique must be"),
        ({"debounce": 0}, "debounce must be"),
        ({"debounce": True}, "debounce must be"),
        ({"debounce": math.nan}, "debounce must be"),
        ({"debounce": 1, "debounce_key": ""}, "debounce_key must be"),
        ({"debounce": 2, "debounce_max": 1}, "debounce_max must be 2 to"),
        ({"debounce_key": "a", "debounce_max": 1}, "debounce_key needs debounce; debounce_max needs debounce"),
        ({"debounce": 1, "unique": True}, "unique and debounce exclude each other"),
        (
            {"idempotency_key": "", "unique": 0.5, "debounce": -1},
            "idempotency_key must .* exclude .* unique .* debounce",
        ),
    ],
)
def test_what_makes_no_sense_is_refused_with_all_that_is_wrong(options: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        once_of(options)


def test_while_one_waits_there_is_no_other(rt: Runtime) -> None:
    rt.pause("type:default")
    first = rt.submit(echo, [1], unique=True)
    same = rt.submit(echo, [1], unique=True, priority="low")
    soon = rt.submit_nowait(echo, [1], unique=True)
    others = [rt.submit(echo, [2], unique=True), rt.submit(echo, [1], unique="k"), rt.submit(echo, [1])]
    assert rt.submit(add_one, 5, unique="k").run_id == others[1].run_id
    rt.resume("type:default")
    assert first.result(10) == same.result(10) == soon.result(10) == [1]
    assert first.run_id == same.run_id == soon.run_id
    assert len({first.run_id, *(other.run_id for other in others)}) == 4
    again = rt.submit(echo, [1], unique=True)
    assert again.run_id != first.run_id
    assert again.result(10) == [1]


def test_large_values_are_told_apart_by_their_content(rt: Runtime) -> None:
    rt.pause("type:default")
    array = np.arange(100_000)
    first = rt.submit(echo, array, unique=True)
    same = rt.submit(echo, array.copy(), unique=True)
    other = rt.submit(echo, array + 1, unique=True)
    assert first.run_id == same.run_id != other.run_id
    rt.resume("type:default")
    assert (same.result(10) == array).all()
    assert (other.result(10) == array + 1).all()


def test_a_unique_task_has_times_and_its_end_is_that_of_all_its_handles(rt: Runtime) -> None:
    first = rt.submit(add_one, 1, unique=True, delay=1000, deadline=2000)
    same = rt.submit(add_one, 1, unique=True)
    assert same.status().state == NodeState.BACKOFF
    assert "it must have ended in" in same.why()
    assert same.cancel()
    for handle in (first, same):
        with pytest.raises(TaskCancelled):
            handle.result(10)
    assert rt.submit(add_one, 1, unique=True).result(10) == 2


def test_calls_that_come_soon_after_each_other_are_one(rt: Runtime) -> None:
    handles = [rt.submit(echo, number, debounce=0.2) for number in range(3)]
    other = rt.submit(echo, "other", debounce=0.2, debounce_key="k")
    named = rt.submit_nowait(add_one, 1, debounce=0.2, debounce_key="k")
    assert "it waits until nobody has called for 0.200 s, 3 calls so far" in handles[0].why()
    assert [handle.result(10) for handle in handles] == [2, 2, 2]
    assert [other.result(10), named.result(10)] == [2, 2]
    assert len({handle.run_id for handle in handles}) == 1
    anew = rt.submit(echo, 5, debounce=0.01)
    assert anew.run_id != handles[0].run_id
    assert anew.result(10) == 5


def test_a_failure_is_that_of_all_callers(rt: Runtime) -> None:
    for handle in [rt.submit(add_one, "x", debounce=0.1) for _ in range(2)]:
        with pytest.raises(TaskFailed, match="TypeError"):
            handle.result(10)


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"delay": 1}, "excludes delay and due"),
        ({"expires": 2}, "before it is due"),
        ({"deadline": 5}, "before it is due"),
        ({"run_id": "a"}, "exclude each other"),
        ({"unique": True}, "exclude each other"),
    ],
)
def test_what_a_debounced_call_cannot_have(rt: Runtime, more: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        rt.submit(add_one, 1, debounce=5, **more)


def test_a_debounced_call_may_have_large_values(rt: Runtime) -> None:
    calls = [rt.submit(echo, letter * 300_000, debounce=0.2) for letter in "abc"]
    assert [call.result(10)[0] for call in calls] == ["c"] * 3


def test_where_they_are_no_options(rt: Runtime) -> None:
    assert rt.submit(any_keyword, unique=True, debounce=5).result(10) == {"unique": True, "debounce": 5}
    flow = Flow("f")
    flow.add(add_one, 1)
    with pytest.raises(CallerError, match="takes no arguments but run_id"):
        rt.submit(flow, unique=True)  # type: ignore[call-overload]
