"""The state machines as data: one enum and one table per machine. What a table does not have is illegal.

The numbers of `NodeState` are persisted and on the wire: append only.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum, StrEnum
from types import MappingProxyType
from typing import Final, TypeVar

from actors.protocol.errors import IllegalTransition


class NodeState(IntEnum):
    """State of a node. Above `LEASED` and up to `SKIPPED` the state is terminal: a run all of whose nodes are there is
    over, and none leaves it again unless somebody asks for that (`REPLAYED`)."""

    PENDING = 0
    READY = 1
    LEASED = 2
    SUCCEEDED = 3
    FAILED = 4
    CANCELLED = 5
    SKIPPED = 6
    BACKOFF = 7
    PARKED = 8
    CANCELLING = 9


TERMINAL: Final = frozenset({NodeState.SUCCEEDED, NodeState.FAILED, NodeState.CANCELLED, NodeState.SKIPPED})


class NodeEvent(StrEnum):
    """What can happen to a node."""

    RELEASED = "released"
    LEASED = "leased"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    RETRIED = "retried"
    RETURNED = "returned"
    DUE = "due"
    PARKED = "parked"
    UNPARKED = "unparked"
    CANCEL_ASKED = "cancel_asked"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"
    DELAYED = "delayed"
    EXPIRED = "expired"
    REPLAYED = "replayed"
    CALLED = "called"


NODE_TABLE: Final[Mapping[NodeState, Mapping[NodeEvent, NodeState]]] = MappingProxyType(
    {
        NodeState.PENDING: {
            NodeEvent.RELEASED: NodeState.READY,
            NodeEvent.DELAYED: NodeState.BACKOFF,
            NodeEvent.EXPIRED: NodeState.FAILED,
            NodeEvent.SKIPPED: NodeState.SKIPPED,
            NodeEvent.CANCELLED: NodeState.CANCELLED,
        },
        NodeState.READY: {
            NodeEvent.LEASED: NodeState.LEASED,
            NodeEvent.DELAYED: NodeState.BACKOFF,
            NodeEvent.EXPIRED: NodeState.FAILED,
            NodeEvent.CANCELLED: NodeState.CANCELLED,
        },
        NodeState.LEASED: {
            NodeEvent.SUCCEEDED: NodeState.SUCCEEDED,
            NodeEvent.FAILED: NodeState.FAILED,
            NodeEvent.RETRIED: NodeState.BACKOFF,
            NodeEvent.RETURNED: NodeState.READY,
            NodeEvent.PARKED: NodeState.PARKED,
            NodeEvent.CALLED: NodeState.PENDING,
            NodeEvent.SKIPPED: NodeState.SKIPPED,
            NodeEvent.CANCEL_ASKED: NodeState.CANCELLING,
            NodeEvent.CANCELLED: NodeState.CANCELLED,
        },
        NodeState.BACKOFF: {
            NodeEvent.DUE: NodeState.READY,
            NodeEvent.EXPIRED: NodeState.FAILED,
            NodeEvent.CANCELLED: NodeState.CANCELLED,
        },
        NodeState.PARKED: {
            NodeEvent.UNPARKED: NodeState.READY,
            NodeEvent.EXPIRED: NodeState.FAILED,
            NodeEvent.FAILED: NodeState.FAILED,
            NodeEvent.CANCELLED: NodeState.CANCELLED,
        },
        NodeState.CANCELLING: {
            NodeEvent.CANCELLED: NodeState.CANCELLED,
            NodeEvent.SUCCEEDED: NodeState.SUCCEEDED,
            NodeEvent.FAILED: NodeState.FAILED,
            NodeEvent.SKIPPED: NodeState.SKIPPED,
        },
        NodeState.SUCCEEDED: {},
        NodeState.FAILED: {NodeEvent.REPLAYED: NodeState.PENDING},
        NodeState.CANCELLED: {NodeEvent.REPLAYED: NodeState.PENDING},
        NodeState.SKIPPED: {NodeEvent.REPLAYED: NodeState.PENDING},
    }
)


class RunState(StrEnum):
    """State of a run, derived from its nodes when it ends."""

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


class LeaseState(IntEnum):
    """One byte in a worker's lease table. `LEASED` leaves by compare-and-set, to exactly one of the two."""

    FREE = 0
    LEASED = 1
    RUNNING = 2
    REVOKED = 3


class WorkerState(StrEnum):
    """Life of one worker process, as its pool sees it."""

    STARTING = "starting"
    READY = "ready"
    DRAINING = "draining"
    KILLING = "killing"
    DEAD = "dead"


class WorkerEvent(StrEnum):
    SAID_HELLO = "said_hello"
    DRAIN = "drain"
    KILL = "kill"
    EXITED = "exited"


WORKER_TABLE: Final[Mapping[WorkerState, Mapping[WorkerEvent, WorkerState]]] = MappingProxyType(
    {
        WorkerState.STARTING: {
            WorkerEvent.SAID_HELLO: WorkerState.READY,
            WorkerEvent.DRAIN: WorkerState.DRAINING,
            WorkerEvent.KILL: WorkerState.KILLING,
            WorkerEvent.EXITED: WorkerState.DEAD,
        },
        WorkerState.READY: {
            WorkerEvent.DRAIN: WorkerState.DRAINING,
            WorkerEvent.KILL: WorkerState.KILLING,
            WorkerEvent.EXITED: WorkerState.DEAD,
        },
        WorkerState.DRAINING: {
            WorkerEvent.SAID_HELLO: WorkerState.DRAINING,
            WorkerEvent.DRAIN: WorkerState.DRAINING,
            WorkerEvent.KILL: WorkerState.KILLING,
            WorkerEvent.EXITED: WorkerState.DEAD,
        },
        WorkerState.KILLING: {
            WorkerEvent.SAID_HELLO: WorkerState.KILLING,
            WorkerEvent.DRAIN: WorkerState.KILLING,
            WorkerEvent.KILL: WorkerState.KILLING,
            WorkerEvent.EXITED: WorkerState.DEAD,
        },
        WorkerState.DEAD: {},
    }
)


class BreakerState(StrEnum):
    """What the circuit breaker of a node type lets through: all, nothing, or a few probes."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


class BreakerEvent(StrEnum):
    TRIPPED = "tripped"
    COOLED = "cooled"
    PROVED = "proved"
    RELAPSED = "relapsed"


BREAKER_TABLE: Final[Mapping[BreakerState, Mapping[BreakerEvent, BreakerState]]] = MappingProxyType(
    {
        BreakerState.CLOSED: {BreakerEvent.TRIPPED: BreakerState.OPEN},
        BreakerState.OPEN: {BreakerEvent.COOLED: BreakerState.HALF_OPEN},
        BreakerState.HALF_OPEN: {
            BreakerEvent.PROVED: BreakerState.CLOSED,
            BreakerEvent.RELAPSED: BreakerState.OPEN,
        },
    }
)


class FailureKind(StrEnum):
    """Why an attempt did not succeed. `WAITS` is no failure: it goes on when its calls have ended."""

    ERROR = "error"
    TIMEOUT = "timeout"
    CRASH = "crash"
    MEMORY = "memory"
    PAYLOAD = "payload"
    NO_HANDLER = "no-handler"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"
    EXPIRED = "expired"
    DEADLINE = "deadline"
    WAITS = "waits"


class TriggerRule(StrEnum):
    """When a node may start, judged by the terminal states of its parents."""

    ALL_SUCCEEDED = "all_succeeded"
    ALL_DONE = "all_done"
    ANY_SUCCEEDED = "any_succeeded"
    NONE_FAILED = "none_failed"


S = TypeVar("S")
E = TypeVar("E")


def step(table: Mapping[S, Mapping[E, S]], state: S, event: E, story: str = "") -> S:
    """Return the next state, or raise `IllegalTransition` with the story and change nothing."""
    following = table[state].get(event)
    if following is None:
        raise IllegalTransition(f"{event} in state {state}; {story}")
    return following


def state_word(state: int) -> str:
    """The state of a node as people say it."""
    return "with a worker" if state == NodeState.LEASED else NodeState(state).name.lower()
