"""What the benchmark's tasks do: importable, deterministic, and as cheap as their purpose allows.

Workers import this module, so it imports nothing that the interpreter does not have loaded anyway. Every handler's
result follows from its arguments, so that results can be compared with a computation in plain Python.
"""

from __future__ import annotations

import os
import time

MODULUS = 1_000_003
"""Keeps results small whatever the depth of a graph; a prime, so that a lost or doubled parent changes the result."""


def increment(value: int) -> int:
    """The no-op of all scenarios: one addition."""
    return value + 1


def mix(*values: int) -> int:
    """Combine the parents' results; the order of the parents matters."""
    total = 1
    for value in values:
        total = total * 31 + value
    return total % MODULUS


def burn(duration_ns: int) -> None:
    """Use this much CPU time of the calling thread, however long that takes on the wall clock.

    The thread's own clock (a system call, 0.2 to 0.6 us) does not count the time in which the thread was preempted, so
    the work is the same on a loaded machine. It overshoots by half a call on average.
    """
    until = time.thread_time_ns() + duration_ns
    while time.thread_time_ns() < until:
        pass


def burn_increment(duration_ns: int, value: int) -> int:
    """Burn, then add one: a task of a batch that takes some time."""
    burn(duration_ns)
    return value + 1


def nap(duration_ns: int, value: int) -> int:
    """Take this long without using the processor: a task that waits for somebody else."""
    time.sleep(duration_ns / 1e9)
    return value


def burn_stamp(duration_ns: int, value: int) -> list[int]:
    """Burn; then the value, and when the task ended, on the monotonic clock that all processes share."""
    burn(duration_ns)
    return [value, time.monotonic_ns()]


def burn_mix(duration_ns: int, *values: int) -> int:
    """Burn, then combine the parents' results: a task of a stencil."""
    burn(duration_ns)
    return mix(*values)


def burn_level(duration_ns: int, *levels: int) -> int:
    """Burn, then return the node's level in its graph: one more than the highest parent's."""
    burn(duration_ns)
    return 1 + max(levels, default=0)


def hold(path: str, value: int = 0) -> int:
    """Wait until the gate at `path` is opened (see `open_gate`), then return `value`. Uses no CPU while it waits."""
    try:
        with open(path, "rb") as gate:
            gate.read()
    except FileNotFoundError:
        pass
    return value


def make_gate(path: str) -> None:
    """Make a closed gate: a named pipe that nobody writes to."""
    os.mkfifo(path)


def open_gate(path: str) -> None:
    """Let everyone through who waits at the gate, and everyone who comes later."""
    writer = os.open(path, os.O_RDWR | os.O_NONBLOCK)
    os.unlink(path)
    os.close(writer)
