"""Handlers for the tests of workers. They print something when they have come to the point that a test waits for."""

from __future__ import annotations

import asyncio
import ctypes
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Generator
from typing import Any

from actors.protocol.control_signals import SkipNode
from runtime.context import TaskContext
from runtime.host.handlers import inside_worker
from runtime.registry import TaskRegistry

tasks = TaskRegistry()
KEPT: list[int] = []
KEPT_BYTES: list[bytes] = []


def add_one(x: int) -> int:
    return x + 1


def add(x: int, y: int) -> int:
    return x + y


@tasks.task(timeout=3.0)
def registered(x: int) -> int:
    return x * 2


def echo(value: Any) -> Any:
    return value


def repeat(count: int) -> str:
    return "x" * count


def total(*values: int) -> int:
    return sum(values)


def keep(x: int) -> list[int]:
    """Returns a list that later calls change."""
    KEPT.append(x)
    return KEPT


def worker_pid(_: Any) -> int:
    return os.getpid()


# --- ways to end ----------------------------------------------------------------------------------------------------


def refuse(_: Any) -> None:
    raise ValueError("no")


class OwnConstructor(Exception):
    def __init__(self, first: str, second: str) -> None:
        super().__init__(first)


def raise_own(_: Any) -> None:
    raise OwnConstructor("a", "b")


class Liar(Exception):
    @property
    def __class__(self) -> Any:
        raise RuntimeError("not telling")


def raise_liar(_: Any) -> None:
    raise Liar("what am I")


def leave(_: Any) -> None:
    sys.exit("leaving")


def interrupt(_: Any) -> None:
    raise KeyboardInterrupt


def recurse(x: int) -> int:
    return recurse(x + 1)


def exhaust(_: Any) -> None:
    raise MemoryError


def grow(size: int) -> int:
    KEPT_BYTES.append(b"x" * size)
    return size


def skip(_: Any) -> None:
    raise SkipNode("not today")


def unstorable(x: Any) -> Any:
    return threading.Lock() if x else "fine"


def generate(_: Any) -> Generator[int, None, None]:
    yield 1


def return_generator(_: Any) -> Any:
    return (x for x in range(3))


async def generate_async(_: Any) -> AsyncIterator[int]:
    yield 1


def exit_hard(code: int) -> None:
    print("last words", end="")
    os._exit(code)


def crash(_: Any) -> None:
    print("before the crash", end="")
    ctypes.string_at(0)


# --- waiting ---------------------------------------------------------------------------------------------------------


def say_and_wait(text: str) -> str:
    """Waits in Python, in short steps."""
    print(text)
    while True:
        time.sleep(0.001)


def sleep_long(text: str) -> None:
    """Waits in one system call."""
    print(text)
    time.sleep(3600)


def wait_politely(text: str, ctx: TaskContext) -> str:
    """Ends by itself when it is asked to."""
    print(text)
    try:
        while not ctx.cancelled:
            time.sleep(0.001)
    except BaseException as signalled:
        return f"ended by {type(signalled).__name__}"
    return "ended politely"


def swallow(text: str) -> None:
    """Refuses to end."""
    while True:
        try:
            print(text)
            time.sleep(3600)
        except BaseException:
            text = "swallowed"


def in_c(text: str) -> bool:
    """Holds the interpreter in C code."""
    print(text)
    return re.match(r"(a+)+$", "a" * 64 + "b") is not None


def wait_for_file(path: str) -> str:
    """Goes on when the file is there."""
    while not os.path.exists(path):
        time.sleep(0.001)
    return path


def rest(seconds: float) -> float:
    """Takes so long."""
    if seconds:
        time.sleep(seconds)
    return seconds


async def sleep_async(text: str) -> None:
    print(text)
    await asyncio.sleep(3600)


async def cleanup_async(text: str) -> None:
    try:
        print(text)
        await asyncio.sleep(3600)
    finally:
        print("cleaned up")


async def add_one_async(x: int) -> int:
    await asyncio.sleep(0)
    return x + 1


def make_coroutine(x: int) -> Any:
    return add_one_async(x)


async def leave_async(_: Any) -> None:
    sys.exit(3)


async def stop_iteration(_: Any) -> None:
    raise StopAsyncIteration("odd")


def raise_stop_iteration(_: Any) -> None:
    raise StopIteration("odd")


async def forget_a_task(_: Any) -> str:
    KEPT.append(0)
    asyncio.get_running_loop().create_task(leave_async(None))
    await asyncio.sleep(0)
    return "done"


# --- the world -------------------------------------------------------------------------------------------------------


def change_world(folder: str) -> str:
    os.chdir(folder)
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    return os.getcwd()


def see_world(_: Any) -> list[Any]:
    return [os.getcwd(), sys.stdout.fileno(), signal.getsignal(signal.SIGTERM) == signal.SIG_DFL]


def fork_and_return(_: Any) -> int:
    """The child comes back from the handler, too."""
    return os.fork()


def leave_child(seconds: float) -> int:
    return subprocess.Popen(["sleep", str(seconds)]).pid


def leave_children(_: Any) -> list[int]:
    """One child in the group, one in its own session, one adopted from a child that ended."""
    script = "sleep 3600 & echo $!"
    plain = subprocess.Popen(["sleep", "3600"]).pid
    session = subprocess.Popen(["sleep", "3600"], start_new_session=True).pid
    with subprocess.Popen(["setsid", "sh", "-c", script], stdout=subprocess.PIPE, text=True) as shell:
        assert shell.stdout is not None
        adopted = int(shell.stdout.readline())
    return [plain, session, adopted]


def children_and_wait(text: str) -> None:
    """Starts children, says their pids, and waits."""
    print(text, *leave_children(None), "end")
    time.sleep(3600)


def thread_and_wait(text: str) -> None:
    """Leaves a thread running."""
    threading.Thread(target=time.sleep, args=[3600], daemon=True).start()
    print(text)
    time.sleep(3600)


def zombies(_: Any) -> int:
    """How many dead children this process has."""
    found = 0
    for child in _children():
        with open(f"/proc/{child}/stat") as file:
            found += file.read().rpartition(")")[2].split()[0] == "Z"
    return found


def _children() -> list[int]:
    with open(f"/proc/{os.getpid()}/task/{os.getpid()}/children") as file:
        return [int(pid) for pid in file.read().split()]


def is_worker(_: Any) -> bool:
    return inside_worker()


# --- output ----------------------------------------------------------------------------------------------------------


def say(text: str) -> None:
    print(text)


def say_on_both(text: str) -> None:
    print(text)
    print(text.upper(), file=sys.stderr)
    sys.stdout.buffer.write(b"raw\n")
    os.write(1, b"direct\n")


def flood(mebibytes: int) -> int:
    line = "x" * 1023 + "\n"
    for _ in range(mebibytes * 1024):
        sys.stdout.write(line)
    return mebibytes


async def say_async(text: str) -> None:
    print(text)
    await asyncio.sleep(0)
    print(text)


# --- context ---------------------------------------------------------------------------------------------------------


def describe(x: int, ctx: TaskContext | None = None) -> list[Any]:
    assert ctx is not None
    remaining = ctx.remaining()
    return [x, ctx.run_id, ctx.node, ctx.attempt, ctx.idempotency_key, remaining is None or 0 < remaining <= 60]


def describe_first(ctx: TaskContext, x: int) -> list[Any]:
    return [x, ctx.node]


async def describe_async(x: int, *, ctx: TaskContext) -> list[Any]:
    return [x, ctx.node]


def report(steps: int, ctx: TaskContext) -> int:
    for step in range(steps):
        ctx.progress(step + 1, steps, "half\ud800way")
    ctx.log("a line")
    return steps


def spawn_two(x: int, ctx: TaskContext) -> str:
    first = ctx.spawn(add_one, x, id="first")
    second = ctx.spawn(registered, first)
    ctx.spawn(total, first, [second], after=[second])
    if x < 0:
        raise ValueError("then not")
    return "spawned"


def use_after_end(_: Any, ctx: TaskContext) -> int:
    if KEPT_CONTEXT:
        try:
            KEPT_CONTEXT[0].progress(1)
        except Exception as refused:
            return len(type(refused).__name__)
    KEPT_CONTEXT.append(ctx)
    return 0


KEPT_CONTEXT: list[TaskContext] = []
