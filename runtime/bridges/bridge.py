"""The loop of a bridge, and its two faces: `AsyncBridge.run()` is awaited, `Bridge.run()` waits.

    connect ──► standing ──► resume ──► batch ──► publish ──► confirmed ──► batch ──► ...
       ▲           ▲───────────────────────────── disturbed ◄───┤
       └─────────── wait, longer each time ◄──────── lost ◄─────┘

One batch is under way at a time, so a slow server slows the bridge, and what waits is in the log. The log is read, and
the cursor written, by one thread of the bridge, while the loop talks to the server.

Concurrency: `run` is called once; `close` from any thread, or from a signal handler of the loop.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Self, TypeVar

from actors.protocol import limits
from actors.protocol.errors import CallerError, ConfigurationError
from actors.protocol.event_errors import BridgeUnavailable
from runtime.bridges.backoff import Backoff
from runtime.bridges.cursor import BridgeCursor
from runtime.bridges.outlet import Outlet, OutletDisturbed, OutletLost
from runtime.bridges.standing import StreamStanding
from runtime.bridges.target import STREAM, target_of
from runtime.checks import is_number
from runtime.event_filter import Since, filter_of

T = TypeVar("T")

PATIENCE_S: Final = 10.0
"""How long a server may be away when the bridge begins."""
POLL_S: Final = 0.02
"""Between two looks at the log while nothing happens."""
LEAVING_S: Final = 5.0
"""How long a batch that is under way may take when the bridge is closed."""
_LOG: Final = logging.getLogger("mainspring")


@dataclass(frozen=True, slots=True)
class BridgeStatistics:
    """Snapshot of a bridge.

    Args:
        published: Events that the server confirmed.
        repeats: Events that the server had, and refused.
        connections: How often it connected.
        position: The last event that the stream has, LSN-PLACE; "" before the first.
        lost: LSNs, from and to, that were removed from the log before they were published.
    """

    published: int
    repeats: int
    connections: int
    position: str
    lost: tuple[tuple[int, int], ...]


class AsyncBridge:
    """Publishes events of a state folder to a stream of NATS or Redis, each once and in order, for asyncio.

    Args:
        state: The state folder, with or without a running engine; or the runtime that has it open.
        to: The server: `nats://host:4222` (or several, with commas), `tls://`, `redis://host:6379/0`, `rediss://`.
        kinds: Kinds of events or patterns of them, as for `rt.events`; None for all.
        run: Run ids or patterns of them; None for all.
        names: Names or patterns of tasks, flows and schedules; None for all.
        stream: The stream, or key of Redis, which belongs to this bridge. In NATS it is made where it is missing.
        subject: NATS: what subjects begin with, before the kind; the stream's name, if None.
        name: Of the bridge, and of its cursor among the folder's subscriptions; by default `nats-STREAM`.
        since: Where a new bridge begins, as for `rt.events`; later it goes on behind what the stream has.
        keep: How many events are kept, about: of Redis always, of NATS in a stream that is made here; None: all.
        keep_bytes: Log that is kept for it beyond what is kept anyway.
        follow: Go on with what comes; else end with what is durable by now.
        patience: Seconds that the server may be away at the beginning. A server that goes later is waited for.
        credentials: NATS: a file with the user's credentials.

    Raises:
        ConfigurationError: It cannot be; all problems are named. SubscriptionInUse: a bridge of this name runs.
        StateFolderError, ...: The folder cannot be used. CursorBeyondEnd: its log is an older one than was published.

    What a crash leaves behind: the cursor, which `rt.unsubscribe(name)` removes. A new bridge that never reached its
    server leaves none.
    """

    def __init__(
        self,
        state: Any,
        to: str,
        kinds: str | Iterable[str] | None = None,
        *,
        run: str | Iterable[str] | None = None,
        names: str | Iterable[str] | None = None,
        stream: str = STREAM,
        subject: str | None = None,
        name: str | None = None,
        since: Since = "begin",
        keep: int | None = None,
        keep_bytes: int = limits.SUBSCRIPTION_KEEP_BYTES,
        follow: bool = True,
        patience: float = PATIENCE_S,
        credentials: str | None = None,
    ) -> None:
        wanted = filter_of(kinds, run, names)
        if not is_number(patience, 0.0, 1e9):
            raise ConfigurationError(f"bridge: patience must be a number of seconds, not {patience!r:.60}")
        self.closed = False
        self._target = target_of(to, stream, subject, keep, credentials)
        self._target.check_library()
        self._patience_s = patience
        self._follow = follow
        config = getattr(state, "config", None)
        folder = os.fspath(state if config is None else config.state_dir)
        self._cursor = BridgeCursor(folder, name or self._target.name, wanted, since, keep_bytes)
        self._disk = ThreadPoolExecutor(1, "mainspring-bridge")
        self._backoff = Backoff()
        self._begun = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ending: asyncio.Event | None = None
        self._published = self._repeats = self._connections = 0
        self._said = ""

    # --- running --------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Publish until `close`, or without `follow` until all is published that was durable. Call it once.

        Raises:
            BridgeUnavailable: The server was away for `patience` at the beginning, or refuses to serve.
            BridgeConflict: The stream is not this bridge's.
            ConfigurationError: The client library is not installed.
            LogCorrupt, StateFolderError: The log cannot be read.
        """
        if self._begun or self.closed:
            raise CallerError("a bridge runs once; make another one")
        self._begun = True
        self._loop, self._ending = asyncio.get_running_loop(), asyncio.Event()
        if self.closed:
            self._ending.set()
        begun = time.monotonic()
        try:
            while not self._ending.is_set():
                turn = self._backoff.failures + self._connections
                try:
                    await self._connected(self._target.outlet(self._cursor.source, turn))
                    return
                except OutletLost as lost:
                    self._judge(lost, self._target.shown(turn), time.monotonic() - begun)
                await self._wait(self._backoff.next_s())
        finally:
            self.closed = True
            await self._release()

    def _judge(self, lost: OutletLost, server: str, passed_s: float) -> None:
        """Whether it is worth to try again."""
        if not self._connections and (lost.refused or passed_s >= self._patience_s):
            doing = "does not serve this bridge" if lost.refused else "cannot be reached"
            raise BridgeUnavailable(f"{server} {doing}: {lost}") from lost
        if (said := f"{server}: {lost}") != self._said:  # once, however often it is tried
            self._said = said
            until = "" if self._connections else f", for {self._patience_s:g} s (patience)"
            _LOG.warning("bridge %s: %s; trying again%s", self._cursor.source.bridge, said, until)

    async def _connected(self, outlet: Outlet) -> None:
        """Publish through one connection, as long as it lasts."""
        connected = False
        try:
            await self._within(outlet.open())
            if self.closed:
                return
            while (standing := await self._standing(outlet)) is not None:
                connected, self._connections = True, self._connections + (not connected)
                await self._on_disk(self._cursor.resume, standing)
                with suppress(OutletDisturbed):
                    await self._publish(outlet)
                    return
        finally:
            self._repeats += outlet.repeats
            outlet.repeats = 0
            await outlet.close()

    async def _standing(self, outlet: Outlet) -> StreamStanding | None:
        """What the stream has; None: the bridge is closed."""
        found: list[StreamStanding] = []

        async def ask() -> None:
            found.append(await outlet.standing())

        return found[0] if await self._within(ask()) else None

    async def _publish(self, outlet: Outlet) -> None:
        while not self.closed:
            batch = await self._on_disk(lambda: self._cursor.batch(follow=self._follow))
            if batch:
                if not await self._within(outlet.publish(batch)):
                    return
                await self._on_disk(self._cursor.confirmed, batch[-1].at)
                self._said = ""
                self._published += len(batch)
                self._backoff.worked()
            elif not self._follow and self._cursor.at_end:
                return
            else:
                await self._wait(POLL_S)

    async def _within(self, doing: Awaitable[None]) -> bool:
        """Wait for it; once the bridge is closed, `LEAVING_S` at most. Whether it was done."""
        ending = self._ending
        if ending is None:
            raise CallerError("a bridge is run first")
        task, closed = asyncio.ensure_future(doing), asyncio.ensure_future(ending.wait())
        try:
            await asyncio.wait((task, closed), return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                await asyncio.wait((task,), timeout=LEAVING_S)
            if not task.done():
                return False
            task.result()
            return True
        finally:
            for one in (task, closed):
                one.cancel()
            await asyncio.gather(task, closed, return_exceptions=True)

    async def _wait(self, seconds: float) -> None:
        if self._ending is not None:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._ending.wait(), seconds)

    async def _on_disk(self, work: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._disk, work, *arguments)

    # --- the end --------------------------------------------------------------------------------------------------

    def statistics(self) -> BridgeStatistics:
        """What it published, and where it is."""
        noted = self._cursor.noted
        position = "" if noted is None else noted.text
        return BridgeStatistics(self._published, self._repeats, self._connections, position, tuple(self._cursor.lost))

    def close(self) -> None:
        """End it: what is under way is confirmed first, for some seconds. Again is harmless."""
        self.closed = True
        loop, ending = self._loop, self._ending
        if loop is not None and ending is not None:
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(ending.set)
        elif not self._begun:
            self._begun = True
            self._disk.shutdown()
            self._cursor.give_up()

    async def _release(self) -> None:
        """Write how far it came, behind what the thread still does."""
        try:  # who never began keeps no log from being cut
            await asyncio.shield(self._on_disk(self._cursor.close if self._connections else self._cursor.give_up))
        finally:
            self._disk.shutdown(wait=False)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()


class Bridge:
    """Publishes events of a state folder to a stream of NATS or Redis, each once and in order.

    Args:
        state: As for `AsyncBridge`, like all others.
        to: The server.
        kinds: Kinds of events or patterns of them; None for all.
        options: `run`, `names`, `stream`, `subject`, `name`, `since`, `keep`, `keep_bytes`, `follow`, `patience`,
            `credentials`.

    Raises:
        ConfigurationError, SubscriptionInUse, StateFolderError, CursorBeyondEnd: As `AsyncBridge`.
    """

    def __init__(self, state: Any, to: str, kinds: str | Iterable[str] | None = None, **options: Any) -> None:
        self._inner = AsyncBridge(state, to, kinds, **options)

    def run(self) -> None:
        """Publish in this thread, until `close` from another one, or Ctrl-C; raises what `AsyncBridge.run` does."""
        asyncio.run(self._inner.run())

    def statistics(self) -> BridgeStatistics:
        """What it published, and where it is."""
        return self._inner.statistics()

    def close(self) -> None:
        """End it: what is under way is confirmed first, for some seconds. Again is harmless."""
        self._inner.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
