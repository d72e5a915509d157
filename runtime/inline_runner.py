"""The worker of `runtime.testing`: handlers called in the test's own process, and their ends in the words of a pool.

It knows no queue and no engine: what it is given it runs, and what it returns is what a pool would have said.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import sys
import time
from collections.abc import Awaitable, Coroutine, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import orjson

from actors.protocol import messages as msg
from actors.protocol.control_signals import AttemptCancelled, AttemptTimeout, ControlSignal, SkipNode, WaitsForCalls
from actors.protocol.errors import PayloadError
from actors.protocol.kinds import Kind
from actors.protocol.states import FailureKind
from actors.run import Run
from actors.state_column import CANCELLING
from runtime.batch import Failed
from runtime.context import TaskContext
from runtime.host.attempts import arguments, insert_context
from runtime.host.batches import checked, only_argument
from runtime.host.handlers import Handler, load
from runtime.host.lending import Lending, ThreadWays
from runtime.host.results import Place
from runtime.mail.codec import Codec
from runtime.mail.failure import failure_of
from runtime.registry import Task
from runtime.script import main_script

if TYPE_CHECKING:
    from runtime.host.station import Station

_FILE: Final = "file:"


class InlineJob(NamedTuple):
    """A task to run."""

    run: Run
    kind: Kind
    node: int
    attempt: int
    item: Any


class InlineRunner:
    """Calls handlers, and says how that ended in the words of a pool."""

    def __init__(self, codec: Codec, node_types: list[str]) -> None:
        self.codec = codec
        self._node_types = node_types
        self._handlers: dict[Kind, Handler] = {}
        self._pools: InlinePools | None = None

    def close(self) -> None:
        """Close what is in pools."""
        if self._pools is not None:
            self._pools.close()

    def run(self, run: Run, kind: Kind, node: int, attempt: int, item: Any) -> list[Any]:
        """Run one attempt."""
        started_ns = time.monotonic_ns()
        try:
            handler = self._handler(kind)
        except Exception as missing:
            failure = failure_of(missing, FailureKind.NO_HANDLER, self.codec)
            return [msg.AttemptFailed(run, node, failure, os.getpid(), started_ns, started_ns)]
        place = Place(0, run.no, run.key, node)
        try:
            wire, spawned = self._call(handler, place, attempt, item)
        except BaseException as failed:
            failure = failure_of(failed, _kind_of(failed), self.codec, handler.pickle)
            ended = msg.AttemptFailed(run, node, failure, os.getpid(), started_ns, time.monotonic_ns())
            return [*_spawned(run, node, failed.frame if isinstance(failed, WaitsForCalls) else None), ended]
        ended_ns = time.monotonic_ns()
        done = msg.Finished(os.getpid(), [(run, [node], [wire], started_ns, [ended_ns - started_ns])], None)
        return [*_spawned(run, node, spawned), done]

    def run_batch(self, jobs: Sequence[InlineJob]) -> list[Any]:
        """Run calls of a batching handler as one."""
        started_ns = time.monotonic_ns()
        try:
            handler = self._handler(jobs[0].kind)
        except Exception as missing:
            failure = failure_of(missing, FailureKind.NO_HANDLER, self.codec)
            return [self._failed(job, failure, started_ns) for job in jobs]
        places = [Place(0, job.run.no, job.run.key, job.node) for job in jobs]
        context = None
        try:
            args: list[Any] = [[self._only(handler, job.item) for job in jobs]]
            kwargs: dict[str, Any] = {}
            if handler.context_arg is not None:
                context = TaskContext(_View(places[0], jobs[0].attempt, self.codec, self._node_types, places))
                insert_context(handler, args, kwargs, context)
            with self._lending(handler, args, kwargs, context):
                value = handler.fn(*args, **kwargs)
                results = checked(self._awaited(value) if inspect.iscoroutine(value) else value, len(jobs))
        except BaseException as failed:
            failure = failure_of(failed, _kind_of(failed), self.codec, handler.pickle)
            return [self._failed(job, failure, started_ns) for job in jobs]
        finally:
            if context is not None:
                context.close()
        return [self._entered(handler, job, result, started_ns) for job, result in zip(jobs, results, strict=True)]

    def _only(self, handler: Handler, item: Any) -> Any:
        return only_argument(*arguments(cast("Station", self), handler, item, False))

    def _entered(self, handler: Handler, job: InlineJob, result: Any, started_ns: int) -> Any:
        """What became of one call of a batch."""
        try:
            if isinstance(result, Failed):
                raise result.exception
            key = f"{job.run.key}/{job.node}-{job.attempt}"
            wire = orjson.loads(self.codec.encode(result, pickle=handler.pickle, blob_key=key))
        except BaseException as failed:
            return self._failed(job, failure_of(failed, _kind_of(failed), self.codec, handler.pickle), started_ns)
        took_ns = time.monotonic_ns() - started_ns
        return msg.Finished(os.getpid(), [(job.run, [job.node], [wire], started_ns, [took_ns])], None)

    @staticmethod
    def _failed(job: InlineJob, failure: dict[str, Any], started_ns: int) -> msg.AttemptFailed:
        return msg.AttemptFailed(job.run, job.node, failure, os.getpid(), started_ns, time.monotonic_ns())

    def stopped(self, run: Run, node: int) -> msg.AttemptFailed:
        """What is said of a task that was cancelled, or whose deadline passed, before it ran."""
        if run.state[node] == CANCELLING:
            failure = failure_of(AttemptCancelled("cancelled before it started"), FailureKind.CANCELLED, self.codec)
        else:
            failure = failure_of(AttemptTimeout("its deadline passed before it started"), "deadline", self.codec)
        now_ns = time.monotonic_ns()
        return msg.AttemptFailed(run, node, failure, os.getpid(), now_ns, now_ns)

    def _call(self, handler: Handler, place: Place, attempt: int, item: Any) -> tuple[Any, bytes | None]:
        stored, kwargs = arguments(cast("Station", self), handler, item, False)
        args = list(stored)  # what is kept may be what was read, and is read again when the handler goes on
        context = None
        if handler.context_arg is not None:
            context = TaskContext(_View(place, attempt, self.codec, self._node_types))
            insert_context(handler, args, kwargs, context)
        try:
            with self._lending(handler, args, kwargs, context):
                value = handler.fn(*args, **kwargs)
                if handler.coroutine:
                    value = self._awaited(value)
                key = f"{place.run_key}/{place.node}-{attempt if context is None else context.attempt}"
                wire = orjson.loads(self.codec.encode(value, pickle=handler.pickle, blob_key=key))
            return wire, context.spawned() if context is not None else None
        except BaseException as failed:
            if context is None or (ending := context.ending(failed)) is failed:
                raise
            raise ending from None
        finally:
            if context is not None:
                context.close()

    def _lending(
        self, handler: Handler, args: list[Any], kwargs: dict[str, Any], context: TaskContext | None
    ) -> AbstractContextManager[Any]:
        if not handler.pools:
            return nullcontext()
        if self._pools is None:
            self._pools = InlinePools()
        return Lending(self._pools.ways, handler, args, kwargs, context)

    def _awaited(self, waits: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run(waits) if self._pools is None else self._pools.run(waits)

    def _handler(self, kind: Kind) -> Handler:
        handler = self._handlers.get(kind)
        if handler is None:
            data = orjson.loads(kind.text)
            place, _, qualname = kind.handler.rpartition(":")
            if place == f"{_FILE}{main_script()}":  # the script is this process's own main module
                found: Any = sys.modules["__main__"]
                for part in qualname.split("."):
                    found = getattr(found, part)
                handler = Handler(data, found.fn if isinstance(found, Task) else found)
            else:
                handler = load(data)
            self._handlers[kind] = handler
        return handler


class InlinePools:
    """The pools of a test's own process, and the loop that their things live on."""

    def __init__(self) -> None:
        self.loop: asyncio.AbstractEventLoop | None = None
        self.ways = ThreadWays(self, self.run)

    def run(self, waits: Awaitable[Any]) -> Any:
        """Run it to its end on a loop that is kept."""
        if self.loop is None:
            self.loop = asyncio.new_event_loop()
        return self.loop.run_until_complete(waits)

    def shield(self) -> AbstractContextManager[None]:
        """Nothing stops an attempt here."""
        return nullcontext()

    def keep(self, tasks: set[asyncio.Task[Any]]) -> None:
        """Nothing ends with an attempt here."""

    def close(self) -> None:
        """Close all things, then the loop."""
        self.ways.close()
        if self.loop is not None:
            self.loop.close()


def _spawned(run: Run, node: int, frame: bytes | None) -> list[msg.Spawned]:
    return [] if not frame else [msg.Spawned(run, node, orjson.loads(frame[1:])[3], frame[1:])]


class _View:
    """What a `TaskContext` needs."""

    def __init__(
        self, place: Place, attempt: int, codec: Codec, node_types: list[str], batch: Sequence[Place] = ()
    ) -> None:
        self.place = place
        self.batch = batch
        self.attempt = attempt
        self.deadline_ns: int | None = None
        self.codec = codec
        self.node_types = node_types

    def stop_reason(self) -> int:
        """Nothing is stopped here."""
        return 0

    def tell(self, letter: bytes, body: list[Any]) -> None:
        """Progress and log lines are dropped."""


def _kind_of(failed: BaseException) -> FailureKind:
    if isinstance(failed, ControlSignal):
        kinds = {
            SkipNode: FailureKind.SKIPPED,
            AttemptCancelled: FailureKind.CANCELLED,
            AttemptTimeout: FailureKind.TIMEOUT,
            WaitsForCalls: FailureKind.WAITS,
        }
        return kinds.get(type(failed), FailureKind.ERROR)
    return FailureKind.PAYLOAD if isinstance(failed, PayloadError) else FailureKind.ERROR
