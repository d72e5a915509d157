"""Handlers of the scenarios about process hygiene: they print, fork, leak, and ask what their process is like."""

from __future__ import annotations

import asyncio
import ctypes
import logging
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from typing import Any

from tests.scenarios.handlers import note, wait_for

MIB = 1 << 20


def same(value: Any) -> Any:
    return value


async def same_async(value: Any) -> Any:
    return value


def pid(*_: Any) -> int:
    return os.getpid()


async def pid_async(*_: Any) -> int:
    return os.getpid()


# --- S48: output -----------------------------------------------------------------------------------------------------


def flood(mib: int, newline: bool) -> int:
    """Print so many MiB, as lines or as one endless line; the first and the last words can be told."""
    print("first words", end="\n" if newline else " ")
    piece = ("x" * 1023 + "\n" if newline else "x" * 1024) * 64
    for _ in range(mib * 16):
        sys.stdout.write(piece)
    print("last words")
    return mib


async def flood_async(mib: int) -> int:
    return flood(mib, True)


def flood_both(mib: int) -> int:
    """Both streams, from Python, from C and from a child."""
    piece = b"y" * 65_536
    for _ in range(mib * 16 // 4):
        sys.stdout.write("x" * 65_536)
        sys.stderr.write("z" * 65_536)
        os.write(1, piece)
    subprocess.run(["head", "-c", str(mib * MIB // 4), "/dev/zero"], check=True)
    print("last words", file=sys.stderr)
    return mib


def flood_until(gate: str) -> int:
    """Print as fast as it goes until the gate is open."""
    count = 0
    while not os.path.exists(gate):
        sys.stdout.write("x" * 4096)
        count += 1
    return count


def say(text: str) -> str:
    print(text)
    return text


def say_times(count: int) -> None:
    print("x" * count)


def say_and_die(text: str, how: int) -> None:
    """The end comes right behind the last word."""
    sys.stdout.write(text)
    os.kill(os.getpid(), how)
    time.sleep(60)


def say_and_fail(text: str) -> None:
    print(text)
    raise ValueError("after it")


def say_and_hold(text: str, path: str, gate: str) -> None:
    print(text)
    note(path, "said")
    wait_for(gate)


async def say_and_hold_async(text: str, path: str) -> None:
    print(text)
    note(path, "said")
    await asyncio.sleep(60)


def die_silently() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def crash_in_c() -> None:
    ctypes.string_at(0)


def say_raw(text: bytes) -> None:
    """Past Python's streams."""
    os.write(1, text)


def say_with_logging(text: str) -> None:
    logging.basicConfig(force=True)
    logging.getLogger("mine").warning(text)


def replace_stdout(text: str) -> None:
    """Closes what it found, as some libraries do."""
    sys.stdout.close()
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115  that it is left open is the case
    print(text)


# --- S44, S45: locks and children ------------------------------------------------------------------------------------


def log_and_lock(text: str) -> int:
    """Takes the locks that a thread of the program held while this worker was made."""
    logging.getLogger("task").warning(text)
    return threading.active_count()


def leave_child(way: str) -> int:
    """Start a child, do not wait for it, forget it."""
    if way == "fork":
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        return pid
    if way == "spawn":
        return os.posix_spawn("/bin/true", ["true"], {})
    if way == "popen":
        return subprocess.Popen(["true"]).pid
    if way == "multiprocessing":
        process = multiprocessing.get_context("fork").Process(target=int)
        process.start()
        return process.pid or 0
    return leave_grandchild(0.0)


def leave_grandchild(seconds: float) -> int:
    """As a daemon does: a child leaves a grandchild in a session of its own, and ends. Returns the latter's pid."""
    read_fd, write_fd = os.pipe()
    child = os.fork()
    if child == 0:
        os.setsid()
        grandchild = os.fork()
        if grandchild == 0:
            time.sleep(seconds)
            os._exit(0)
        os.write(write_fd, b"%d" % grandchild)
        os._exit(0)
    os.close(write_fd)
    found = int(os.read(read_fd, 20))
    os.close(read_fd)
    return found


def leave_many(count: int) -> int:
    """Children that end only a moment later, and never are waited for."""
    for _ in range(count):
        subprocess.Popen(["sleep", "0.05"])
    return count


def wait_for_own_child(code: int) -> int:
    """Who waits for its child gets its exit code, whatever is done about those that nobody waits for."""
    with subprocess.Popen(["sh", "-c", f"sleep 0.02; exit {code}"]) as child:
        return child.wait()


def die_with_children(count: int) -> None:
    """Children that live, children that are dead, and then the worker is killed."""
    for _ in range(count):
        subprocess.Popen(["sleep", "60"])
        leave_child("fork")
    leave_grandchild(60.0)
    os.kill(os.getpid(), signal.SIGKILL)


# --- S47: memory -----------------------------------------------------------------------------------------------------


def leak(size: int, kept: list[bytes] = []) -> int:  # noqa: B006  that it is kept is the leak
    """Keep so many bytes for ever."""
    kept.append(b"x" * size)
    return os.getpid()


async def leak_async(size: int, kept: list[bytes] = []) -> int:  # noqa: B006  as above
    kept.append(b"x" * size)
    return os.getpid()


def leak_threads() -> int:
    """A thread that never ends; a worker that is replaced must not wait for it."""
    threading.Thread(target=time.sleep, args=(600,)).start()
    return os.getpid()


# --- S46: what lies in files and shared memory -----------------------------------------------------------------------


def large_result(size: int) -> bytes:
    return b"x" * size


# --- S49 to S51: signals and loops -----------------------------------------------------------------------------------


def hold(gate: str) -> int:
    """Wait for the gate; the pid shows that nothing interrupted it."""
    wait_for(gate)
    return os.getpid()


def take(seconds: float) -> float:
    time.sleep(seconds)
    return seconds
