"""Declaring pools: what is refused, which parameters take things, and what a task kind says of that."""

from __future__ import annotations

import pickle
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

import pytest

from runtime import TaskContext, TaskRegistry
from runtime.errors import ConfigurationError, HandlerRefused
from runtime.pools import Pool, PoolOptions
from runtime.registry import Task, kind_of
from runtime.testing import inline_runtime

TASKS = TaskRegistry()
HERE = __name__


@TASKS.pool("db", max_size=2)
def connection() -> Iterator[sqlite3.Connection]:
    """A generator."""
    made = sqlite3.connect(":memory:")
    yield made
    made.close()


@TASKS.pool("web", name="client")
async def make_client() -> AsyncIterator[list[str]]:
    """An asynchronous generator, under a name of its own."""
    yield []


@TASKS.pool()
@asynccontextmanager
async def shared() -> AsyncIterator[int]:
    """For all node types."""
    yield 1


@TASKS.task(node_type="db")
def query(text: str, connection: sqlite3.Connection) -> str:
    """By name."""
    return f"{text}{connection}"


@TASKS.task(node_type="db")
def annotated(thing: Annotated[sqlite3.Connection, connection], text: str, ctx: TaskContext) -> None:
    """By annotation, which is text here."""


@TASKS.task(node_type="web")
def elsewhere(thing: Annotated[Any, connection]) -> None:
    """Of another node type."""


@TASKS.task(node_type="web")
def own_argument(connection: str) -> str:
    """The name of a pool of another node type is a name like any."""
    return connection


@TASKS.task
def without(text: str) -> str:
    """No pool."""
    return text


def test_a_kind_says_which_parameters_take_things_and_where_pools_are() -> None:
    kind = kind_of(query)
    assert kind["pool_args"] == {"connection": "connection"}
    assert kind["pools"] == {"connection": f"{HERE}:connection"}
    kind = kind_of(annotated)
    assert kind["pool_args"] == {"thing": "connection"}
    assert kind["pools"] == {"connection": f"{HERE}:connection", "shared": f"{HERE}:shared"}


def test_a_node_type_with_one_pool_names_it() -> None:
    tasks = TaskRegistry()
    tasks.pools = {"client": make_client}
    assert kind_of(Task(asks, Task(asks).options(node_type="web").settings, tasks.pools))["pools"] == {
        "client": f"{HERE}:make_client",
        "web": f"{HERE}:make_client",
    }


def asks(ctx: TaskContext) -> None:
    """Has a context."""


def test_a_kind_without_pools_is_what_it_was() -> None:
    for task in (without, own_argument):
        assert not {"pools", "pool_args"} & kind_of(task).keys()


def test_options_keep_the_pools_and_a_node_type_decides_which() -> None:
    assert "pools" in kind_of(query.options(timeout=3.0))
    assert "pools" not in kind_of(query.options(node_type="web"))
    assert pickle.loads(pickle.dumps(query)) is query


def test_a_pool_of_another_node_type_is_refused_by_name() -> None:
    with pytest.raises(ConfigurationError, match=r"'connection'.*'db'.*'web'"):
        kind_of(elsewhere)


def test_a_pool_is_called_like_its_factory() -> None:
    made = connection()
    assert isinstance(next(made), sqlite3.Connection)
    assert next(made, None) is None  # which closes it
    assert repr(connection) == "<Pool connection of db>"


@pytest.mark.parametrize(
    "options",
    [
        {"max_size": 0},
        {"max_size": 10_001},
        {"max_size": 2.5},
        {"max_age": 0},
        {"max_idle": -1},
        {"max_uses": 0},
        {"timeout": float("nan")},
        {"timeout": "soon"},
        {"reset": "clear"},
        {"node_type": ""},
        {"name": "\ud800"},
    ],
)
def test_what_is_out_of_range_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(options))):
        PoolOptions(**options)


def needs_one(_argument: int) -> int:
    return 1


def test_a_factory_that_workers_could_not_call_is_refused() -> None:
    def local() -> int:
        return 1

    for factory in (local, lambda: 1, needs_one):
        with pytest.raises(HandlerRefused):
            Pool(factory, PoolOptions())


def one_more() -> int:
    return 1


def test_two_pools_of_one_name_are_refused_and_one_that_is_defined_again_is_not() -> None:
    tasks = TaskRegistry()
    first = tasks.pool("db", name="session")(one_more)
    assert tasks.pool("db", name="session", max_size=3)(one_more) is tasks.pools["session"] is not first
    with pytest.raises(ConfigurationError, match=r"'session' already, of .*:one_more"):
        tasks.pool("web", name="session")(make_client.fn)
    assert tasks.pools["session"].fn is one_more


CLOSED: list[str] = []
"""What was closed, in this process."""


@TASKS.pool("default", max_size=1, reset=list.clear)
def notes() -> Iterator[list[int]]:
    """Things of a test's own process."""
    yield []
    CLOSED.append("notes")


@TASKS.pool("default", max_size=1)
async def notes_async() -> AsyncIterator[list[int]]:
    """The same on a loop."""
    yield []
    CLOSED.append("notes_async")


@TASKS.task
async def noted(notes: list[int], number: int, ctx: TaskContext) -> list[int]:
    """A coroutine with a thing, and another one that it takes."""
    notes.append(number)
    async with ctx.pool("notes_async") as other:
        other.append(number)
        return [*notes, *other]


def test_pools_in_a_test_of_a_program() -> None:
    CLOSED.clear()
    with inline_runtime(TASKS) as rt:
        assert rt.submit(noted, number=1).result(10) == [1, 1]
        assert rt.submit(noted, number=2).result(10) == [2, 1, 2]
    assert CLOSED == ["notes_async", "notes"]
