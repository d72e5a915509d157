"""Calls seen from the handler: what has ended is there at once, what has not is asked for, once."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest

from actors.protocol.control_signals import WaitsForCalls
from actors.protocol.errors import GraphError, PayloadError, TaskFailed
from actors.protocol.states import NodeState
from runtime.call_book import STRAY_MAX, Asked, CallBook, is_waiting
from runtime.mail.codec import Codec
from tests.unit.runtime.handlers import add_one, echo, total

FAILURE = {"kind": "error", "type": "builtins.ValueError", "message": "no", "traceback": ""}


def book(*earlier: Any) -> CallBook:
    return CallBook(Codec(), earlier, "calls")


def digest_of(fn: Any, *args: Any, **kwargs: Any) -> str:
    asked = book()
    asked.ask(fn, args, kwargs)
    (digest,) = asked.block(lambda flow: {})["calls"]
    return str(digest)


def ended(fn: Any, *args: Any, value: Any = 0, state: NodeState = NodeState.SUCCEEDED) -> list[Any]:
    return [digest_of(fn, *args), int(state), value]


def test_what_has_not_ended_is_waited_for_by_a_signal_that_is_no_exception() -> None:
    calls = book()
    asked = calls.ask(add_one, (1,), {})
    assert (asked.ended, calls.waiting) == (False, 1)
    with pytest.raises(WaitsForCalls, match="add_one"):
        asked.result()
    assert not issubclass(WaitsForCalls, Exception)


def test_what_has_ended_is_there_at_once_and_is_not_asked_for_again() -> None:
    calls = book(ended(add_one, 1, value=2))
    asked = calls.ask(add_one, (1,), {})
    assert (asked.ended, asked.result(), calls.waiting) == (True, 2, 0)

    async def awaited() -> Any:
        return await asked

    assert asyncio.run(awaited()) == 2


def test_calls_are_known_by_function_and_arguments_and_equal_ones_by_their_order() -> None:
    calls = book(ended(echo, 1, value="a"), ended(echo, 2, value="b"), ended(echo, 1, value="c"))
    found: list[Asked[Any]] = [calls.ask(echo, (number,), {}) for number in (2, 1, 1, 1)]
    assert [one.result() for one in found[:3]] == ["b", "a", "c"]
    assert not found[3].ended
    assert not calls.ask(add_one, (2,), {}).ended


def test_keywords_and_partials_are_arguments() -> None:
    assert digest_of(partial(total, 1), 2) == digest_of(total, 1, 2) != digest_of(total, 2, 1)
    assert digest_of(total, 1, a=2) == digest_of(partial(total, a=2), 1) != digest_of(total, 1, a=3)


@pytest.mark.parametrize("state", [NodeState.FAILED, NodeState.CANCELLED, NodeState.SKIPPED])
def test_what_ended_without_success_is_raised(state: NodeState) -> None:
    for failure in (FAILURE, None):
        asked = book(ended(echo, 1, value=failure, state=state)).ask(echo, (1,), {})
        with pytest.raises(TaskFailed):
            asked.result()


def test_a_handler_that_makes_other_calls_each_time_is_refused() -> None:
    calls = book(*(ended(echo, number) for number in range(STRAY_MAX)))
    calls.ask(echo, ("another",), {})
    with pytest.raises(GraphError, match="16 calls that this task made before it did not make again"):
        calls.block(lambda flow: {})


def test_a_few_that_are_not_made_again_do_no_harm() -> None:
    calls = book(*(ended(echo, number) for number in range(STRAY_MAX - 1)))
    calls.ask(echo, ("another",), {})
    assert calls.block(lambda flow: {"n": len(flow)}) == {"n": 1, "calls": [digest_of(echo, "another")]}


def test_what_cannot_be_called_is_refused_where_it_is_asked_for() -> None:
    calls = book()
    with pytest.raises(PayloadError):
        calls.ask(echo, (object(),), {})
    with pytest.raises(GraphError, match="by position"):
        calls.ask(total, (), {"after": 1})
    assert calls.waiting == 0


def test_task_groups_wait_when_all_of_their_tasks_do() -> None:
    waits = WaitsForCalls()
    assert is_waiting(waits)
    assert is_waiting(BaseExceptionGroup("tasks", [waits, BaseExceptionGroup("more", [waits])]))
    assert not is_waiting(BaseExceptionGroup("tasks", [waits, ValueError()]))
    assert not is_waiting(ValueError())
