"""What the scenario `pool` lets workers run: calls to a service with a connection of their own, or one out of a pool.

A session is what clients of HTTP have: a connection, a buffer, and parts that refer to each other, so that it goes with
the collector of cycles and not with its last reference. The service answers at once, on a Unix socket.
"""

from __future__ import annotations

import asyncio
import gc
import os
import time
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

from runtime.registry import TaskRegistry

TASKS: Final = TaskRegistry()
POOLED: Final = "http_call"
SERVICE: Final = "MAINSPRING_BENCH_SERVICE"
"""Environment variable with the socket of the service."""
FRESH: Final = "http_call_fresh"
POOL_SIZE: Final = 64
BUFFER_BYTES: Final = 65_536
REQUEST: Final = b"GET / HTTP/1.1\r\nHost: service\r\n\r\n"
BODY_BYTES: Final = 4_096
RETRY_S: Final = 0.01


class Client:
    """A connection with what a client keeps beside it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.buffer = bytearray(BUFFER_BYTES)
        self.cookies: dict[str, str] = {}
        self.parser: dict[str, Any] = {"session": self, "headers": {}, "state": "idle"}

    @classmethod
    async def open(cls, path: str) -> Client:
        """Connect; a service whose queue is full is asked again."""
        while True:
            try:
                return cls(*await asyncio.open_unix_connection(path))
            except BlockingIOError:
                await asyncio.sleep(RETRY_S)

    async def call(self) -> int:
        """A request and its answer; returns when it was there."""
        self.writer.write(REQUEST)
        answer = await self.reader.readexactly(len(REQUEST))
        self.buffer[: len(answer)] = answer
        self.cookies["visited"] = "yes"
        return time.monotonic_ns()

    def clean(self) -> None:
        """As new."""
        self.cookies.clear()

    async def close(self) -> None:
        """Disconnect."""
        self.writer.close()
        await self.writer.wait_closed()


@TASKS.pool(POOLED, max_size=POOL_SIZE, reset=Client.clean)
async def session() -> AsyncIterator[Client]:
    """To the service of this run."""
    made = await Client.open(os.environ[SERVICE])
    yield made
    await made.close()


@TASKS.task(node_type=POOLED)
async def call_pooled(number: int, session: Client) -> int:
    """With a session out of the pool."""
    return await session.call()


@TASKS.task(node_type=FRESH)
async def call_fresh(number: int) -> int:
    """With a session of its own."""
    mine = await Client.open(os.environ[SERVICE])
    try:
        return await mine.call()
    finally:
        await mine.close()


async def facts(number: int) -> tuple[int, int, int]:
    """Who this is, collections so far, and the most memory that this process ever had."""
    return os.getpid(), _collections(), _memory("VmHWM")


class Response:
    """A response as a framework makes one for each request: headers, a body, and a way back to its request."""

    __slots__ = ("body", "headers", "request", "status")

    def __init__(self) -> None:
        self.status = 200
        self.headers: dict[str, str] = {}
        self.body = bytearray(BODY_BYTES)
        self.request: dict[str, Any] = {"response": self}

    def clean(self) -> None:
        """As new."""
        self.status = 200
        self.headers.clear()


def use_fresh(count: int) -> list[float]:
    """So many responses, each made anew: nanoseconds of one, collections, seconds, bytes of memory at the most."""

    def use() -> None:
        for _ in range(count):
            Response().headers["length"] = "0"

    return _measured(use, count)


def use_again(count: int) -> list[float]:
    """The same with a list of free ones, the cheapest pool there is in Python."""
    free = [Response()]
    take, give = free.pop, free.append

    def use() -> None:
        for _ in range(count):
            response = take()
            response.headers["length"] = "0"
            response.clean()
            give(response)

    return _measured(use, count)


def _measured(use: Callable[[], None], count: int) -> list[float]:
    gc.collect()
    with open("/proc/self/clear_refs", "w") as peak:
        peak.write("5")  # the peak begins anew: proc_pid_clear_refs(5)
    before_bytes, before, started_ns = _memory("VmRSS"), _collections(), time.perf_counter_ns()
    use()
    took_ns = time.perf_counter_ns() - started_ns
    return [took_ns / count, _collections() - before, took_ns / 1e9, _memory("VmHWM") - before_bytes]


def _memory(field: str) -> int:
    """Bytes, by the name of a row of /proc/self/status."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(field)) * 1024


def _collections() -> int:
    return sum(row["collections"] for row in gc.get_stats())


def serve(path: str) -> None:
    """The service: says back what it hears. Prints a line when it listens; ends with its standard input."""
    asyncio.run(_serve(path))


async def _serve(path: str) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while request := await reader.read(BODY_BYTES):
            writer.write(request)
        writer.close()

    async with await asyncio.start_unix_server(answer, path, backlog=4_096):
        print("ready", flush=True)
        await asyncio.to_thread(input_ended)


def input_ended() -> None:
    """Wait for the end of standard input."""
    import sys  # lazy: of the service only

    sys.stdin.read()
