"""Waits, and things that are held, that are no leaks."""

from __future__ import annotations

import asyncio
import concurrent.futures
import socket
import subprocess
import sys
import threading

from runtime.profile.ledger.books import LEDGER
from tests.unit.profile.garden import Garden
from tests.unit.profile.leak_seeds import numbers


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
