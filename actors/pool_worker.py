"""One worker as its pool sees it: state, leases, the stopping of its attempts, and what its death means for them.

States: `actors.protocol.states.WORKER_TABLE`. Stages of an escalation: 1 asked, 2 SIGTERM, 3 SIGKILL of its group.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from actors.policy.leases import LeaseBook
from actors.protocol import limits
from actors.protocol import messages as msg
from actors.protocol.states import WORKER_TABLE, WorkerEvent, WorkerState, step
from actors.run import Run

CANCEL: Final = 1
TIMEOUT: Final = 2
"""Reasons of a stop, as the worker is told."""


class Escalation:
    """The stopping of one attempt."""

    __slots__ = ("due_ns", "reason", "serial", "stage")

    def __init__(self, serial: int, reason: int, due_ns: int) -> None:
        self.serial = serial
        self.reason = reason
        self.stage = 1
        self.due_ns = due_ns


class PoolWorker:
    """One worker as its pool sees it. `running` are serials and starts as of the latest look, ended ones included."""

    __slots__ = (
        "book",
        "boot_error",
        "busy_since_ns",
        "current",
        "drain_reason",
        "frozen_ns",
        "id",
        "idle_since_ns",
        "kind_first",
        "kind_last",
        "pid",
        "passed",
        "progress_ns",
        "revoking",
        "running",
        "state",
        "stops",
        "stuck",
        "tasks",
    )

    def __init__(self, worker: int, now_ns: int) -> None:
        self.id = worker
        self.state = WorkerState.STARTING
        self.pid = 0
        self.book: LeaseBook[Run] = LeaseBook()
        self.stops: dict[int, Escalation] = {}
        self.current = 0
        self.running: Sequence[tuple[int, int]] = ()
        self.progress_ns = self.idle_since_ns = now_ns
        self.busy_since_ns = 0
        self.revoking = False
        self.stuck = False
        self.frozen_ns = 0
        self.passed = 0
        self.boot_error = ""
        self.drain_reason = ""
        self.tasks = 0
        self.kind_first = self.kind_last = 0

    @property
    def window(self) -> int:
        """Leases that fit into the table behind what the worker has not passed yet.

        A slot that is used again too early would show the worker another lease's state. What it shows as passed may be
        ahead of where it is by one claim, because it may put claimed leases back.
        """
        return limits.LEASE_SLOTS - limits.CLAIM_MAX - (self.book.next_serial - 1 - self.passed)

    def saw_kind(self, number: int) -> None:
        """It is given work of this kind, and will know it for ever. Numbers ascend: they tell how many it may know."""
        self.kind_first = self.kind_first or number
        self.kind_last = max(self.kind_last, number)

    def move(self, event: WorkerEvent) -> None:
        """Step the worker's state machine."""
        self.state = step(WORKER_TABLE, self.state, event, f"worker {self.id}, pid {self.pid}")


def stop_failure(escalation: Escalation, message: msg.WorkerExited) -> dict[str, Any]:
    words = last_words(escalation.serial, message)
    if escalation.reason == TIMEOUT:
        text = f"ran over its timeout and its worker was ended ({message.status})"
        return {"kind": "timeout", "type": "AttemptTimeout", "message": text, "traceback": words}
    text = f"cancelled while running; its worker was ended ({message.status})"
    return {"kind": "cancelled", "type": "AttemptCancelled", "message": text, "traceback": words}


def crash_failure(worker: PoolWorker, serial: int, message: msg.WorkerExited) -> dict[str, Any]:
    frozen = " after it was frozen (SIGSTOP)" if worker.drain_reason == "frozen" else ""
    hint = "; out of memory, or killed from outside" if message.signal == 9 and not frozen else ""
    text = f"worker process {worker.pid} died: {message.status}{frozen}{hint}"
    return {"kind": "crash", "type": "WorkerCrashed", "message": text, "traceback": last_words(serial, message)}


def last_words(serial: int, message: msg.WorkerExited) -> str:
    """What an attempt had printed before its worker ended, or what the worker said without saying for whom."""
    return message.outputs.get(serial) or message.outputs.get(0, "")
