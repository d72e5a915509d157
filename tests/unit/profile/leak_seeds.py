"""Leaks to be found, one for each row of the table of kinds, and waits that are none.

A `Garden` has a loop whose books are kept as a worker's are. `SEEDS` plant one more of their kind each time; what they
make is created in a function that is called `leak_...`, so that a finding can be held to its line.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import gc
import os
import socket
import subprocess
import sys
import threading
import warnings
import weakref
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

import uvloop

from runtime.profile.ledger import LEDGER, Gauged
from runtime.profile.model import Process
from runtime.profile.tasks import LoopBooks

LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.new_event_loop,
    "uvloop": uvloop.new_event_loop,
}
DEAD = Process(2**22 + 1, 1, "worker", 7, "http")
"""Pids end below."""


uvloop.new_event_loop().close()  # libuv opens a pipe for signals, once in a process


class Thing:
    """Can be held weakly."""


class Garden:
    """A loop, what is kept alive, and how it is all ended."""

    def __init__(self, loop: asyncio.AbstractEventLoop, books: LoopBooks) -> None:
        self.loop, self._books = loop, books
        self.kept: list[Any] = []
        self.ends: list[Callable[[], Any]] = []

    def run(self, plant: Callable[[Garden], Coroutine[Any, Any, None]]) -> None:
        """Plant once more; collect, as Python does sooner or later."""
        self.loop.run_until_complete(self._planted(plant))
        gc.collect()

    async def _planted(self, plant: Callable[[Garden], Coroutine[Any, Any, None]]) -> None:
        self._books.begin_run()
        await plant(self)
        await asyncio.sleep(0)

    def end(self) -> None:
        """Nothing is left."""
        for end in reversed(self.ends):
            with suppress(OSError, RuntimeError):
                end()
        self.kept.clear()
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.run_until_complete(asyncio.sleep(0))


@contextmanager
def garden(kind: str) -> Iterator[Garden]:
    """A garden of a loop of this kind, with fresh books of a process that is warm for long."""
    LEDGER.forked()
    LEDGER.born_ns -= 3_600_000_000_000
    before = getattr(warnings, "_warn_unawaited_coroutine")  # noqa: B009 - as below
    loop = LOOPS[kind]()
    asyncio.set_event_loop(loop)
    books = LoopBooks(loop)
    books.install()
    loop.set_exception_handler(books._told)
    books._before = lambda loop, context: None  # told already, and not printed
    made = Garden(loop, books)
    gc.collect()
    gc.freeze()  # so that each collection looks at the garden only
    try:
        yield made
    finally:
        made.end()
        setattr(warnings, "_warn_unawaited_coroutine", before)  # noqa: B010 - it is none of the module's own words
        loop.close()
        asyncio.set_event_loop(None)
        gc.unfreeze()
        gc.collect()
        LEDGER.forked()


# --- one of each kind -------------------------------------------------------------------------------------------------


async def waiting(future: asyncio.Future[None]) -> None:
    await future


async def leak_task(garden: Garden) -> None:
    future = garden.loop.create_future()
    garden.kept.append((future, asyncio.create_task(waiting(future), name="waits")))


async def leak_destroyed(garden: Garden) -> None:
    asyncio.create_task(waiting(garden.loop.create_future()))  # noqa: RUF006 - that is the leak


async def leak_unawaited(garden: Garden) -> None:
    waiting(garden.loop.create_future())


async def failing() -> None:
    raise ValueError("nobody will know")


async def leak_unread(garden: Garden) -> None:
    asyncio.create_task(failing())  # noqa: RUF006 - that is the leak
    await asyncio.sleep(0)
    await asyncio.sleep(0)


def gauged(kind: str) -> Callable[[Garden], Coroutine[Any, Any, None]]:
    """Something that is counted where it is kept: it becomes more and its oldest stays."""

    async def leak(garden: Garden) -> None:
        if not garden.kept:
            LEDGER.gauge(kind, lambda: count(garden))
        garden.kept.append(1)

    def count(garden: Garden) -> Gauged:
        return len(garden.kept), 0, LEDGER.born_ns + 30_000_000_000

    return leak


async def leak_actor(garden: Garden) -> None:
    LEDGER.track("actor", "shop", owner=DEAD)


async def numbers() -> AsyncIterator[int]:
    yield 1
    yield 2


async def leak_generator(garden: Garden) -> None:
    opened = numbers()
    async for _ in opened:
        break
    garden.kept.append(opened)


def work(event: threading.Event) -> None:
    event.wait()


async def leak_thread(garden: Garden) -> None:
    event = threading.Event()
    thread = threading.Thread(target=work, args=(event,))
    thread.start()
    garden.ends += [thread.join, event.set]


async def leak_executor(garden: Garden) -> None:
    event, begun = threading.Event(), threading.Event()
    executor = concurrent.futures.ThreadPoolExecutor(1)
    executor.submit(begun.set)
    executor.submit(work, event)
    begun.wait()
    (thread,) = executor._threads
    garden.ends += [thread.join, event.set]


async def leak_process(garden: Garden) -> None:
    child = subprocess.Popen([sys.executable, "-S", "-c", ""])  # noqa: ASYNC220 - nothing else runs in this loop
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # noqa: ASYNC222 - as above
    garden.kept.append(child)
    garden.ends.append(child.wait)


async def leak_view(garden: Garden) -> None:
    LEDGER.track("view", weakref.ref(Thing()))


async def leak_lock(garden: Garden) -> None:
    task = asyncio.create_task(asyncio.sleep(0))
    LEDGER.track("lock", "orders", owner=weakref.ref(task))
    await task
    garden.kept.append(task)


async def leak_descriptor(garden: Garden) -> None:
    LEDGER.register_kind("descriptor", budget=3)
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = socket.create_connection(server.getsockname())
        server.accept()[0].close()
    garden.ends.append(client.close)
    garden.kept.append(client)


async def leak_transport(garden: Garden) -> None:
    LEDGER.track("transport", weakref.ref(Thing()))


async def leak_subscription(garden: Garden) -> None:
    LEDGER.track("subscription", "orders", owner=weakref.ref(Thing()))


async def leak_checkout(garden: Garden) -> None:
    LEDGER.track("checkout", weakref.ref(Thing()), owner="pool http")


async def leak_books(garden: Garden) -> None:
    token = LEDGER.track("lock", "orders")
    LEDGER.release(token)
    LEDGER.release(token)


class Row(NamedTuple):
    """A kind, how it is planted, whether it is proved, and the function that a finding must name."""

    kind: str
    plant: Callable[[Garden], Coroutine[Any, Any, None]]
    proved: bool
    created: str
    owner: str = "worker 3 [http]"


SEEDS = (
    Row("task", leak_task, False, "leak_task"),
    Row("destroyed", leak_destroyed, True, "waiting"),
    Row("unawaited", leak_unawaited, True, "waiting"),
    Row("unread", leak_unread, True, "failing"),
    Row("run", gauged("run"), False, ""),
    Row("actor", leak_actor, True, "leak_actor", "worker 7 [http] (pid 4194305)"),
    Row("message", gauged("message"), False, ""),
    Row("ask", gauged("ask"), False, ""),
    Row("timer", gauged("timer"), False, ""),
    Row("generator", leak_generator, False, "numbers"),
    Row("thread", leak_thread, False, "work"),
    Row("executor", leak_executor, True, "work"),
    Row("process", leak_process, True, "child python"),
    Row("segment", gauged("segment"), False, ""),
    Row("view", leak_view, True, "leak_view"),
    Row("lock", leak_lock, True, "leak_lock", "Task-"),
    Row("lease", gauged("lease"), False, ""),
    Row("descriptor", leak_descriptor, True, "socket"),
    Row("transport", leak_transport, True, "leak_transport"),
    Row("subscription", leak_subscription, True, "leak_subscription"),
    Row("checkout", leak_checkout, True, "leak_checkout", "pool http"),
    Row("ledger", leak_books, True, "books of ?"),
)


# --- waits that are none ----------------------------------------------------------------------------------------------


async def healthy_socket(garden: Garden) -> None:
    one, other = socket.socketpair()
    one.setblocking(False)
    garden.ends += [one.close, other.close]
    garden.kept.append(asyncio.create_task(receive(one)))


async def receive(one: socket.socket) -> None:
    await asyncio.get_running_loop().sock_recv(one, 1)


async def healthy_queue(garden: Garden) -> None:
    queue: asyncio.Queue[int] = asyncio.Queue()
    garden.kept += [queue, asyncio.create_task(take(queue))]


async def take(queue: asyncio.Queue[int]) -> None:
    while True:
        await queue.get()


async def healthy_sleep(garden: Garden) -> None:
    garden.kept.append(asyncio.create_task(asyncio.sleep(3600)))  # sleep: it is what is looked at


async def healthy_thread(garden: Garden) -> None:
    event, pool = threading.Event(), concurrent.futures.ThreadPoolExecutor(2)
    garden.ends += [pool.shutdown, event.set]
    garden.kept += [pool, garden.loop.run_in_executor(pool, event.wait)]


async def healthy_idle_pool(garden: Garden) -> None:
    pool = concurrent.futures.ThreadPoolExecutor(2)
    pool.submit(int).result()
    garden.ends.append(pool.shutdown)
    garden.kept.append(pool)


async def healthy_child(garden: Garden) -> None:
    child = await asyncio.create_subprocess_exec(sys.executable, "-S", "-c", "input()", stdin=subprocess.PIPE)
    garden.kept.append(asyncio.create_task(child.wait()))

    def end() -> None:
        child.kill()
        garden.loop.run_until_complete(child.wait())

    garden.ends.append(end)


async def healthy_group(garden: Garden) -> None:
    async def grouped() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(asyncio.sleep(3600))  # sleep: it is what is looked at

    garden.kept.append(asyncio.create_task(grouped()))


async def healthy_timers(garden: Garden) -> None:
    """Cancelled, and parked until they are due."""
    for _ in range(100):
        garden.loop.call_later(3600, print).cancel()


async def healthy_keep_alive(garden: Garden) -> None:
    """An idle connection that its server closed: its pool finds out when it takes it."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = socket.create_connection(server.getsockname())
        server.accept()[0].close()
    garden.ends.append(client.close)


async def healthy_lease(garden: Garden) -> None:
    LEDGER.track("checkout", "session", ttl=7200)


async def healthy_event(garden: Garden) -> None:
    event = asyncio.Event()
    garden.kept += [event, asyncio.create_task(event.wait())]


async def healthy_generator(garden: Garden) -> None:
    opened = numbers()
    await anext(opened)
    garden.kept.append(opened)


async def healthy_daemon(garden: Garden) -> None:
    for number in range(100):
        LEDGER.track("subscription", number, daemon=True)


async def healthy_server(garden: Garden) -> None:
    server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
    garden.kept.append(server)
    garden.ends.append(server.close)


DECOYS = tuple(found for name, found in list(globals().items()) if name.startswith("healthy_"))
