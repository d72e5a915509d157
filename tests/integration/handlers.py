"""Handlers of the integration tests."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from typing import Any

from runtime import TaskContext
from tests.scenarios.handlers import note, wait_for


def square(number: int) -> int:
    return number * number


async def square_async(number: int) -> int:
    return number * number


def total(numbers: list[int]) -> int:
    return sum(numbers)


def fail(text: str) -> None:
    raise ValueError(text)


def hold(path: str, gate: str) -> str:
    note(path, "held")
    wait_for(gate)
    return "held"


def pid(*_: Any) -> int:
    return os.getpid()


# --- dynamic graphs --------------------------------------------------------------------------------------------------


def fibonacci(number: int, context: TaskContext) -> int:
    """Adds the nodes that it needs: the run grows as far as the recursion goes. Its own result is its depth."""
    if number >= 2:
        context.spawn(fibonacci, number - 1, id=f"{number} left")
        context.spawn(fibonacci, number - 2, id=f"{number} right")
    return number


def plan(names: list[str], path: str, context: TaskContext) -> int:
    """A step for each name and one that takes all their results; an edge without data orders the first two."""
    steps = []
    for name in names:
        steps.append(context.spawn(step, name, path, id=name, after=steps[-1:]))
    context.spawn(join, steps, path, id="join")
    return len(steps)


def step(name: str, path: str) -> str:
    note(path, name)
    return name.upper()


def join(words: list[str], path: str) -> str:
    note(path, "join")
    return " ".join(words)


def add_and_hold(path: str, gate: str, context: TaskContext) -> str:
    """Its children hold until the gate is open."""
    for number in range(4):
        context.spawn(hold, f"{path}-{number}", gate, id=f"child {number}")
    return "added"


def add_bad(context: TaskContext) -> None:
    """One child that fails, one that needs it, one that cleans up."""
    bad = context.spawn(fail, "child", id="bad")
    context.spawn(total, [bad], id="behind")


# --- cancelling ------------------------------------------------------------------------------------------------------


def shell(path: str, seconds: float) -> int:
    """A shell with children of its own, in a session of its own: the ways out of a process group."""
    script = f"sleep {seconds} & setsid sleep {seconds} & echo $$ $! >> {path}; wait"
    return subprocess.run(["sh", "-c", script], check=True).returncode


def python_children(path: str, seconds: float) -> int:
    """A Python child that starts another one and ignores SIGTERM, as servers do."""
    inner = f"import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep({seconds})"
    code = (
        "import os, signal, subprocess, sys\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        f"child = subprocess.Popen([sys.executable, '-c', {inner!r}])\n"
        f"open({path!r}, 'a').write(f'{{os.getpid()}} {{child.pid}}\\n')\n"
        "child.wait()\n"
    )
    return subprocess.run([sys.executable, "-c", code], check=True).returncode


async def async_children(path: str, seconds: float) -> int:
    """As a coroutine does it: it ends its own child, because the worker has children of many tasks."""
    child = await asyncio.create_subprocess_exec("sleep", str(seconds))
    try:
        note_pids(path, child.pid, child.pid)
        return await child.wait()
    finally:
        child.kill()
        await child.wait()


async def async_children_that_stay(path: str, seconds: float) -> None:
    """A coroutine that will not be stopped: its worker is, and with it whatever that had started."""
    child = await asyncio.create_subprocess_exec("sleep", str(seconds))
    note_pids(path, child.pid, os.getpid())
    while True:
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            continue


def note_pids(path: str, *pids: int) -> None:
    """A line of pids."""
    with open(path, "a", encoding="ascii") as file:
        file.write(f"{' '.join(map(str, pids))}\n")


# --- retries ---------------------------------------------------------------------------------------------------------


def end_as(kind: str, path: str, good_at: int, context: TaskContext) -> list[Any]:
    """End in a way until attempt `good_at`, which succeeds."""
    note(path, f"{kind}:{context.attempt}:{context.idempotency_key}")
    if context.attempt >= good_at:
        return [context.attempt, context.idempotency_key]
    if kind == "error":
        raise ValueError(f"attempt {context.attempt}")
    if kind == "timeout":
        time.sleep(60)
    if kind == "crash":
        os._exit(9)
    if kind == "memory":
        raise MemoryError("as wanted")
    if kind == "payload":
        return [sys.stdout]
    raise AssertionError(kind)


def parse(values: list[Any]) -> Any:
    return values
