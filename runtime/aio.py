"""AsyncRuntime: the runtime for asyncio programs.

    async with AsyncRuntime("state/", tasks) as rt:
        handle = await rt.submit(transform, rows)        # returns once durable
        print(await handle)
        async for square in rt.map(math.sqrt, range(1_000_000)): ...

The engine's frames are read by the running loop itself (`add_reader` on the link's bell), without a thread in
between; asyncio's own loops and uvloop will do. Starting, closing and writing large values are done in the loop's
executor. A wait that is cancelled leaves the task as it is. See `runtime.engine` for what opening and closing mean.

Concurrency: one loop, one thread. For several threads use `Runtime`. When the loop was closed, the next loop that waits
for something goes on with it.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any, Self, TypeVar

from actors.protocol import limits
from actors.protocol.errors import RuntimeClosed
from runtime import views
from runtime.aio_event_calls import AsyncEventCalls
from runtime.aio_handle import AsyncHandle, AsyncRunHandle, answer_of, attach, settled
from runtime.aio_iterators import EndingOrder, Pages
from runtime.aio_operations import AsyncOperations
from runtime.aio_past import RunPages
from runtime.aio_query_calls import AsyncQueryCalls
from runtime.aio_schedule_calls import AsyncScheduleCalls
from runtime.aio_submitter import AsyncSubmitter
from runtime.config import DRAIN_TIMEOUT_S, Durability, MissingHandler, NodeType, Priority, RuntimeConfig
from runtime.dispatch import Dispatch
from runtime.flow import Flow
from runtime.host.client import EXIT_S, EngineClient, EngineStarter
from runtime.host.scaling import OnScale
from runtime.opening import new_client
from runtime.profile_calls import AsyncProfileCalls
from runtime.profiling import Profiling
from runtime.registry import TaskRegistry
from runtime.retention import Retention
from runtime.scheduling import Rate, Scheduling, SchedulingStatus, Share, ask_entry, ask_policy
from runtime.views import Request, RunStatus

A = TypeVar("A", bound=AsyncHandle)


class AsyncRuntime(
    AsyncEventCalls, AsyncOperations, AsyncProfileCalls, AsyncQueryCalls, AsyncScheduleCalls, AsyncSubmitter
):
    """See the module; arguments as `runtime.engine.Runtime`. Opened by `async with`, or by `await rt.open()`."""

    def __init__(
        self,
        state_dir: str | os.PathLike[str],
        tasks: TaskRegistry | None = None,
        *,
        node_types: Sequence[NodeType] | None = None,
        durability: Durability = "fsync",
        retention: Retention | None = None,
        salvage: bool = False,
        missing_handler: MissingHandler = "park",
        scheduling: Scheduling | None = None,
        on_scale: OnScale | None = None,
        checkpoint_bytes: int | None = limits.CHECKPOINT_BYTES,
        log_shards: int | None = None,
        profiling: Profiling | None = None,
        starter: EngineStarter | None = None,
    ) -> None:
        self.config = RuntimeConfig(
            os.fspath(state_dir),
            node_types or (),
            durability,
            retention or Retention(),
            salvage,
            missing_handler,
            scheduling or Scheduling(),
            on_scale,
            checkpoint_bytes,
            log_shards,
            profiling or Profiling(),
        )
        self._tasks = tasks or TaskRegistry()
        self._starter = starter
        self._opened = self._closed = False

    def __getattr__(self, name: str) -> Any:
        if name in ("_client", "_dispatch"):
            raise RuntimeClosed("this AsyncRuntime is not open: use `async with`, or `await rt.open()`")
        raise AttributeError(name)

    async def open(self) -> Self:
        """Start the engine and recover the folder.

        Raises:
            RuntimeClosed: It was opened before. StateFolderError, EngineUnavailable, ...: as `Runtime`.
        """
        if self._opened:
            raise RuntimeClosed("an AsyncRuntime is opened once")
        self._opened = True
        loop = asyncio.get_running_loop()
        opening = _Opening(self.config, self._starter)
        starting = loop.run_in_executor(None, opening.run)
        try:
            await asyncio.wait((starting,))
            self._client = starting.result()
        except asyncio.CancelledError:
            self._closed = True
            started = opening.give_up()
            ending: asyncio.Future[Any] = starting
            if started is not None:
                ending = loop.run_in_executor(None, _stopped, started)
            ending.add_done_callback(_heard)
            await asyncio.wait((ending,))
            raise
        except BaseException:
            self._closed = True
            raise
        self._dispatch = Dispatch(self._client, self.config, self._tasks)
        self._client.attach_loop(loop)
        self._begin_profile()
        return self

    @property
    def recovery(self) -> dict[str, Any]:
        """What the engine found, cut and resumed when it opened the folder."""
        return dict(self._client.intake.recovery)

    async def run(self, flow: Flow, /, *, run_id: str | None = None, timeout: float | None = None) -> AsyncRunHandle:
        """Submit a flow, wait for its end and raise if it did not succeed.

        Args:
            flow: The flow.
            run_id: Identity of the run, see `submit`.
            timeout: Seconds to wait; None waits as long as it takes.

        Returns:
            The handle, whose results can be taken.

        Raises:
            TaskFailed: A node failed. WaitTimeout: the time is over; the run goes on. Otherwise as `submit`.
        """
        handle = await self.submit(flow, run_id=run_id)
        return await handle.raise_if_failed(timeout)

    async def handle(self, run_id: str) -> AsyncRunHandle:
        """Find a run of any session and program again.

        Args:
            run_id: Its id.

        Returns:
            A handle.

        Raises:
            UnknownRun: The folder has no such run, or no longer.
        """
        return await attach(self._client, run_id)

    def runs(self, *, archived: bool = True) -> AsyncIterator[RunStatus]:
        """The runs that the folder knows, latest first; see `runtime.engine.Runtime.runs`.

        Args:
            archived: Also those that are in the archive.

        Returns:
            How each of them is now.
        """
        return Pages(RunPages(self._client, self._client.past if archived else None).page)

    def as_completed(self, handles: Iterable[A]) -> AsyncIterator[A]:
        """Wait for handles, one after the other.

        Args:
            handles: Of this runtime.

        Returns:
            The handles in the order in which they end.
        """
        return EndingOrder(self._client.reader, handles)

    async def statistics(self) -> dict[str, Any]:
        """What the engine says of itself: its state, its log, its pools and workers."""
        found: dict[str, Any] = await answer_of(self._client, self._client.ask("engine", {}))
        return found

    async def processes(self) -> list[dict[str, Any]]:
        """Every process of this runtime; see `runtime.engine.Runtime.processes`."""
        return views.read_processes(await self.statistics())

    async def scheduling(self) -> SchedulingStatus:
        """Who runs next and how much at once, as it stands now; see `runtime.engine.Runtime.scheduling`.

        Returns:
            A snapshot.
        """
        return await self._scheduling(ask_policy())

    async def set_quota(self, scope: str, limit: int | None) -> SchedulingStatus:
        """Set how many tasks of a scope are with workers at once; see `runtime.engine.Runtime.set_quota`.

        Args:
            scope: "tenant:acme", "key:printer" (a concurrency key), "type:cpu" (a node type) or "class:low".
            limit: At least 1; None for no limit.

        Returns:
            What stands now.
        """
        return await self._scheduling(ask_entry("quotas", scope, limit))

    async def set_weight(self, tenant: str, weight: float | None) -> SchedulingStatus:
        """Set how many turns a tenant gets for one of a tenant of weight 1; see `runtime.engine.Runtime.set_weight`.

        Args:
            tenant: Its name; "" is the default tenant.
            weight: Above 0; None for 1.

        Returns:
            What stands now.
        """
        return await self._scheduling(ask_entry("weights", tenant, weight))

    async def set_rate(self, key: str, rate: Rate | None) -> SchedulingStatus:
        """Set how often tasks of a rate key may start; see `runtime.engine.Runtime.set_rate`.

        Args:
            key: The rate key.
            rate: For example `Rate(10, per=1.0, burst=5)`; None for no limit.

        Returns:
            What stands now.
        """
        return await self._scheduling(ask_entry("rates", key, rate))

    async def set_share(self, priority: Priority | str, share: Share | None) -> SchedulingStatus:
        """Set what a priority class has of the slots; see `runtime.engine.Runtime.set_share`.

        Args:
            priority: The class.
            share: For example `Share(most=0.4)`; None for no share of its own.

        Returns:
            What stands now.
        """
        return await self._scheduling(ask_entry("shares", priority, share))

    async def set_priority(self, run: AsyncHandle | str, priority: Priority | str) -> bool:
        """Give a task or run another priority class; see `runtime.engine.Runtime.set_priority`.

        Args:
            run: Its handle or run id.
            priority: The class.

        Returns:
            True: recorded, and a crash does not undo it. False: it had ended before.
        """
        return bool((await self._answer_to(views.ask_priority(run, priority)))["changed"])

    async def _scheduling(self, request: Request) -> SchedulingStatus:
        return SchedulingStatus.of(await answer_of(self._client, self._client.ask(*request)))

    async def close(self, drain: bool = True, timeout: float | None = None) -> None:
        """Stop: take nothing more, and end the engine. Again is harmless. See `runtime.engine.Runtime.close`.

        Args:
            drain: Wait until what was submitted is durable, and let running attempts finish.
            timeout: Seconds for that; None for `config.DRAIN_TIMEOUT_S`.
        """
        if self._closed or not self._opened:
            return
        client, loop = self._client, asyncio.get_running_loop()
        client.reader.read_in(loop)
        self._closed = True
        deadline = loop.time() + (DRAIN_TIMEOUT_S if timeout is None else timeout)
        flushed = client.begin_close(drain)
        if flushed is None:
            return
        try:
            await settled(client, flushed, deadline - loop.time())
            left = max(0.0, deadline - loop.time())
            await settled(client, client.say_stop(drain, left), left + EXIT_S)
        finally:
            client.reader.stop()
            stopping = loop.run_in_executor(None, self._end_profile, client.stop_engine)
            stopping.add_done_callback(lambda _: client.settle_all())  # also where this wait is cancelled
            await asyncio.shield(stopping)

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        drain = kind is None or not issubclass(kind, (KeyboardInterrupt, asyncio.CancelledError))
        await self.close(drain=drain)


class _Opening:
    """Starts an engine in a thread, and ends it there if it was given up meanwhile, whoever waits for that."""

    def __init__(self, config: RuntimeConfig, starter: EngineStarter | None) -> None:
        self._config = config
        self._starter = starter
        self._given_up = False
        self._started: EngineClient | None = None
        self._lock = threading.Lock()

    def run(self) -> EngineClient:
        client = new_client(self._config, self._starter)
        client.start()
        with self._lock:
            if not self._given_up:
                self._started = client
                return client
        _stopped(client)
        raise RuntimeClosed("opening was given up")

    def give_up(self) -> EngineClient | None:
        """From another thread. Returns what has started already, and is the caller's to stop."""
        with self._lock:
            self._given_up = True
            return self._started


def _stopped(client: EngineClient) -> None:
    """End a client that nobody is attached to."""
    client.stop_engine()
    client.settle_all()


def _heard(ended: asyncio.Future[Any]) -> None:
    """How it ended is nobody's concern any more."""
    if not ended.cancelled():
        ended.exception()
