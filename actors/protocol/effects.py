"""What actors want done, as verbs; all frozen. The host makes them real, the simulator pretends.

An effect that tells anyone outside the engine about a change carries the LSN it waits for (`lsn`): the host holds it
until the log is durable up to there (rule R3).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from actors.protocol.kinds import Kind
    from actors.run import Run


class RaiseFloor(NamedTuple):
    """Nothing below this LSN is needed any more."""

    lsn: int


class Tell(NamedTuple):
    """Send a frame to a session: first byte, then `body` as JSON. Held until `lsn` is durable."""

    session: str
    frame: str
    body: Any
    lsn: int
    control: bool = False


class LeaseWork(NamedTuple):
    """Enter the serials in the worker's lease table, then send it the work."""

    worker: int
    serial: int
    run: Run
    kind: Kind
    nodes: Sequence[int]
    attempts: list[int] | None
    items: list[Any]
    batch: int = 0
    """Number of the batch that they belong to; 0: they are run one by one."""


class Revoke(NamedTuple):
    """Try to take these serials back by compare-and-set; answer with `LeasesRevoked`."""

    worker: int
    serials: tuple[int, ...]


class AskCancel(NamedTuple):
    """Cooperative stop of one running attempt: reason 1 cancel, 2 timeout, 3 deadline."""

    worker: int
    serial: int
    reason: int


class AskResults(NamedTuple):
    """Show a worker whether results that it has are wanted at once, because others wait for what they make ready."""

    worker: int
    wanted: bool


class StartWorker(NamedTuple):
    worker: int
    node_type: str


class DrainWorker(NamedTuple):
    """Let the worker finish what runs, claim nothing more and exit."""

    worker: int


class SignalWorker(NamedTuple):
    """Send a signal by name ("TERM" to the process, "KILL" to its whole group)."""

    worker: int
    signal: str


class ForgetRun(NamedTuple):
    """The run was removed by retention: its blobs can go."""

    run_key: str


class WakeAt(NamedTuple):
    """Call again with `TimePassed` at this monotonic time at the latest."""

    due_ns: int


class StopEngine(NamedTuple):
    """All is drained: stop the processes and exit."""

    reason: str


class Refuse(NamedTuple):
    """The engine cannot go on; sessions are told, nothing more is acknowledged."""

    code: str
    text: str


class Announce(NamedTuple):
    """Tell every session something about the engine itself; code "" means all is well again."""

    code: str
    text: str


class Scaled(NamedTuple):
    """Tell every session that a pool gets another size, and why; with a number: ask whether it should."""

    node_type: str
    before: int
    after: int
    reason: str
    number: int = 0
    figures: dict[str, Any] | None = None


ALL: Final[frozenset[type]] = frozenset(
    {
        RaiseFloor,
        Tell,
        LeaseWork,
        Revoke,
        AskCancel,
        AskResults,
        StartWorker,
        DrainWorker,
        SignalWorker,
        ForgetRun,
        WakeAt,
        StopEngine,
        Refuse,
        Announce,
        Scaled,
    }
)
"""Every effect; what an actor returns and is not here is a message to another actor."""
