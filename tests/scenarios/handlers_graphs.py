"""Handlers of the scenarios about graphs: they count, collect, grow the run, and note what they do in a file."""

from __future__ import annotations

import os
import signal
from typing import Any

from actors.protocol.control_signals import SkipNode
from runtime import NodeType, Runtime, TaskContext
from tests.scenarios.handlers import note, wait_for

WAIT_S = 30.0


def same(value: Any) -> Any:
    return value


async def same_async(value: Any) -> Any:
    return value


def text_of(number: int, length: int) -> str:
    """A text of this length that begins with the number."""
    return f"{number} ".ljust(length, "x")


def count_of(values: list[Any]) -> int:
    return len(values)


def in_order(values: list[int]) -> list[int]:
    """How many there are, and how many stand at their place."""
    return [len(values), sum(place == value for place, value in enumerate(values))]


def firsts(values: list[str]) -> list[int]:
    """The numbers that texts begin with."""
    return [int(value.split(" ", 1)[0]) for value in values]


def collect(path: str, values: list[Any]) -> list[Any]:
    """Note that it was called, and with how many; give back what came."""
    note(path, f"collect-{len(values)}")
    return [type(values).__name__, values]


def collect_all(path: str, *values: Any) -> list[Any]:
    """As `collect`, for results that are arguments of their own."""
    note(path, f"collect-{len(values)}")
    return list(values)


def add_one(path: str, value: int) -> int:
    """A link of a chain."""
    note(path, str(value))
    return value + 1


def step(path: str, word: str, *_: Any) -> str:
    note(path, word)
    return word


def die_once(path: str, word: str, gate: str, *_: Any) -> str:
    """The first attempt holds until its worker is killed; the next one succeeds."""
    before = os.path.exists(path) and any(row.startswith(f"{word} ") for row in open(path))  # noqa: SIM115
    note(path, word)
    if not before:
        wait_for(gate)
    return word


def fail(*_: Any) -> None:
    raise ValueError("as wanted")


def skip(*_: Any) -> None:
    raise SkipNode("as wanted")


def note_pid(path: str, *_: Any) -> int:
    note(path, "ran")
    return os.getpid()


# --- growing ---------------------------------------------------------------------------------------------------------


def grow_tree(branches: int, leaves: int, context: TaskContext) -> int:
    """A node for each branch, which adds its own leaves and what collects them."""
    for branch in range(branches):
        context.spawn(grow_branch, branch, leaves)
    return branches


def grow_branch(branch: int, leaves: int, context: TaskContext) -> int:
    nodes = [context.spawn(same, branch * leaves + leaf) for leaf in range(leaves)]
    context.spawn(count_of, nodes)
    return branch


def grow_too_many(count: int, context: TaskContext) -> int:
    for number in range(count):
        context.spawn(text_of, number, 10)
    return count


def grow_on(path: str, left: int, context: TaskContext) -> int:
    """A link of a chain that adds the next one."""
    note(path, "link")
    if left:
        context.spawn(grow_on, path, left - 1)
    return left


def ask_children(path: str, name: str, context: TaskContext) -> str:
    """What in other engines submits two children and waits for them: here they, and what needs them, are nodes."""
    first = context.spawn(note_pid, path, name, id=f"{name} 1")
    second = context.spawn(note_pid, path, name, id=f"{name} 2")
    context.spawn(collect_all, path, first, second, id=f"{name} sum")
    return name


def grow_twice_and_die(path: str, gate: str, context: TaskContext) -> str:
    """The first attempt adds nodes and is killed: they never were."""
    context.spawn(step, path, "child")
    return die_once(path, "parent", gate)


# --- a Runtime where there must not be one ---------------------------------------------------------------------------


def open_runtime(state: str) -> None:
    with Runtime(state, node_types=[NodeType("inner", workers=1)]):
        pass


async def open_runtime_async(state: str) -> None:
    open_runtime(state)


def open_runtime_in_fork(state: str) -> int:
    """A fork of a worker is no place for one either. Returns how the fork ended."""
    pid = os.fork()
    if pid == 0:
        try:
            open_runtime(state)
        except BaseException as refused:
            os._exit(10 if type(refused).__name__ == "NestedRuntime" else 11)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def kill_own_worker() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
