"""Handles for asyncio: the same questions as `runtime.handle`, awaited.

Awaiting a handle gives its result: `await handle`. Cancelling such a wait cancels the wait only; the task goes on
and can be awaited again. Everything is called from the thread of the loop that opened the runtime; when that
was closed, another one may go on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from actors.protocol.errors import DiskFull, TaskFailed, UnknownRun
from actors.protocol.states import RunState
from runtime import outcome, views
from runtime.config import Priority
from runtime.handle_base import Handle, RunFacts, node_name, poll_intervals_s
from runtime.host.client import EngineClient, read_answer
from runtime.host.pending import ENDED, OPEN, VALUE, Pending, Query
from runtime.views import NodeStatus, Output, Progress, ResultRow, RunProgress, RunStatus, StoryEvent

if TYPE_CHECKING:
    from runtime.flow import Node

R_co = TypeVar("R_co", covariant=True)
T = TypeVar("T")


async def settled(client: EngineClient, cell: Pending, timeout: float | None = None) -> bool:
    """Wait until a cell is settled; False: the time is over."""
    if cell._state:
        return True
    loop = asyncio.get_running_loop()
    client.reader.read_in(loop)
    future: asyncio.Future[None] = loop.create_future()

    def hook(_: Pending) -> None:
        if not future.done():
            future.set_result(None)

    if not client.reader.add_hook(cell, hook):
        return True
    try:
        if timeout is None:
            await future
        else:
            await asyncio.wait((future,), timeout=max(0.0, timeout))
    finally:
        client.reader.drop_hook(cell, hook)
    return cell._state != OPEN


async def answer_of(client: EngineClient, query: Query) -> Any:
    """The answer to a question; raises what the engine answered."""
    await settled(client, query)
    return read_answer(query)


async def answer_or_past(client: EngineClient, query: Query, request: views.Request) -> Any:
    """The answer to a question; see `runtime.handle_base.answer_or_past`. The archive is read in the executor."""
    try:
        return await answer_of(client, query)
    except UnknownRun:
        past = client.past
        if past is None:
            raise
        found = await asyncio.get_running_loop().run_in_executor(None, past.answer, *request)
        if found is None:
            raise
        return found


class AsyncHandle(Handle):
    """Questions that are awaited. See `runtime.handle_base.SyncHandle`."""

    __slots__ = ()

    async def cancel(self) -> bool:
        """Ask to cancel what has not ended. True: recorded; False: it had ended before."""
        if self._state != OPEN:
            return False
        query = self._client.ask_cancel(self.run_id, None)
        return bool(await answer_or_past(self._client, query, ("cancel", {"run": self.run_id})))

    async def set_priority(self, priority: Priority | str) -> bool:
        """Give it another priority class; see `runtime.engine.Runtime.set_priority`.

        Args:
            priority: The class.

        Returns:
            True: recorded, and a crash does not undo it. False: it had ended before.
        """
        return bool((await self._ask(views.ask_priority(self.run_id, priority)))["changed"])

    async def story(self) -> list[StoryEvent]:
        """What happened to it, in order, with causes. Raises UnknownRun."""
        return views.read_story(await self._ask(views.ask_story(self.run_id)))

    async def why(self) -> str:
        """Why it is not running now, in words. Raises UnknownRun."""
        return str((await self._ask(views.ask_why(self.run_id)))["text"])

    async def output(self) -> Output:
        """What the latest attempt printed; as `runtime.handle_base.SyncHandle.output`."""
        return views.read_output(await self._ask(views.ask_output(self.run_id)))

    async def _ask(self, request: views.Request) -> Any:
        return await answer_or_past(self._client, self._client.ask(*request), request)

    async def _wait(self, timeout: float | None) -> None:
        if not await settled(self._client, self, timeout):
            raise self._late(timeout)

    async def _rows(self, which: str, node: int | str | None = None) -> list[ResultRow]:
        return await self._pages(partial(views.ask_results, self.run_id, node=node, which=which), views.read_results)

    async def _pages(self, ask: Callable[[int], views.Request], read: Callable[[Any], list[T]]) -> list[T]:
        found: list[T] = []
        first: int | None = 0
        while first is not None:
            reply = await self._ask(ask(first))
            found += read(reply)
            first = reply.get("next")
        return found


class AsyncTaskHandle(AsyncHandle, Generic[R_co]):
    """A single task. See `runtime.handle.TaskHandle`."""

    __slots__ = ()

    def __await__(self) -> Generator[Any, None, R_co]:
        return self.result().__await__()

    async def wait(self, timeout: float | None = None) -> RunState:
        """Wait for the end; does not raise when it failed. As `runtime.handle.TaskHandle.wait`."""
        if not self._state:
            await self._wait(timeout)
        return outcome.end_of(self, self._client, self.run_id)

    async def result(self, timeout: float | None = None) -> R_co:
        """Wait for the end and return the result.

        Args:
            timeout: Seconds; None waits as long as it takes.

        Raises:
            TaskFailed: Or one of its kinds; `__cause__` is the handler's exception where it could be rebuilt.
            WaitTimeout: The time is over; the task goes on. RuntimeClosed, EngineUnavailable, ...: as they say.
        """
        if not self._state:
            await self._wait(timeout)
        if self._state == VALUE:
            return self._value  # type: ignore[no-any-return]
        if self._state == ENDED:
            state, value = outcome.settle_from_row((await self._rows("all"))[0])
            if self._state == ENDED:
                self._value, self._state = value, state
        return outcome.value_of(self, self._client, self.run_id)  # type: ignore[no-any-return]

    async def exception(self, timeout: float | None = None) -> TaskFailed | None:
        """Wait for the end; the exception that `result` would raise, None when it succeeded."""
        try:
            await self.result(timeout)
        except TaskFailed as failed:
            return failed
        return None

    async def status(self) -> NodeStatus:
        """State, attempts and times now. Raises UnknownRun."""
        return views.read_nodes(await self._ask(views.ask_nodes(self.run_id)))[0]

    async def progress(self) -> Progress:
        """What the handler reported last; as `runtime.handle.TaskHandle.progress`."""
        found = self._reported()
        if found is not None:
            return found
        status = await self.status()
        return status.progress or Progress(float(status.done), 1)

    async def rerun(self) -> AsyncRunHandle:
        """Run it again, if it did not succeed; see `runtime.operations.Operations.rerun`.

        Returns:
            A handle that waits for the new end.
        """
        return await rerun(self._client, self)


class AsyncRunHandle(RunFacts, AsyncHandle):
    """A run of a flow, or any run that was found again by its id. See `runtime.handle.RunHandle`."""

    __slots__ = ()

    def __await__(self) -> Generator[Any, None, Any]:
        return self.result().__await__()

    async def wait(self, timeout: float | None = None) -> RunState:
        """Wait for the end of the run; does not raise when nodes failed. Raises WaitTimeout."""
        if not self._state:
            if self._foreign:
                await self._wait_foreign(timeout)
            else:
                await self._wait(timeout)
        return self._how_it_ended()

    @overload
    async def result(self, node: Node[T], timeout: float | None = ...) -> T: ...

    @overload
    async def result(self, node: int | str | None = ..., timeout: float | None = ...) -> Any: ...

    async def result(self, node: Node[Any] | int | str | None = None, timeout: float | None = None) -> Any:
        """Wait for the end of the run and return a result, see `runtime.handle.RunHandle.result`."""
        await self.wait(timeout)
        codec = self._client.codec
        if node is None:
            return outcome.final_value(await self._rows("final"), codec, self.run_id)
        name = node_name(node)
        return outcome.value_of_row((await self._rows("all", name))[0], codec, self.run_id)

    async def results(self, timeout: float | None = None) -> dict[str, Any]:
        """Wait for the end of the run; the values of all nodes that succeeded, by id."""
        await self.wait(timeout)
        return outcome.values_of_rows(await self._rows("all"), self._client.codec)

    async def exception(self, timeout: float | None = None) -> TaskFailed | None:
        """Wait for the end; why the run did not succeed (its first failure), or None."""
        await self.wait(timeout)
        error = outcome.run_error(self._value, self._client.codec)
        if error is None or len(self._value) > 4:
            return error
        try:
            rows = await self._rows("failed")
        except UnknownRun:
            return error
        return outcome.error_of_row(rows[0], self._client.codec, self.run_id) if rows else error

    async def raise_if_failed(self, timeout: float | None = None) -> AsyncRunHandle:
        """Wait for the end; raise the run's exception unless it succeeded. Returns the handle."""
        error = await self.exception(timeout)
        if error is not None:
            raise error
        return self

    async def status(self) -> RunStatus:
        """State and counts now. Raises UnknownRun."""
        return views.read_status(await self._ask(views.ask_status(self.run_id)))

    async def rerun(self) -> AsyncRunHandle:
        """Run again what did not succeed; see `runtime.operations.Operations.rerun`.

        Returns:
            A handle that waits for the new end.
        """
        return await rerun(self._client, self)

    async def progress(self) -> RunProgress:
        """How far the run has come; as `runtime.handle.RunHandle.progress`."""
        return self._shown() or RunProgress((await self.status()).counts)

    async def node(self, name: Node[Any] | int | str) -> NodeStatus:
        """One node now, by itself, its id or its number. Raises MissingNode, UnknownRun."""
        asked = node_name(name)
        return views.read_nodes(await self._ask(views.ask_nodes(self.run_id, node=asked)))[0]

    async def nodes(self) -> list[NodeStatus]:
        """The table of all nodes now. Raises UnknownRun."""
        return await self._pages(partial(views.ask_nodes, self.run_id), views.read_nodes)

    async def look(self, *, watch: bool) -> RunStatus:
        """Ask for the state; an end that was missed is noted. With `watch`, the engine says when the run ends."""
        return self._saw(views.read_status(await self._ask(views.ask_status(self.run_id, watch=watch))))

    async def _wait_foreign(self, timeout: float | None) -> None:
        for interval in poll_intervals_s(timeout):
            if await settled(self._client, self, interval):
                return
            with suppress(DiskFull):  # the run goes on when there is room
                await self.look(watch=False)
        if not self._state:
            raise self._late(timeout)


async def attach(client: EngineClient, run_id: str) -> AsyncRunHandle:
    """A handle of a run that may have been submitted by another session. Raises UnknownRun."""
    handle = AsyncRunHandle(client, run_id, foreign=True)
    handle.seq = 0
    await handle.look(watch=True)
    if not handle.done():
        client.watch(run_id, handle)
    return handle


async def rerun(client: EngineClient, run: AsyncHandle | str) -> AsyncRunHandle:
    """Let what did not succeed of a run go again; see `runtime.operations.Operations.rerun`."""
    run_id = views.id_of_run(run)
    request = ("rerun", {"run": run_id})
    await answer_or_past(client, client.ask(*request), request)
    return await attach(client, run_id)
