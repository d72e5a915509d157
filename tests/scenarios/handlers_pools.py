"""Pools and the handlers that use them. They run in workers, and note what happens to each thing (see `handlers`).

A note is `what-name-number`; the number of a thing is unique in its process.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Annotated, Any, Final

from runtime import TaskContext, TaskRegistry
from tests.scenarios.handlers import note, wait_for

TASKS: Final = TaskRegistry()
NOTES: Final = "POOL_NOTES"
"""Environment variable with the file in which is noted; workers inherit it."""


def wait_until_there(folder: str, count: int) -> None:
    """Wait until there are so many files."""
    for number in range(count):
        wait_for(str(Path(folder, str(number))))


class Thing:
    """Something that can be used, dirtied and closed."""

    numbers = itertools.count(1)

    def __init__(self, pool: str) -> None:
        self.pool = pool
        self.number = next(Thing.numbers)
        self.dirt: list[Any] = []
        self.users = 0
        self.tell("made")

    def tell(self, what: str) -> None:
        """Note what happens to it."""
        note(os.environ[NOTES], f"{what}-{self.pool}-{self.number}")

    def clean(self) -> None:
        """As new; one that is spoilt cannot be."""
        if "spoilt" in self.dirt:
            raise ValueError("it cannot be cleaned")
        self.dirt.clear()

    def use(self, mark: Any) -> list[Any]:
        """Returns the dirt that it found: number, process, and marks of others."""
        found = [self.number, os.getpid(), *self.dirt]
        self.dirt.append(mark)
        return found


def fit(thing: Thing) -> bool:
    """Whether it may be lent again."""
    return "broken" not in thing.dirt


@TASKS.pool("cpu", max_size=2, reset=Thing.clean)
def plain() -> Iterator[Thing]:
    """Used in mode "process"; a generator."""
    thing = Thing("plain")
    yield thing
    thing.tell("closed")


@TASKS.pool("cpu", max_size=1, check=fit, close=lambda thing: thing.tell("closed"))
async def slow() -> Thing:
    """Made by a coroutine; never reset."""
    await asyncio.sleep(0)
    return Thing("slow")


@TASKS.pool("cpu", max_idle=0.05)
@contextmanager
def shortly() -> Iterator[Thing]:
    """Goes when nobody uses it."""
    thing = Thing("shortly")
    yield thing
    thing.tell("closed")


@TASKS.pool("io", max_size=2, reset=Thing.clean)
async def session() -> AsyncIterator[Thing]:
    """Used in mode "asyncio"; an asynchronous generator whose scope belongs to one task."""
    task = asyncio.current_task()
    thing = Thing("session")
    yield thing
    assert asyncio.current_task() is task
    thing.tell("closed")


@TASKS.pool("io", max_size=1, timeout=0.02, name="narrow")
@asynccontextmanager
async def one_only() -> AsyncIterator[Thing]:
    """For one task at a time, and no patience."""
    thing = Thing("narrow")
    yield thing
    thing.tell("closed")


@TASKS.pool("alone", max_size=1, max_uses=3)
def only() -> Thing:
    """The only pool of its node type."""
    return Thing("only")


@TASKS.task(node_type="cpu")
def by_name(mark: Any, plain: Thing) -> list[Any]:
    """The thing comes by the name of the parameter."""
    return plain.use(mark)


@TASKS.task(node_type="cpu")
def by_annotation(thing: Annotated[Thing, slow], mark: Any) -> list[Any]:
    """The thing comes by annotation, as the first parameter."""
    return thing.use(mark)


@TASKS.task(node_type="cpu")
async def both(plain: Thing, ctx: TaskContext, mark: Any, *, slow: Thing) -> list[Any]:
    """Things before and behind a context, in a coroutine."""
    return [ctx.node, plain.use(mark)[2:], slow.use(mark)[2:]]


@TASKS.task(node_type="cpu")
def asks(ctx: TaskContext, mark: Any) -> list[Any]:
    """Takes them itself, one inside of the other."""
    with ctx.pool("plain") as one, ctx.pool("plain") as other:
        return [one.use(mark)[2:], other.use(mark)[2:], one.number != other.number]


@TASKS.task(node_type="cpu")
async def asks_async(ctx: TaskContext, mark: Any) -> list[Any]:
    """The same in a coroutine on the loop of a worker of mode "process"."""
    async with ctx.pool("slow") as one, ctx.pool("plain") as other:
        return [one.use(mark)[2:], other.use(mark)[2:]]


@TASKS.task(node_type="cpu")
def keeps(ctx: TaskContext, mark: Any) -> int:
    """Takes one and does not give it back."""
    thing: Thing = ctx.pool("plain").__enter__()
    thing.use(mark)
    return thing.number


@TASKS.task(node_type="cpu")
def returns_it(plain: Thing, mark: Any) -> Any:
    """Its result is what `reset` empties."""
    plain.use(mark)
    return plain.dirt


@TASKS.task(node_type="cpu")
def fails(plain: Thing, mark: Any) -> None:
    """Leaves dirt and fails."""
    plain.use(mark)
    raise ValueError(mark)


@TASKS.task(node_type="cpu")
def hangs(plain: Thing, mark: Any, started: str, release: str) -> None:
    """Is stopped while it has one."""
    plain.use(mark)
    note(started, f"number-{plain.number}")
    wait_for(release)


@TASKS.task(node_type="cpu", retry=2)
def dies_once(ctx: TaskContext, plain: Thing) -> list[int]:
    """Dies with it."""
    if ctx.attempt == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return [plain.number, os.getpid()]


@TASKS.task(node_type="cpu")
def brief(shortly: Thing) -> int:
    """Uses what goes soon."""
    return shortly.number


@TASKS.task(node_type="cpu")
def unknown(ctx: TaskContext) -> None:
    """Asks for what is not there."""
    with ctx.pool("session"):
        pass


@TASKS.task(node_type="io")
async def meets(session: Thing, mark: Any, count: int, folder: str) -> list[Any]:
    """Waits until so many have a thing at once."""
    session.users += 1
    found = [session.number, session.users, *session.use(mark)[2:]]
    note(str(Path(folder, str(mark))), "met")
    await asyncio.to_thread(wait_until_there, folder, count)
    session.users -= 1
    return found


@TASKS.task(node_type="io")
async def uses(session: Thing, mark: Any) -> list[Any]:
    """A coroutine."""
    session.users += 1
    users = session.users
    await asyncio.sleep(0)
    session.users -= 1
    return [session.number, users, *session.use(mark)[2:]]


@TASKS.task(node_type="io")
def in_thread(ctx: TaskContext, session: Thing, mark: Any) -> list[Any]:
    """A thread, which has one and asks for another."""
    with ctx.pool("session") as other:
        return [session.use(mark)[2:], other.use(mark)[2:], session.number != other.number]


@TASKS.task(node_type="io")
async def hangs_async(session: Thing, started: str, release: str) -> None:
    """Is stopped while it has one."""
    note(started, f"number-{session.number}")
    await asyncio.to_thread(wait_for, release)


@TASKS.task(node_type="io")
async def holds_two(ctx: TaskContext) -> None:
    """Waits for itself."""
    async with ctx.pool("narrow"), ctx.pool("narrow"):
        pass


@TASKS.task(node_type="alone")
def by_node_type(ctx: TaskContext) -> int:
    """Asks by the name of the node type."""
    with ctx.pool("alone") as thing:
        number: int = thing.number
        return number
