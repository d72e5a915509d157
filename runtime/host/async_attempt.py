"""An attempt that runs in mode "asyncio": what its worker, and the context of its handler, know of it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import orjson

from runtime.host.handlers import Handler
from runtime.host.results import Place

if TYPE_CHECKING:
    from runtime.host.worker_async import AsyncWorker


class Attempt:
    """An attempt, or a batch of them, that runs here; what a TaskContext sees of it (`runtime.context.AttemptView`)."""

    __slots__ = (
        "_worker",
        "attempt",
        "batch",
        "codec",
        "deadline_ns",
        "handler",
        "node_types",
        "place",
        "reason",
        "started_ns",
        "task",
        "thread",
        "token",
    )

    def __init__(self, worker: AsyncWorker, place: Place, attempt: int) -> None:
        self._worker = worker
        self.place = place
        self.attempt = attempt
        self.batch: Sequence[Place] = ()
        self.handler: Handler | None = None
        self.task: asyncio.Task[None] | None = None
        self.thread = 0
        self.reason = 0
        self.token = 0
        self.started_ns = 0
        self.deadline_ns: int | None = None
        self.codec = worker.station.codec
        self.node_types: list[str] = list(worker.station.config.get("node_type_names") or ())

    def stop_reason(self) -> int:
        """Why this attempt shall stop; 0 when it may go on."""
        return self.reason

    def tell(self, letter: bytes, body: list[Any]) -> None:
        """Send on the control lane, from any thread."""
        self._worker.tell(letter + orjson.dumps(body))
