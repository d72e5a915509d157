"""What actors want done, as verbs; all frozen. The host makes them real, the simulator pretends.

An effect that tells anyone outside the engine about a change carries the LSN it waits for (`lsn`): the host holds it
until the log is durable up to there (rule R3).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from actors.protocol.kinds import Kind
    from actors.protocol.records import Record
    from actors.run import Run


@dataclass(frozen=True, slots=True)
class Persist:
    """Give these records, in order, to the persister."""

    records: list[Record]


@dataclass(frozen=True, slots=True)
class RaiseFloor:
    """Nothing below this LSN is needed any more."""

    lsn: int


@dataclass(frozen=True, slots=True)
class Tell:
    """Send a frame to a session: first byte, then `body` as JSON. Held until `lsn` is durable."""

    session: str
    frame: str
    body: Any
    lsn: int
    control: bool = False


@dataclass(frozen=True, slots=True)
class LeaseWork:
    """Enter the serials in the worker's lease table, then send it the work."""

    worker: int
    serial: int
    run: Run
    kind: Kind
    nodes: list[int]
    attempts: list[int] | None
    items: list[Any]


@dataclass(frozen=True, slots=True)
class Revoke:
    """Try to take these serials back by compare-and-set; answer with `LeasesRevoked`."""

    worker: int
    serials: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class AskCancel:
    """Cooperative stop of one running attempt: reason 1 cancel, 2 timeout."""

    worker: int
    serial: int
    reason: int


@dataclass(frozen=True, slots=True)
class StartWorker:
    worker: int
    node_type: str


@dataclass(frozen=True, slots=True)
class DrainWorker:
    """Let the worker finish what runs, claim nothing more and exit."""

    worker: int


@dataclass(frozen=True, slots=True)
class SignalWorker:
    """Send a signal by name ("TERM" to the process, "KILL" to its whole group)."""

    worker: int
    signal: str


@dataclass(frozen=True, slots=True)
class ForgetRun:
    """The run was removed by retention: its blobs can go."""

    run_key: str


@dataclass(frozen=True, slots=True)
class WakeAt:
    """Call again with `TimePassed` at this monotonic time at the latest."""

    due_ns: int


@dataclass(frozen=True, slots=True)
class StopEngine:
    """All is drained: stop the processes and exit."""

    reason: str


@dataclass(frozen=True, slots=True)
class Refuse:
    """The engine cannot go on; sessions are told, nothing more is acknowledged."""

    code: str
    text: str


@dataclass(frozen=True, slots=True)
class Announce:
    """Tell every session something about the engine itself; code "" means all is well again."""

    code: str
    text: str


ALL: Final[frozenset[type]] = frozenset(
    {
        Persist,
        RaiseFloor,
        Tell,
        LeaseWork,
        Revoke,
        AskCancel,
        StartWorker,
        DrainWorker,
        SignalWorker,
        ForgetRun,
        WakeAt,
        StopEngine,
        Refuse,
        Announce,
    }
)
"""Every effect; what an actor returns and is not here is a message to another actor."""
