"""A batch in mode "asyncio": one coroutine, or one thread, and one of the worker's places, for all of its calls."""

from __future__ import annotations

from time import monotonic_ns
from typing import TYPE_CHECKING, Any

from runtime.context import TaskContext
from runtime.host.attempts import insert_context
from runtime.host.batches import BatchCall
from runtime.host.handlers import Handler
from runtime.host.station import stop_signal
from runtime.profile.ledger.tasks import enter_attempt
from runtime.profile.sampling.labels import LABELS

if TYPE_CHECKING:
    from runtime.host.async_attempt import Attempt
    from runtime.host.worker_async import AsyncWorker


async def run_batch(worker: AsyncWorker, attempt: Attempt, batch: BatchCall, kind_no: int) -> None:
    """All of a batch. Nothing leaves this coroutine, because the loop takes SystemExit for its own end."""
    attempt.started_ns = started_ns = worker.show_start(attempt, monotonic_ns())
    LABELS.set(batch.scope())
    context: TaskContext | None = None
    try:
        if attempt.reason:
            raise stop_signal(attempt.reason)
        handler = worker.station.known_handler(kind_no) or worker.station.find_handler(kind_no)
        attempt.handler = handler
        attempt.token = enter_attempt(attempt.task, attempt.place, handler.code)
        if handler.timeout_ns is not None:
            attempt.deadline_ns = started_ns + handler.timeout_ns
            worker.timeouts.add(kind_no, attempt.deadline_ns, attempt.place.serial)
        if handler.context_arg is not None:
            context = TaskContext(attempt)
        args: list[Any] = [batch.arguments(handler)]
        kwargs: dict[str, Any] = {}
        if context is not None:
            insert_context(handler, args, kwargs, context)
        if handler.pools and batch.has_arguments:
            async with worker.pools.lending(handler, args, kwargs, context):
                await _settle(worker, attempt, batch, handler, args, kwargs)
        elif batch.has_arguments:
            await _settle(worker, attempt, batch, handler, args, kwargs)
    except BaseException as exc:
        worker.ended(attempt)
        batch.fail(exc, attempt.reason, attempt.handler, started_ns)
        return
    finally:
        if context is not None:
            context.close()
    batch.enter(handler, started_ns, worker.ended(attempt))


async def _settle(
    worker: AsyncWorker, attempt: Attempt, batch: BatchCall, handler: Handler, args: list[Any], kwargs: dict[str, Any]
) -> None:
    """Call the handler and settle what it returns."""
    value, exc = None, None
    if handler.coroutine:
        value = await handler.fn(*args, **kwargs)
    else:
        value, exc = await worker.in_thread(attempt, handler, args, kwargs)
    if exc is not None:
        raise exc
    if hasattr(type(value), "__await__"):
        value = await value
    for place, result in batch.results(value):
        try:
            batch.settle(place, await worker.settled(handler, result, place.run_key))
        except Exception as refused:
            batch.refuse(place, refused)
