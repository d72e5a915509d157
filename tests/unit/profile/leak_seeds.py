"""Leaks to be found: one seed, and more where a kind has several, for each row of the table of kinds.

Each plants one more real thing: a task of asyncio, a socket whose other side closed, a block whose maker was killed, a
worker's lease table whose worker was. Where the line that makes it is, the source says `# made: KIND`; a finding must
name that line.

    row  seed                                              found by                            line known: that of
    1    task         a task awaits a future that is kept  growth                              create_task
    2    destroyed    a task that nobody holds             the event                           create_task
    3    unawaited    a call without await                 the event                           the call, from the 2nd
    4    unread       a task fails, nobody asks            the event                           create_task
    5    run          a node of a core fell back to wait   the engine's evidence, twice        the handler
    6    actor        a worker whose spawner was killed    the program's evidence, twice       none: its title
    7    message      work sent to a worker that was       the engine's evidence, twice        the handler
                      killed before it took it
    8    ask          a question; its engine was killed    the program's evidence, 5 s         the question
    9    timer        a run ended, its timer is armed      the engine's evidence, twice        the handler
    10   generator    an async generator that is kept      growth (mark: `test_mark_things`)   the `async for`
    11   thread       a thread that waits for an event     growth                              Thread.start
    12   executor     dropped while its thread works       it was collected, its thread is not ThreadPoolExecutor()
         executor     kept, never shut down                growth                              ThreadPoolExecutor()
    13   process      a child ends, nobody waits           a zombie, twice                     Popen()
    14   segment      its maker was killed, nobody maps    evidence, twice                     create_block()
         segment      SharedMemory that is kept            growth                              SharedMemory()
    15   view         a view, and its block is closed      BufferError                         SharedMemory()
    16   lock         a task ends with asyncio.Lock        its owner is done                   acquire
    17   lease        claimed by a worker that was killed  the engine's evidence, twice        the handler
    18   descriptor   a socket that the other side closed  CLOSE_WAIT, twice                   create_connection
    19   transport    a stream that the other side closed  CLOSE_WAIT, twice                   open_connection
    20   subscription a durable one, dropped unclosed      it was collected                    the subscribing line
    21   checkout     a loan, dropped with its attempt     it was collected                    the handler
    22   ledger       released twice                       the books                           the release
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from multiprocessing import shared_memory
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, NamedTuple

from runtime.event_cursor import EventCursor
from runtime.event_filter import EventFilter
from runtime.host.client import EngineClient
from runtime.host.lender import ObjectPool
from runtime.host.pool_hosts import OnLoop
from runtime.pools import Pool, PoolOptions
from runtime.profile.ledger.books import LEDGER
from runtime.subscription import Subscription
from tests.unit.profile import stranded_seeds
from tests.unit.profile.garden import Garden
from tests.unit.runtime.fake_engine import FakeEngine
from tests.unit.storage.openings_log import OpeningsLog


class Row(NamedTuple):
    """A kind, how it is planted, whether it is proved, the function that a finding must name, and who has it."""

    kind: str
    plant: Callable[[Garden], Coroutine[Any, Any, None]]
    proved: bool
    owner: str = "worker 3 [http]"
    made: str = ""

    @property
    def id(self) -> str:
        """For the test."""
        return self.plant.__name__.removeprefix("leak_")

    def place(self) -> tuple[str, int] | None:
        """File and line where the source says that it is made; None: it says so nowhere."""
        for module in (sys.modules[__name__], stranded_seeds):
            path = str(module.__file__)
            for number, line in enumerate(Path(path).read_text(encoding="utf-8").splitlines(), 1):
                if line.endswith(f"# made: {self.made or self.id}"):
                    return path, number
        return None


async def waiting(future: asyncio.Future[None]) -> None:
    await future


async def leak_task(garden: Garden) -> None:
    future = garden.loop.create_future()
    task = asyncio.create_task(waiting(future), name="waits")  # made: task
    garden.kept.append((future, task))


async def leak_destroyed(garden: Garden) -> None:
    make = asyncio.create_task
    make(waiting(garden.loop.create_future()))  # made: destroyed


async def leak_unawaited(garden: Garden) -> None:
    waiting(garden.loop.create_future())  # made: unawaited


async def failing() -> None:
    raise ValueError("nobody will know")


async def leak_unread(garden: Garden) -> None:
    make = asyncio.create_task
    make(failing())  # made: unread
    await asyncio.sleep(0)
    await asyncio.sleep(0)


async def numbers() -> AsyncIterator[int]:
    yield 1
    yield 2


async def leak_generator(garden: Garden) -> None:
    opened = numbers()
    async for _ in opened:  # made: generator
        break
    garden.kept.append(opened)


def work(event: threading.Event) -> None:
    event.wait()


async def leak_thread(garden: Garden) -> None:
    event = threading.Event()
    thread = threading.Thread(target=work, args=(event,))
    thread.start()  # made: thread
    garden.ends += [thread.join, event.set]


async def leak_executor(garden: Garden) -> None:
    event, begun = threading.Event(), threading.Event()
    executor = concurrent.futures.ThreadPoolExecutor(1)  # made: executor
    executor.submit(begun.set)
    executor.submit(work, event)
    begun.wait()
    (thread,) = executor._threads
    garden.ends += [thread.join, event.set]


async def leak_idle_executor(garden: Garden) -> None:
    executor = concurrent.futures.ThreadPoolExecutor(1)  # made: idle_executor
    executor.submit(int).result()
    garden.kept.append(executor)
    garden.ends.append(executor.shutdown)


async def leak_process(garden: Garden) -> None:
    command = [sys.executable, "-S", "-c", ""]
    child = subprocess.Popen(command)  # noqa: ASYNC220 - nothing else runs in this loop  # made: process
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # noqa: ASYNC222 - as above
    garden.kept.append(child)
    garden.ends.append(child.wait)


async def leak_kept_block(garden: Garden) -> None:
    block = shared_memory.SharedMemory(create=True, size=64)  # made: kept_block
    garden.kept.append(block)
    garden.ends += [block.unlink, block.close]


async def leak_view(garden: Garden) -> None:
    block = shared_memory.SharedMemory(create=True, size=64)  # made: view
    assert block.buf is not None
    view = block.buf[:10]
    try:
        block.close()
    except BufferError:
        garden.kept.append(block)
    garden.ends += [block.unlink, block.close, view.release]


async def take_and_forget(lock: asyncio.Lock) -> None:
    await lock.acquire()  # made: lock


async def leak_lock(garden: Garden) -> None:
    lock = asyncio.Lock()
    task = asyncio.create_task(take_and_forget(lock), name="forgets")
    await task
    garden.kept += [lock, task]


async def leak_descriptor(garden: Garden) -> None:
    LEDGER.register_kind("descriptor", budget=3)
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = socket.create_connection(server.getsockname())  # made: descriptor
        server.accept()[0].close()
    garden.ends.append(client.close)
    garden.kept.append(client)


async def leak_transport(garden: Garden) -> None:
    LEDGER.register_kind("descriptor", budget=3)
    with socket.create_server(("127.0.0.1", 0)) as server:
        host, port = server.getsockname()
        reader, writer = await asyncio.open_connection(host, port)  # made: transport
        server.accept()[0].close()
    assert await reader.read() == b""
    garden.ends.append(writer.transport.abort)
    garden.kept.append(writer)


async def leak_subscription(garden: Garden) -> None:
    if not garden.kept:
        engine: Any = FakeEngine()
        client = EngineClient(engine, "s", None)
        client.start()
        garden.ends.append(lambda: engine.end(client))
        garden.kept.append(client)
    log = OpeningsLog(Path(mkdtemp(dir=garden.folder)), segment_bytes=200)
    log.writer.close()
    cursor = EventCursor(log.path, "orders", EventFilter(), "begin", 100, 0)  # made: subscription
    Subscription(cursor, garden.kept[0], follow=False)


def connect() -> object:
    """Makes a thing of a pool."""
    return object()


async def handler() -> None:  # made: checkout
    """Uses one."""


async def leak_checkout(garden: Garden) -> None:
    pool = ObjectPool(Pool(connect, PoolOptions(name="http", max_size=1)), 1)
    await pool.lend(OnLoop(threading.Lock(), garden.loop), [], "handler", handler.__code__)


async def leak_ledger(garden: Garden) -> None:
    token = LEDGER.track("lock", "orders")
    LEDGER.release(token)
    LEDGER.release(token)  # made: ledger


SEEDS = (
    Row("task", leak_task, False),
    Row("destroyed", leak_destroyed, True),
    Row("unawaited", leak_unawaited, True),
    Row("unread", leak_unread, True),
    Row("run", stranded_seeds.leak_run, True, "engine", "handler"),
    Row("actor", stranded_seeds.leak_actor, True, "pid "),
    Row("message", stranded_seeds.leak_message, True, "worker 1 [default] (pid ", "handler"),
    Row("ask", stranded_seeds.leak_ask, True, "engine (pid "),
    Row("timer", stranded_seeds.leak_timer, True, "engine", "handler"),
    Row("generator", leak_generator, False),
    Row("thread", leak_thread, False),
    Row("executor", leak_executor, True),
    Row("executor", leak_idle_executor, False),
    Row("process", leak_process, True),
    Row("segment", stranded_seeds.leak_segment, True),
    Row("segment", leak_kept_block, False),
    Row("view", leak_view, True),
    Row("lock", leak_lock, True, "forgets"),
    Row("lease", stranded_seeds.leak_lease, True, "worker 1 [default] (pid ", "handler"),
    Row("descriptor", leak_descriptor, True),
    Row("transport", leak_transport, True),
    Row("subscription", leak_subscription, True),
    Row("checkout", leak_checkout, True, "handler"),
    Row("ledger", leak_ledger, True),
)
