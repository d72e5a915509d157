"""What the scenarios let workers run. Every handler notes what it does in a file, so that runs can be counted by
somebody who does not ask the engine.

A *gate* is a file: a handler that holds goes on when it exists.

A light module: its import is a part of the first attempt in each worker, and some attempts have short timeouts. What is
large is imported where it is used.
"""

from __future__ import annotations

import itertools
import os
import re
import resource
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any, Final

from runtime import TaskContext

TICK_S: Final = 0.005
FOREVER_S: Final = 600.0


def note(path: str, word: str) -> int:
    """Append a line: word, pid, monotonic time. One write, so that lines of several processes do not mix.

    Returns the size of the file before.
    """
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        text = f"{word} {os.getpid()} {time.monotonic_ns()}\n".encode()
        os.write(fd, text)
        return os.fstat(fd).st_size - len(text)
    finally:
        os.close(fd)


def wait_for(gate: str) -> None:
    """Wait until the gate is open, in short sleeps, as a handler that does something would."""
    deadline = time.monotonic() + FOREVER_S
    while not os.path.exists(gate) and time.monotonic() < deadline:
        time.sleep(TICK_S)


# --- tasks --------------------------------------------------------------------------------------------------------


def mark(path: str, word: str) -> str:
    """Note, and be done."""
    note(path, word)
    return word


def mark_slowly(path: str, word: str, seconds: float) -> str:
    """Note, take some time."""
    note(path, word)
    time.sleep(seconds)
    return word


def hold(path: str, word: str, gate: str) -> str:
    """Note, wait for the gate."""
    note(path, word)
    wait_for(gate)
    return word


def report_and_hold(done: float, total: float, text: str, gate: str, context: TaskContext) -> str:
    """Say how far it is, wait for the gate."""
    context.progress(done, total, text)
    wait_for(gate)
    return text


def first_holds(path: str, word: str) -> int:
    """The first attempt never ends by itself, the second does at once. Returns its pid."""
    if not _noted_before(path, word):
        time.sleep(FOREVER_S)
    return os.getpid()


async def first_holds_async(path: str, word: str) -> int:
    """As `first_holds`, for workers of mode asyncio."""
    import asyncio  # lazy: see the head

    if not _noted_before(path, word):
        await asyncio.sleep(FOREVER_S)
    return os.getpid()


def _noted_before(path: str, word: str) -> bool:
    before = Path(path).read_text() if os.path.exists(path) else ""
    note(path, word)
    return any(line.split(" ", 1)[0] == word for line in before.splitlines())


# --- tasks that harm their worker ---------------------------------------------------------------------------------


def eat_memory(path: str, word: str, group: str) -> None:
    """Join a memory group with a small limit, then allocate until killed."""
    note(path, word)
    with open(group, "w") as file:
        file.write(str(os.getpid()))
    kept = []
    while True:
        kept.append(bytearray(b"\1") * 4_000_000)


def eat_address_space(path: str, word: str) -> None:
    """Allocate until the process's own limit says no, as a container without an OOM killer would."""
    note(path, word)
    before = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (used + 100_000_000, before[1]))
    kept = []
    try:
        while True:
            kept.append(bytearray(10_000_000))
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def kill_self(path: str, word: str) -> None:
    """What the kernel's OOM killer does, as the process sees it."""
    note(path, word)
    os.kill(os.getpid(), signal.SIGKILL)


def abort(path: str, word: str) -> None:
    """SIGABRT, as a failed assertion in C."""
    note(path, word)
    os.abort()


def read_null(path: str, word: str) -> None:
    """A segmentation fault in C."""
    import ctypes  # lazy: see the head

    note(path, word)
    ctypes.string_at(0)


def exit_at_once(path: str, word: str, code: int) -> None:
    """The process ends without a word."""
    note(path, word)
    os._exit(code)


def raise_exit(path: str, word: str) -> None:
    """An exception that many loops let through."""
    note(path, word)
    raise SystemExit(3)


def close_everything(path: str, word: str) -> None:
    """A daemonising library closes all descriptors; then the process cannot be told anything any more."""
    note(path, word)
    os.closerange(0, 4096)


def overflow_stack(path: str, word: str) -> None:
    """Recursion in C without end."""
    note(path, word)
    sys.setrecursionlimit(10**9)
    value: list[Any] = []
    for _ in range(300_000):
        value = [value]
    repr(value)


# --- large values -------------------------------------------------------------------------------------------------


def size_of(value: bytes) -> int:
    """How long it is."""
    return len(value)


def large(path: str, word: str, size: int) -> bytes:
    """Note, return a large value."""
    note(path, word)
    return b"x" * size


def large_text(path: str, word: str, size: int) -> str:
    """Note, return a large text."""
    note(path, word)
    return "x" * size


def large_texts(path: str, word: str, size: int) -> list[str]:
    """Note, return a short list of large texts."""
    note(path, word)
    return ["x" * size]


# --- tasks that fail ----------------------------------------------------------------------------------------------


def fail(path: str, word: str) -> None:
    """Note, and raise."""
    note(path, word)
    raise ValueError(f"{word} failed")


def first_fails(path: str, word: str) -> str:
    """The first attempt raises, the second does not."""
    if not _noted_before(path, word):
        raise ValueError(f"{word} failed")
    return word


# --- tasks that cannot be interrupted easily ----------------------------------------------------------------------


def sleep_in_c(path: str, word: str) -> None:
    """One long system call."""
    note(path, word)
    time.sleep(FOREVER_S)


def backtrack(path: str, word: str) -> None:
    """A regular expression that takes longer than the universe."""
    note(path, word)
    re.match(r"(a+)+$", "a" * 60 + "b")


def read_socket(path: str, word: str) -> None:
    """Wait for bytes that never come."""
    import socket  # lazy: see the head

    note(path, word)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.recv(1)


def wait_lock(path: str, word: str) -> None:
    """Wait for a lock that nobody gives back."""
    note(path, word)
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


def wait_process(path: str, word: str) -> None:
    """Wait for a program that does not end."""
    import subprocess  # lazy: see the head

    note(path, word)
    subprocess.run(["sleep", str(FOREVER_S)], check=False)


def sum_forever(path: str, word: str) -> None:
    """A loop in C that never looks at signals and never gives the interpreter back."""
    note(path, word)
    sum(itertools.repeat(0))


def hold_interpreter(path: str, word: str, seconds: float = FOREVER_S) -> str:
    """A call in C that keeps the interpreter's lock."""
    note(path, word)
    starve(seconds)
    return word


def starve(seconds: float) -> None:
    """Keep the interpreter's lock; no other thread of this process runs meanwhile."""
    import ctypes  # lazy: see the head

    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGPROF})  # usleep does not go on after a tick of the profiler
    ctypes.PyDLL(None).usleep(int(seconds * 1e6))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGPROF})


async def sleep_async(path: str, word: str) -> None:
    """Wait in the event loop."""
    import asyncio  # lazy: see the head

    note(path, word)
    await asyncio.sleep(FOREVER_S)


async def hold_async(path: str, word: str, gate: str) -> str:
    """As `hold`, in the event loop."""
    import asyncio  # lazy: see the head

    note(path, word)
    await asyncio.to_thread(wait_for, gate)
    return word


async def block_loop(path: str, word: str) -> None:
    """Block the event loop in C."""
    note(path, word)
    sum(itertools.repeat(0))


def swallow_once(path: str, word: str) -> str:
    """Take the signal for a passing trouble, and end soon after."""
    note(path, word)
    try:
        time.sleep(FOREVER_S)
    except BaseException:
        time.sleep(TICK_S)
    return word


def swallow_always(path: str, word: str) -> None:
    """A loop that nothing ends."""
    note(path, word)
    _swallow()


def swallow_and_ignore_sigterm(path: str, word: str) -> None:
    """A loop that nothing ends but SIGKILL."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    note(path, word)
    _swallow()


def swallow_and_block_signals(path: str, word: str) -> None:
    """Likewise, at the door of the kernel."""
    signal.pthread_sigmask(signal.SIG_BLOCK, set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP})
    note(path, word)
    _swallow()


def end_on_sigterm(path: str, word: str) -> str:
    """Deaf to what the engine raises, but it has a way of its own to end in order."""
    asked: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: asked.append(number))
    note(path, word)
    while not asked:
        try:
            time.sleep(TICK_S)
        except BaseException:
            continue
    return word


def swallow_in_finally(path: str, word: str) -> None:
    """Tidying up that takes longer than the task."""
    note(path, word)
    try:
        time.sleep(FOREVER_S)
    finally:
        _swallow()


def _swallow() -> None:
    while True:
        try:
            time.sleep(FOREVER_S)
        except BaseException:
            continue


# --- tasks that start others --------------------------------------------------------------------------------------


def start_others(path: str, how: str) -> None:
    """Start a program and a thread that go on by themselves, note both, and wait for ever."""
    import multiprocessing  # lazy: see the head
    import subprocess  # lazy: see the head

    note(path, "task")
    threading.Thread(target=_tick, args=(f"{path}.thread",), daemon=True).start()
    script = "import os, sys, time; open(sys.argv[1], 'a').write(f'child {os.getpid()} 0\\n'); time.sleep(600)"
    command = [sys.executable, "-c", script, path]
    if how == "daemon":  # forks twice and leads its own session, as a daemon does
        command[2] = "import os; os.fork() and os._exit(0); os.setsid(); os.fork() and os._exit(0)\n" + script
    if how == "pool":
        multiprocessing.get_context("fork").Process(target=_child, args=(path,)).start()
    else:
        subprocess.Popen(command, start_new_session=how == "session")
    time.sleep(FOREVER_S)


def _child(path: str) -> None:
    note(path, "child")
    time.sleep(FOREVER_S)


def _tick(path: str) -> None:
    while True:
        note(path, "tick")
        time.sleep(TICK_S)


def grow(path: str, gate: str, context: TaskContext) -> None:
    """A parent that adds its children while it runs: one that will be done, one that holds, one behind each."""
    note(path, "parent")
    done = context.spawn(mark, path, "done")
    running = context.spawn(hold, path, "running", gate, after=[done])
    context.spawn(mark, path, "queued", after=[done])
    context.spawn(mark, path, "pending", after=[running])
