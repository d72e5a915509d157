"""What workers run while somebody records all processes."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys

from tests.scenarios.handlers import note

BURN = "import os, sys\nwhile not os.path.exists(sys.argv[1]): sum(range(10_000))\n"


def compute(path: str, gate: str) -> None:
    """Pure Python until the gate is open."""
    note(path, "computes")
    while not os.path.exists(gate):
        sum(range(10_000))


def start_child(path: str, gate: str) -> int:
    """A program of its own that computes until the gate is open."""
    note(path, "started")
    return subprocess.call([sys.executable, "-c", BURN, gate])


async def deadlock(path: str) -> None:
    """Two tasks wait for each other, and the handler for both: nothing can ever wake them."""
    tasks: list[asyncio.Task[None]] = []

    async def part(number: int) -> None:
        await asyncio.sleep(0)
        await asyncio.shield(tasks[1 - number])

    tasks += [asyncio.create_task(part(number), name=f"part {number}") for number in (0, 1)]
    note(path, "waits")
    await asyncio.gather(*tasks)
