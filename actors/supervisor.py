"""Supervisor: starts, replaces and stops the workers of all pools, and brings the engine down in order.

One-for-one: a worker that dies is replaced when its pool wants another. A worker that dies without having served
(it cannot boot) counts against the restart intensity of its pool; above it, the next start waits, twice as long each
time, so that a broken environment costs little and heals by itself. A death under work is the task's fault and is
judged there (poison limit), not here.

    state      close asked   quiet      (quiet: no lease is held any more, or the time given for it is over)
    RUNNING    DRAINING      -
    DRAINING   DRAINING      STOPPED
    STOPPED    STOPPED       STOPPED

Invariants: worker numbers are never used again; after STOPPED no effect is given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final

from actors.policy.restart import RestartIntensity
from actors.protocol import effects as fx
from actors.protocol import limits
from actors.protocol import messages as msg
from actors.protocol.states import step

DELAY_MIN_NS: Final = 250_000_000
DELAY_MAX_NS: Final = 30_000_000_000


class EngineState(StrEnum):
    """Life of the engine."""

    RUNNING = "running"
    DRAINING = "draining"
    STOPPED = "stopped"


class EngineEvent(StrEnum):
    """What changes it."""

    CLOSE_ASKED = "close_asked"
    QUIET = "quiet"


ENGINE_TABLE: Final[Mapping[EngineState, Mapping[EngineEvent, EngineState]]] = MappingProxyType(
    {
        EngineState.RUNNING: {EngineEvent.CLOSE_ASKED: EngineState.DRAINING},
        EngineState.DRAINING: {EngineEvent.CLOSE_ASKED: EngineState.DRAINING, EngineEvent.QUIET: EngineState.STOPPED},
        EngineState.STOPPED: {EngineEvent.CLOSE_ASKED: EngineState.STOPPED, EngineEvent.QUIET: EngineState.STOPPED},
    }
)


class _Starts:
    """Starting of workers of one node type."""

    __slots__ = ("delay_ns", "due_ns", "intensity", "waiting")

    def __init__(self) -> None:
        self.intensity = RestartIntensity(limits.RESTARTS_MAX, limits.RESTART_WINDOW_NS)
        self.delay_ns = 0
        self.due_ns = 0
        self.waiting = 0


class Supervisor:
    """See the module."""

    def __init__(self, node_types: Sequence[str]) -> None:
        self.state = EngineState.RUNNING
        self._starts = {name: _Starts() for name in node_types}
        self._next_worker = 1
        self._deadline_ns = 0
        self._out: list[Any] = []
        self._now_ns = 0

    def receive(self, batch: Sequence[Any], now_ns: int) -> list[Any]:
        """React to a batch; returns effects and messages to pools."""
        self._now_ns = now_ns
        for message in batch:
            self._on[type(message)](self, message)
        self._start_delayed()
        if self.state is EngineState.DRAINING:
            if now_ns >= self._deadline_ns:
                self._stop("the time for draining is over")
            else:
                self._out.append(fx.WakeAt(self._deadline_ns))
        out, self._out = self._out, []
        return out

    @property
    def draining(self) -> bool:
        """Whether no more work is given out."""
        return self.state is not EngineState.RUNNING

    def quiet(self) -> list[Any]:
        """No lease is held any more: if draining, stop."""
        if self.state is EngineState.DRAINING:
            self._stop("drained")
        out, self._out = self._out, []
        return out

    def _on_wanted(self, message: msg.WorkerWanted) -> None:
        if self.draining:
            return
        starts = self._starts[message.node_type]
        if starts.due_ns > self._now_ns:
            starts.waiting += 1
            return
        self._start(message.node_type)

    def _start(self, node_type: str) -> None:
        worker = self._next_worker
        self._next_worker += 1
        self._out.append(msg.WorkerAdded(worker, node_type))
        self._out.append(fx.StartWorker(worker, node_type))

    def _on_gone(self, message: msg.WorkerGone) -> None:
        starts = self._starts[message.node_type]
        if message.healthy:
            starts.delay_ns = 0
            return
        if starts.intensity.failed(self._now_ns):
            return
        starts.delay_ns = min(DELAY_MAX_NS, max(DELAY_MIN_NS, 2 * starts.delay_ns))
        starts.due_ns = self._now_ns + starts.delay_ns
        self._out.append(msg.PoolDelayed(message.node_type, starts.due_ns, message.reason))

    def _start_delayed(self) -> None:
        for node_type, starts in self._starts.items():
            if not starts.waiting or self.draining:
                continue
            if starts.due_ns > self._now_ns:
                self._out.append(fx.WakeAt(starts.due_ns))
                continue
            for _ in range(starts.waiting):
                self._start(node_type)
            starts.waiting = 0

    def _on_close(self, message: msg.CloseAsked) -> None:
        if self.state is EngineState.STOPPED:
            return
        self.state = step(ENGINE_TABLE, self.state, EngineEvent.CLOSE_ASKED)
        self._deadline_ns = self._now_ns + (message.timeout_ns if message.drain else 0)
        self._out.append(msg.Drain())

    def _stop(self, reason: str) -> None:
        self.state = step(ENGINE_TABLE, self.state, EngineEvent.QUIET)
        self._out.append(fx.StopEngine(reason))

    def _on_time(self, message: msg.TimePassed) -> None:
        """Delayed starts and the drain deadline are looked at after every batch."""

    _on: Final[dict[type, Callable[[Any, Any], None]]] = {
        msg.WorkerWanted: _on_wanted,
        msg.WorkerGone: _on_gone,
        msg.CloseAsked: _on_close,
        msg.TimePassed: _on_time,
    }
