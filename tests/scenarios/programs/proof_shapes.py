"""Tasks that nothing alive can wake, and tasks that look like them: each coroutine of `Leaks` and `Waits` is one.

    python -m tests.scenarios.programs.proof_shapes asyncio|uvloop here|thread

starts all of them, pins them as an engine does, and prints what the proof says, as JSON; asked from the loop's thread
or from another, as a process is asked that serves.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any

import orjson
import uvloop

from runtime.profile.proof.kin import chain_of, stack_of, waiter_of
from runtime.profile.proof.prove import as_rows, examine

PINNED: set[asyncio.Task[Any]] = set()
REACHABLE: dict[str, Any] = {}
"""What the living have: through it a wait can end."""


class Leaks:
    """Nothing alive can end these waits."""

    async def future(self) -> None:
        await asyncio.get_running_loop().create_future()

    async def queue(self) -> None:
        await asyncio.Queue[int]().get()

    async def event(self) -> None:
        await asyncio.Event().wait()

    async def condition(self) -> None:
        condition = asyncio.Condition()
        async with condition:
            await condition.wait()

    async def lock(self) -> None:
        lock = asyncio.Lock()
        await lock.acquire()
        await lock.acquire()

    async def generator(self) -> None:
        async def produces() -> AsyncIterator[int]:
            yield await asyncio.get_running_loop().create_future()

        async for _ in produces():
            pass

    async def gather(self) -> None:
        loop = asyncio.get_running_loop()
        await asyncio.gather(loop.create_future(), loop.create_future())

    async def group(self) -> None:
        async with asyncio.TaskGroup() as group:
            _pin(group.create_task(self.future(), name="group"))
            group.create_task(asyncio.sleep(3600), name="sleeps")

    async def deadlock(self) -> None:
        """Two of them, each with the lock that the other wants."""
        first, second = asyncio.Lock(), asyncio.Lock()
        ready = asyncio.Event()
        _pin(asyncio.create_task(_takes(second, first, ready), name="deadlock"))
        await ready.wait()
        await _takes(first, second, ready)


async def _takes(first: asyncio.Lock, second: asyncio.Lock, ready: asyncio.Event) -> None:
    async with first:
        ready.set()
        await asyncio.sleep(0)
        async with second:
            pass


class Waits:
    """Something alive can end these waits."""

    def __init__(self) -> None:
        self.ends: list[Callable[[], Any]] = []

    async def sock(self) -> None:
        near, far = socket.socketpair()
        near.setblocking(False)
        self.ends += [far.close, near.close]
        await asyncio.get_running_loop().sock_recv(near, 1)

    async def stream(self) -> None:
        near, far = socket.socketpair()
        self.ends.append(far.close)
        reader, writer = await asyncio.open_connection(sock=near)
        self.ends.append(writer.close)
        await reader.readline()

    async def server(self) -> None:
        server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
        async with server:
            await server.serve_forever()

    async def executor(self) -> None:
        hold = threading.Event()
        self.ends.append(hold.set)
        await asyncio.get_running_loop().run_in_executor(None, hold.wait)

    async def subprocess(self) -> None:
        reads = (sys.executable, "-S", "-c", "import sys; sys.stdin.read()")
        child = await asyncio.create_subprocess_exec(*reads, stdin=asyncio.subprocess.PIPE)
        assert child.stdin is not None
        try:
            await child.wait()
        finally:
            child.stdin.close()
            await child.wait()

    async def signalled(self) -> None:
        event = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR2, event.set)
        await event.wait()

    async def timer(self) -> None:
        future = asyncio.get_running_loop().create_future()
        self.ends.append(asyncio.get_running_loop().call_later(3600, future.set_result, None).cancel)
        await future

    async def thread(self) -> None:
        loop, hold = asyncio.get_running_loop(), threading.Event()
        future = loop.create_future()

        def later(done: asyncio.Future[None]) -> None:
            hold.wait()
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(lambda: done.done() or done.set_result(None))

        started = threading.Thread(target=later, args=(future,))
        started.start()
        self.ends += [hold.set, started.join]
        await future

    async def reader(self) -> None:
        near, far = os.pipe()
        event = asyncio.Event()
        asyncio.get_running_loop().add_reader(near, event.set)
        loop = asyncio.get_running_loop()
        self.ends += [lambda: loop.remove_reader(near), lambda: os.close(near), lambda: os.close(far)]
        await event.wait()

    async def grouped(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(asyncio.sleep(3600), name="sleeps")

    async def sleep(self) -> None:
        await asyncio.sleep(3600)

    async def limited(self) -> None:
        async with asyncio.timeout(3600):
            await asyncio.get_running_loop().create_future()

    async def waited(self) -> None:
        await asyncio.wait_for(asyncio.Event().wait(), 3600)

    async def raced(self) -> None:
        """The first that ends ends the other."""
        others = [asyncio.create_task(asyncio.Event().wait(), name="loser") for _ in range(2)]
        PINNED.update(others)
        await asyncio.wait(others, timeout=3600)

    async def produced(self) -> None:
        queue = asyncio.Queue[int]()

        async def produces() -> None:
            await asyncio.sleep(3600)
            queue.put_nowait(1)

        _pin(asyncio.create_task(produces(), name="sleeps"))
        await queue.get()

    async def reachable(self) -> None:
        event = REACHABLE["event"] = asyncio.Event()
        await event.wait()

    async def locked(self) -> None:
        lock = asyncio.Lock()

        async def holds() -> None:
            async with lock:
                await asyncio.sleep(3600)

        _pin(asyncio.create_task(holds(), name="sleeps"))
        await asyncio.sleep(0)
        await lock.acquire()

    async def cancelled_by(self) -> None:
        """A callback has the task itself."""
        task = asyncio.current_task()
        assert task is not None
        self.ends.append(asyncio.get_running_loop().call_later(3600, task.cancel).cancel)
        del task
        await asyncio.get_running_loop().create_future()


def _pin(task: asyncio.Task[Any]) -> None:
    PINNED.add(task)
    task.add_done_callback(PINNED.discard)


def names_of(shapes: type) -> list[str]:
    return [name for name in vars(shapes) if not name.startswith("_")]


async def start(shapes: Leaks | Waits) -> None:
    """Start all, and let them come to where they wait."""
    for name in names_of(type(shapes)):
        make: Callable[[], Awaitable[None]] = getattr(shapes, name)
        _pin(asyncio.ensure_future(make()))
        next(task for task in PINNED if task.get_name().startswith("Task-")).set_name(name)


async def end(waits: Waits) -> None:
    """Take all down again."""
    for task in list(PINNED):
        task.cancel()
    for done in waits.ends:
        done()
    await asyncio.gather(*PINNED, return_exceptions=True)
    with suppress(ValueError, RuntimeError):
        asyncio.get_running_loop().remove_signal_handler(signal.SIGUSR2)
    PINNED.clear()
    REACHABLE.clear()


async def settled(names: list[str]) -> None:
    """Everybody has come to where it waits for good: a child process has started, a socket is connected."""
    last = {"stream": "readline", "subprocess": "wait"}
    while True:
        there = {task.get_name(): task for task in PINNED}
        waits = [name in there and waiter_of(there[name]) is not None for name in names]
        if all(waits) and all(any(last[name] in row.name for row in stack_of(chain_of(there[name]))) for name in last):
            break
        await asyncio.sleep(0)
    for _ in range(100):
        await asyncio.sleep(0)


async def main(asked: str) -> None:
    waits = Waits()
    await start(Leaks())
    await start(waits)
    await settled([*names_of(Leaks), *names_of(Waits)])
    try:
        found = examine(confirm_s=0.0) if asked == "here" else await asyncio.to_thread(examine, confirm_s=0.0)
        print(orjson.dumps(as_rows(found)).decode())
    finally:
        await end(waits)


if __name__ == "__main__":
    loops = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
    with asyncio.Runner(loop_factory=loops[sys.argv[1]]) as runner:
        runner.run(main(sys.argv[2]))
