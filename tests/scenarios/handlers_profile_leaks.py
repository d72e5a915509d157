"""What workers run while leaks are looked for: some leave something behind, some do not."""

from __future__ import annotations

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor

from runtime.profile.ledger.books import LEDGER
from tests.scenarios.handlers import note, wait_for

# global: what a program keeps by mistake, as programs do
KEPT: list[object] = []


async def wait_for_nobody(path: str) -> None:
    """Nobody has the event."""
    note(path, "waits")
    await asyncio.Event().wait()


async def waits(event: asyncio.Event) -> None:
    """Waits."""
    await event.wait()


async def leave_a_task() -> int:
    """The task and its event are kept, and nobody sets it."""
    event = asyncio.Event()
    KEPT.append((event, asyncio.create_task(waits(event))))
    return len(KEPT)


async def forget_to_release(number: int) -> int:
    """An entry of the ledger that is never released."""
    LEDGER.track("checkout", number)
    return number


async def forget_an_await() -> None:
    """The call lacks an await."""
    waits(asyncio.Event())


async def take_and_end(lock: asyncio.Lock) -> None:
    """Ends with the lock."""
    await lock.acquire()  # made: lock


async def leave_a_lock() -> None:
    """Nobody has it any more, and it is taken."""
    lock = asyncio.Lock()
    await asyncio.create_task(take_and_end(lock))
    KEPT.append(lock)


def drop_an_executor(gate: str) -> None:
    """It is gone, and a thread of it works on."""
    executor = ThreadPoolExecutor(1)  # made: executor
    executor.submit(wait_for, gate)


async def ends(number: int) -> int:
    """Tasks, a timer and a wait, all of which end."""
    async with asyncio.TaskGroup() as group:
        for _ in range(3):
            group.create_task(asyncio.sleep(0.001))
    return number


async def takes_long() -> None:
    """Cancelled by who submitted it."""
    await asyncio.sleep(3600)


def ends_without_another() -> list[str]:
    """Pipes of this process whose other end is gone, at two looks and with no budget."""
    from runtime.profile.leak_check.machine import ProcessThings  # lazy: where it is looked at

    LEDGER.register_kind("descriptor", budget=0)
    look = ProcessThings(closed_ns=0)
    list(look.seen())
    return [one.key for one in look.seen() if one.signature.kind == "descriptor" and one.proof]


def computes(number: int) -> int:
    """In a process worker."""
    return sum(range(number % 1000))


def dies(number: int, folder: str) -> int:
    """Takes its worker with it, now and then, at the first attempt."""
    marker = f"{folder}/died-{number}"
    if number % 20 == 0 and not os.path.exists(marker):
        with open(marker, "w", encoding="ascii"):
            pass
        os._exit(3)
    return number
