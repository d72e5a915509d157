"""Keywords that are options of submit, and those that a node of a flow cannot have."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from runtime import Flow, Runtime
from runtime.errors import ConfigurationError
from runtime.keywords import SUBMIT_OPTIONS, options_for, refuse_options_of_nodes
from runtime.registry import Task
from tests.unit.runtime.handlers import add_one, any_keyword, wait_for


def named(unique: bool, prority: int = 0) -> tuple[bool, int]:
    return unique, prority


def test_a_parameter_of_its_own_is_no_option() -> None:
    assert options_for(wait_for) == options_for(Task(wait_for)) == SUBMIT_OPTIONS - {"timeout", "priority"}
    assert options_for(any_keyword) == frozenset()
    assert options_for(add_one) == SUBMIT_OPTIONS


@pytest.mark.parametrize(
    ("keyword", "hint"),
    [
        ("unique", "unique= is an option of submit, which a node of a flow cannot have"),
        ("deadline", "deadline= is an option of submit"),
        ("run_id", "run_id= is an option of submit"),
        ("priority", "priority= is an option, which comes with task.options(priority=...)"),
        ("retry", "retry= is an option, which comes with task.options(retry=...)"),
        ("prority", "prority= looks like the option priority="),
        ("retries", "retries= looks like the option retry="),
        ("afer", "afer= looks like the option after="),
    ],
)
@pytest.mark.parametrize("fn", [add_one, Task(add_one)])
def test_a_node_is_not_given_what_looks_like_an_option(fn: Callable[..., Any], keyword: str, hint: str) -> None:
    for add in (partial(Flow().add, fn), lambda **given: Flow().add(partial(fn, **given))):
        with pytest.raises(ConfigurationError) as refused:
            add(**{"x": 1, keyword: 2})
        assert f"add_one takes no such argument: {hint}" in refused.value.message


@pytest.mark.parametrize(
    ("keyword", "hint"),
    [
        ("idempotency_kye", "idempotency_kye= looks like the option idempotency_key="),
        ("prority", "prority= looks like the option priority="),
        ("node_type", "node_type= is an option, which comes with task.options(node_type=...) or rt.options("),
    ],
)
def test_submit_does_not_take_what_looks_like_an_option_for_an_argument(rt: Runtime, keyword: str, hint: str) -> None:
    for fn in (add_one, Task(add_one), partial(add_one)):
        with pytest.raises(ConfigurationError) as refused:
            rt.submit(fn, 1, **{keyword: 2})
        assert f"add_one takes no such argument: {hint}" in refused.value.message


def test_all_of_them_are_named() -> None:
    with pytest.raises(ConfigurationError, match=r"prority= .*; unique= "):
        Flow().add(add_one, 1, unique=True, prority="low")


def test_what_the_handler_takes_is_its_own() -> None:
    flow = Flow()
    flow.add(named, unique=True, prority=3)
    flow.add(any_keyword, unique=True, prority=3)
    flow.add(wait_for, timeout=1.0, priority="low")
    assert len(flow) == 3


def test_one_look_at_a_function_is_not_all() -> None:
    flow = Flow()
    flow.add(add_one, x=1)
    with pytest.raises(ConfigurationError, match="unique="):
        flow.add(add_one, x=1, unique=True)
    assert len(flow) == 1


def test_a_word_that_is_like_no_option_goes_to_the_handler() -> None:
    Flow().add(add_one, 1, zebra=2)


def test_of_a_function_that_does_not_say_what_it_takes_nothing_is_refused() -> None:
    refuse_options_of_nodes(int, ["unique"])
