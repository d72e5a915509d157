"""What workers compute and wait for while they are profiled."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import zlib
from pathlib import Path

from runtime.profile.sampling.labels import labels
from tests.scenarios.handlers import note, wait_for

PROGRAM = "sum(range(2_000_000)); raise SystemExit(7)"
DATA = bytes(range(256)) * 2_000


def count(turns: int) -> int:
    """Pure Python."""
    total = 0
    for number in range(turns):
        total += number * number
    return total


def pack() -> int:
    """A C function that lets the interpreter go."""
    return len(zlib.compress(DATA, 6))


def is_open(gate: str) -> bool:
    """Whether the test goes on."""
    return os.path.exists(gate)


def compute(path: str, gate: str) -> str:
    """Compute until the gate is open, on the main thread."""
    note(path, str(os.getpid()))
    while not os.path.exists(gate):
        count(5_000)
    return "done"


def short(number: int) -> int:
    """A task for the hot loop."""
    return count(300 + number % 7)


async def part(turns: int) -> None:
    """A task of a handler."""
    count(turns)
    await asyncio.sleep(0)


async def compute_in_tasks(path: str, gate: str) -> str:
    """Compute in tasks and a thread until the gate is open; labels of its own besides."""
    note(path, "computes")
    with labels(customer="acme"):
        while not is_open(gate):
            await asyncio.gather(part(5_000), part(5_000))
            await asyncio.to_thread(pack)
    return "done"


async def compute_batches(calls: list[str]) -> list[str]:
    """Compute in a batch, and in the loop's own threads, until the gate is open."""
    path, gate = calls[0].split("|")
    note(path, "computes")
    while not is_open(gate):
        count(5_000)
        await asyncio.get_running_loop().run_in_executor(None, pack)
    return calls


async def wait_for_gate(path: str, gate: str) -> str:
    """Wait in a task of its own."""
    note(path, "waits")
    await asyncio.create_task(look_for(gate), name="look 17")
    return "done"


async def look_for(gate: str) -> None:
    """A thread looks."""
    await asyncio.to_thread(wait_for, gate)


def fork_and_compute(path: str, gate: str) -> int:
    """A forked child that computes under the parent's ticks, and a program that is started; their exit codes."""
    note(path, "forks")
    codes = []
    while not os.path.exists(gate):
        pid = os.fork()
        if pid == 0:
            count(200_000)
            os._exit(7)
        codes.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        codes.append(subprocess.run([sys.executable, "-S", "-c", PROGRAM], check=False).returncode)
        count(20_000)
    return sum(code != 7 for code in codes)


def become_another(path: str, gate: str) -> None:
    """Replace the worker by a program that computes for longer than many ticks, and says how it went."""
    note(path, str(os.getpid()))
    while not os.path.exists(gate):
        count(5_000)
    code = f"sum(range(30_000_000)); open({path!r}, 'a').write('computed\\n')"
    os.execv(sys.executable, [sys.executable, "-S", "-c", code])


def has_ticks(path: str) -> bool:
    """Whether SIGPROF has a handler here."""
    Path(path).touch()
    return signal.getsignal(signal.SIGPROF) not in (signal.SIG_DFL, signal.SIG_IGN)


def sort_numbers() -> int:
    """A C function that keeps the interpreter."""
    return len(sorted(range(20_000, 0, -1), key=abs))


def mix(path: str, gate: str) -> str:
    """Pure Python and two kinds of C, one after the other."""
    note(path, str(os.getpid()))
    while not os.path.exists(gate):
        count(15_000)
        sort_numbers()
        pack()
    return "done"
