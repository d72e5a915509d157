"""One worker as its pool sees it: state, leases, the stopping of its attempts, and what its death means for them.

States: `actors.protocol.states.WORKER_TABLE`. Stages of an escalation: 1 asked, 2 SIGTERM, 3 SIGKILL of its group.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from actors.policy.leases import LeaseBook
from actors.protocol import limits
from actors.protocol import messages as msg
from actors.protocol.errors import ProtocolError
from actors.protocol.states import WORKER_TABLE, WorkerEvent, WorkerState, step
from actors.run import Run

CANCEL: Final = 1
TIMEOUT: Final = 2
DEADLINE: Final = 3
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
        "current",
        "drain_reason",
        "frozen_ns",
        "gives_way",
        "id",
        "idle_since_ns",
        "kind_first",
        "kind_last",
        "pid",
        "passed",
        "progress_ns",
        "refused",
        "refused_now",
        "results_asked",
        "revoking",
        "running",
        "state",
        "stolen_ns",
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
        self.revoking = False
        self.gives_way: tuple[str, tuple[int, ...]] | None = None
        self.refused: set[int] = set()
        self.refused_now = False
        """Why it is asked for leases, and which of them it kept: see `actors.inversion`."""
        self.results_asked = False
        self.stolen_ns = 0
        self.stuck = False
        self.frozen_ns = 0
        self.passed = 0
        self.boot_error = ""
        self.drain_reason = ""
        self.tasks = 0
        self.kind_first = self.kind_last = 0

    @property
    def window(self) -> int:
        """Leases that fit into the table behind what the worker has not passed yet, and before one that is open.

        A slot that is used again too early would show the worker another lease's state: it has not come to a lease that
        was taken back, or runs one since a lap ago.
        """
        book, start, run = self.book, self.book.next_serial, limits.LEASE_SLOTS // 2
        if start - book.lowest > run:
            start, run = book.free_run()
        return min(run, limits.LEASE_SLOTS - limits.CLAIM_MAX - (start - 1 - self.passed))

    def saw_kind(self, number: int) -> None:
        """It is given work of this kind, and will know it for ever. Numbers ascend: they tell how many it may know."""
        self.kind_first = self.kind_first or number
        self.kind_last = max(self.kind_last, number)

    def move(self, event: WorkerEvent) -> None:
        """Step the worker's state machine."""
        self.state = step(WORKER_TABLE, self.state, event, f"worker {self.id}, pid {self.pid}")


def finish_leases(
    worker: PoolWorker, serial: int, run_no: int, nodes: Sequence[int]
) -> tuple[Run, Sequence[int]] | None:
    """Close the leases of these nodes, which the worker answers together: of one group, or of several in a row.

    Returns:
        The run and its nodes; None, and nothing is closed, when some of them were given up meanwhile.

    Raises:
        ProtocolError: The worker answered for other nodes than it was given.
    """
    count = len(nodes)
    whole = worker.book.finish(serial, count)
    parts = [(whole, serial - whole.base, count)] if whole else worker.book.finish_span(serial, count)
    at = 0
    for group, start, part in parts:
        mine, theirs = group.nodes[start : start + part], nodes[at : at + part]
        if group.run.no != run_no or mine[0] != theirs[0] or mine[-1] != theirs[-1]:
            raise ProtocolError(f"worker {worker.id} answered for other nodes than lease {serial + at} has")
        at += part
    return (parts[0][0].run, mine if whole else nodes) if parts else None


def guilty_of(worker: PoolWorker, message: msg.WorkerExited, *, is_async: bool) -> dict[int, dict[str, Any]]:
    """The attempts that this death ends, with their failures; all other leases go back untouched.

    A worker that dies between two tasks dies of one of those it claimed (a result that cannot be handled, memory): the
    first open one is blamed, so that no task can kill workers for ever. A new worker claims singly, so the innocent
    ones get away before the guilty one comes to its turn.
    """
    stopped = {s: e for s, e in worker.stops.items() if e.stage > 1 and worker.book.find(s) is not None}
    if stopped:
        return {s: stop_failure(e, message) for s, e in stopped.items()}
    claimed = [s for s in message.claimed if worker.book.find(s) is not None]
    running = claimed
    if not is_async:
        running = [message.current] if message.current in claimed else claimed[:1]
    found: dict[int, dict[str, Any]] = {}
    for serial in running:
        asked = worker.stops.get(serial)
        found[serial] = stop_failure(asked, message) if asked else crash_failure(worker, serial, message)
    return found


def stop_failure(escalation: Escalation, message: msg.WorkerExited) -> dict[str, Any]:
    words = last_words(escalation.serial, message)
    if escalation.reason == TIMEOUT:
        text = f"ran over its timeout and its worker was ended ({message.status})"
        return {"kind": "timeout", "type": "AttemptTimeout", "message": text, "traceback": words}
    if escalation.reason == DEADLINE:
        text = f"ran over the deadline of its task and its worker was ended ({message.status})"
        return {"kind": "deadline", "type": "AttemptTimeout", "message": text, "traceback": words}
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
