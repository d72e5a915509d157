"""Idempotency keys: what is refused, what counts as the same call, and what a repeated submission gives."""

from __future__ import annotations

import math
from typing import Any

import pytest

from runtime import Flow, NodeState, Runtime
from runtime.errors import CallerError, ConfigurationError, KeyConflict, TaskCancelled, TaskFailed
from runtime.idempotency import KEY_BYTES_MAX, WINDOW_S, Key, key_of
from tests.unit.runtime.handlers import add_one, any_keyword, echo

S = 1_000_000_000


def test_a_key_counts_for_a_day() -> None:
    assert key_of({"idempotency_key": "a"}) == Key("a", int(WINDOW_S) * S)
    assert key_of({"idempotency_key": "a", "idempotency_window": 0}) == Key("a", 0)
    assert key_of({"idempotency_key": None}) is None
    assert key_of({"idempotency_key": "a", "idempotency_window": 1.5}) == Key("a", 1_500_000_000)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"idempotency_key": ""}, "must be a string"),
        ({"idempotency_key": 5}, "must be a string"),
        ({"idempotency_key": "x" * (KEY_BYTES_MAX + 1)}, "must be a string"),
        ({"idempotency_key": "\ud800"}, "must be a string"),
        ({"idempotency_key": "a", "idempotency_window": -1}, "idempotency_window must be"),
        ({"idempotency_key": "a", "idempotency_window": math.inf}, "idempotency_window must be"),
        ({"idempotency_key": "a", "idempotency_window": True}, "idempotency_window must be"),
        ({"idempotency_key": "a", "idempotency_window": None}, "idempotency_window must be"),
        ({"idempotency_window": 5}, "needs an idempotency_key"),
    ],
)
def test_what_is_out_of_range_is_refused(options: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        key_of(options)


def test_a_claim_tells_handlers_shapes_and_arguments_apart() -> None:
    key = Key("a", 5)
    calls = [
        ("m:f", "one", b"1"),
        ("m:g", "one", b"1"),
        ("m:f", "args", b"1"),
        ("m:f", "one", b"2"),
        ("m:fo", "ne", b"1"),
    ]
    claims = [key.claim(*call) for call in calls]
    assert len({claim[2] for claim in claims}) == len(calls)
    assert claims[0] == key.claim("m:f", "one", b"1")
    assert claims[0][:2] == ["a", 5]


def test_a_repeated_submission_is_the_first_one(rt: Runtime) -> None:
    first = rt.submit(echo, [1], idempotency_key="a")
    again = rt.submit(echo, [1], idempotency_key="a", priority="low")
    late = rt.submit_nowait(echo, [1], idempotency_key="a", timeout=5)
    other = rt.submit(echo, [1], idempotency_key="b")
    assert first.result(10) == again.result(10) == late.result(10) == other.result(10) == [1]
    assert first.run_id == again.run_id == late.run_id != other.run_id
    assert rt.submit(echo, [1], idempotency_key="a").result(10) == [1]
    assert len(list(rt.runs())) == 2


def test_what_is_different_is_refused(rt: Runtime) -> None:
    rt.submit(add_one, 1, idempotency_key="a").result(10)
    with pytest.raises(KeyConflict, match="stands for run"):
        rt.submit(add_one, 2, idempotency_key="a")
    with pytest.raises(KeyConflict):
        rt.submit(echo, 1, idempotency_key="a")
    with pytest.raises(KeyConflict):
        rt.submit_nowait(echo, 1, idempotency_key="a").result(10)


def test_a_failure_and_a_cancel_are_answers(rt: Runtime) -> None:
    first = rt.submit(add_one, "one", idempotency_key="fails")
    again = rt.submit(add_one, "one", idempotency_key="fails")
    for handle in (first, again):
        with pytest.raises(TaskFailed):
            handle.result(10)
    anew = rt.submit(add_one, "one", idempotency_key="fails", idempotency_window=0)
    assert anew.run_id != again.run_id
    waiting = rt.submit(add_one, 1, idempotency_key="waits", delay=1000)
    same = rt.submit(add_one, 1, idempotency_key="waits")
    assert same.status().state == NodeState.BACKOFF
    assert same.cancel()
    for handle in (waiting, same, rt.submit(add_one, 1, idempotency_key="waits")):
        with pytest.raises(TaskCancelled):
            handle.result(10)


def test_large_values_are_told_apart_by_their_content(rt: Runtime) -> None:
    value = "x" * 300_000
    first = rt.submit(echo, value, idempotency_key="a")
    again = rt.submit(echo, value, idempotency_key="a")
    assert first.run_id == again.run_id
    assert first.result(10) == again.result(10) == value
    for other in ("x", value[:-1] + "y"):
        with pytest.raises(KeyConflict):
            rt.submit(echo, other, idempotency_key="a")


def test_equal_values_are_the_same_however_they_are_pickled(rt: Runtime) -> None:
    """A set has another order in another process, and a text that is there twice may be one object or two."""
    pickling = rt.options(payloads="pickle")
    text = "a text, as it is read from somewhere"
    apart = str(text.encode(), "utf-8")
    pairs = [({1, 33, 65}, {65, 33, 1}), ((text, text), (text, apart)), ((b"x" * 300_000, 1), (b"x" * 300_000, 1))]
    for number, (value, equal) in enumerate(pairs):
        first = pickling.submit(echo, value, idempotency_key=f"pickled-{number}")
        assert pickling.submit(echo, equal, idempotency_key=f"pickled-{number}").run_id == first.run_id
    first = pickling.submit(echo, slice(1, 2), idempotency_key="only-pickle")
    assert pickling.submit(echo, slice(1, 2), idempotency_key="only-pickle").run_id == first.run_id
    with pytest.raises(KeyConflict):
        pickling.submit(echo, slice(1, 3), idempotency_key="only-pickle")


def test_where_a_key_is_no_option(rt: Runtime) -> None:
    assert rt.submit(any_keyword, idempotency_key="a").result(10) == {"idempotency_key": "a"}
    with pytest.raises(ConfigurationError, match="exclude each other"):
        rt.submit(add_one, 1, idempotency_key="a", run_id="b")
    flow = Flow("f")
    flow.add(add_one, 1)
    with pytest.raises(CallerError, match="takes no arguments but run_id"):
        rt.submit(flow, idempotency_key="a")  # type: ignore[call-overload]
