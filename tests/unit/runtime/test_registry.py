"""Tasks: called like their functions, with options that are checked, and the kind that the engine knows them by."""

from __future__ import annotations

import functools
import inspect
import pickle
import sys
from typing import Any

import orjson
import pytest

from actors.protocol.kinds import KindTable
from runtime import TaskContext
from runtime.errors import ConfigurationError, HandlerRefused
from runtime.registry import (
    Retry,
    Task,
    TaskOptions,
    TaskRegistry,
    context_parameter,
    kind_of,
    positional_names,
    split_partial,
)
from tests.unit.runtime import handlers


def test_a_task_is_called_like_its_function() -> None:
    assert handlers.plain_task(21) == 42
    assert handlers.plain_task.__name__ == "plain_task"
    assert handlers.plain_task.__doc__ == "A task without options."
    assert "plain_task" in repr(handlers.plain_task)


def test_options_make_another_task() -> None:
    quick = handlers.full_task.options(timeout=1.0, priority="low")
    assert quick.settings.timeout == 1.0
    assert quick.settings.node_type == "cpu"
    assert handlers.full_task.settings.timeout == 5.0


def test_a_number_is_short_for_a_retry() -> None:
    assert TaskOptions(retry=4).retry == Retry(max_attempts=4)


@pytest.mark.parametrize(
    "options",
    [
        {"node_type": ""},
        {"name": "\ud800"},
        {"name": "x" * 1025},
        {"timeout": 0},
        {"grace": -1},
        {"priority": "urgent"},
        {"trigger": "sometimes"},
        {"payloads": "yaml"},
        {"poison": 0},
        {"colour": "red"},
        {"retry": 0},
        {"tenant": 5},
        {"tenant": "x" * 1025},
        {"tenant": None},
        {"concurrency_key": ""},
        {"rate_key": "\ud800"},
        {"rate_cost": 0},
        {"rate_cost": float("inf")},
        {"rate_cost": True},
    ],
)
def test_bad_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        handlers.plain_task.options(**options)


def test_the_kind_of_a_bare_function_has_the_defaults() -> None:
    kind = kind_of(handlers.add_one, shape="one")
    assert kind == {
        "handler": "tests.unit.runtime.handlers:add_one",
        "name": "add_one",
        "node_type": "default",
        "shape": "one",
        "timeout_ns": None,
        "grace_ns": 500_000_000,
        "retry": Retry(max_attempts=1).to_wire(),
        "poison": 3,
        "priority": "normal",
        "trigger": "all_succeeded",
        "payloads": "json",
        "context": False,
        "context_arg": None,
    }
    assert orjson.loads(orjson.dumps(kind)) == kind


def test_the_kind_of_a_task_has_its_options() -> None:
    kind = kind_of(handlers.full_task)
    assert (kind["name"], kind["node_type"], kind["timeout_ns"]) == ("named", "cpu", 5_000_000_000)
    assert (kind["priority"], kind["retry"]["max_attempts"]) == ("high", 3)
    assert kind_of(handlers.full_task, TaskOptions())["node_type"] == "default"


def test_the_engine_takes_every_kind() -> None:
    table = KindTable()
    for shape in ("one", "args", "call", "parents", "mixed", "template"):
        assert table.intern(kind_of(handlers.full_task, shape=shape)).timeout_ns == 5_000_000_000


def test_a_context_parameter_is_seen_by_its_annotation() -> None:
    kind = kind_of(handlers.context_task)
    assert (kind["context"], kind["context_arg"]) == (True, "context")
    assert context_parameter(handlers.spawner.fn) == "ctx"
    assert context_parameter(handlers.add_one) is None
    assert context_parameter(len) is None


def test_a_context_annotation_may_be_an_object() -> None:
    def direct(x: int, ctx: Any) -> None: ...

    direct.__annotations__ = {"x": int, "ctx": TaskContext, "return": None}
    assert context_parameter(direct) == "ctx"
    direct.__annotations__ = {"x": int, "ctx": TaskContext | None}
    assert context_parameter(direct) == "ctx"
    direct.__annotations__ = {"x": int, "ctx": "Optional['runtime.TaskContext']"}
    assert context_parameter(direct) == "ctx"
    direct.__annotations__ = {"x": "MyTaskContext", "return": "TaskContext"}
    assert context_parameter(direct) is None


def test_the_decorator_refuses_at_once() -> None:
    registry = TaskRegistry()
    for fn in (lambda: 1, handlers.generator, handlers.make_local()):
        with pytest.raises(HandlerRefused):
            registry.task(fn)
    with pytest.raises(ConfigurationError):
        registry.task(timeout=-1)
    assert len(registry) == 0


def test_a_registry_knows_its_tasks() -> None:
    registry = handlers.tasks
    assert handlers.full_task in list(registry)
    assert registry["tests.unit.runtime.handlers:plain_task"] is handlers.plain_task
    assert registry.find(handlers.plain_task.fn) is handlers.plain_task
    assert registry.find(handlers.add_one) is None
    assert registry.modules() == ["tests.unit.runtime.handlers"]


def test_a_task_of_a_task_has_the_new_options() -> None:
    registry = TaskRegistry()
    again = registry.task(timeout=9.0)(handlers.full_task)
    assert isinstance(again, Task)
    assert again.fn is handlers.full_task.fn
    assert again.settings.timeout == 9.0
    assert registry.task(handlers.add_one).settings == TaskOptions()


def test_tasks_survive_pickling() -> None:
    assert pickle.loads(pickle.dumps(handlers.full_task)) is handlers.full_task
    changed = pickle.loads(pickle.dumps(handlers.full_task.options(timeout=1.0)))
    assert changed.settings.timeout == 1.0
    assert changed.fn is handlers.full_task.fn


@pytest.mark.skipif(sys.version_info < (3, 12), reason="coroutine functions can be marked since 3.12")
def test_a_task_of_a_coroutine_function_is_one() -> None:
    assert inspect.iscoroutinefunction(TaskRegistry().task(handlers.slow_echo))


def test_parameters_by_keyword() -> None:
    assert positional_names(handlers.wait_for) == ({"timeout", "priority"}, False)
    assert positional_names(handlers.any_keyword) == (frozenset(), True)
    assert positional_names(print.__class__) == (frozenset(), False)


def test_a_partial_is_taken_apart() -> None:
    inner = functools.partial(handlers.gather, 1, a=1, b=2)
    outer = functools.partial(inner, 2, b=3)
    assert split_partial(outer) == (handlers.gather, (1, 2), {"a": 1, "b": 3})
    assert split_partial(handlers.gather) == (handlers.gather, (), {})


def test_a_kind_says_with_whom_it_shares_only_where_it_does() -> None:
    plain = kind_of(handlers.plain_task)
    assert not {"tenant", "concurrency_key", "rate_key", "rate_cost"} & set(plain)
    task = handlers.plain_task.options(tenant="acme", concurrency_key="printer", rate_key="api", rate_cost=2.5)
    shared = {"tenant": "acme", "concurrency_key": "printer", "rate_key": "api", "rate_cost": 2.5}
    assert kind_of(task) == {**plain, **shared}
    assert kind_of(task.options(tenant="", concurrency_key=None, rate_key=None, rate_cost=1)) == plain
