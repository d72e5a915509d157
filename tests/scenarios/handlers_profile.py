"""What workers run while somebody looks inside."""

from __future__ import annotations

import asyncio
import itertools
import os

from tests.scenarios.handlers import note, wait_for


def spin_until(path: str, gate: str) -> str:
    """Compute in Python, without end until the gate is open."""
    note(path, "spins")
    while not os.path.exists(gate):
        for _ in range(10_000):
            pass
    return "done"


def sum_without_end(path: str) -> None:
    """A call in C that never looks at signals and never gives the interpreter back."""
    note(path, "hangs")
    sum(itertools.repeat(0))


async def part(event: asyncio.Event) -> None:
    """Waits."""
    await event.wait()


async def wait_for_parts(path: str, gate: str) -> int:
    """Two tasks of its own wait for an event, until the gate is open."""
    event = asyncio.Event()
    parts = [asyncio.create_task(part(event), name=f"part {number}") for number in (1, 2)]
    await asyncio.sleep(0)
    note(path, "waits")
    await asyncio.to_thread(wait_for, gate)
    event.set()
    await asyncio.gather(*parts)
    return len(parts)


def nothing() -> None:
    """Does nothing."""


def same(value: str) -> str:
    """Gives it back."""
    return value


async def wait_for_nobody(path: str) -> None:
    """Nothing can end this wait."""
    note(path, "waits")
    await asyncio.Event().wait()
