"""What actors are told: commands are imperatives, events past tense; all frozen.

Three groups: what a session (the user's program) says, what workers and their processes do, what actors tell each
other. The host decodes bytes to these before the actors see them, and keeps the raw bytes where the log stores them
unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from actors.protocol.graph import GraphColumns

if TYPE_CHECKING:
    from actors.protocol.kinds import Kind
    from actors.run import Run

# --- from a session -----------------------------------------------------------------------------------------------


class SessionOpened(NamedTuple):
    """A face said hello. It wants again what ended at `open_seq` or later."""

    session: str
    open_seq: int


class SessionLost(NamedTuple):
    session: str


class KindDefined(NamedTuple):
    session: str
    kind_no: int
    data: dict[str, Any]


class KindsGivenUp(NamedTuple):
    """No submission that comes names a kind below this number."""

    session: str
    before: int


class TasksSubmitted(NamedTuple):
    """Consecutive single tasks that piled up: `tasks` holds [seq, kind number, item], `raw` the same as JSON.

    A task with times has more columns, null or at the end missing where there is none: [..., when it is due, when it
    expires (wall clock), whether due is a time of day and not an interval, deadline (wall clock), whether that is one].
    """

    session: str
    tasks: list[list[Any]]
    raw: bytes


class MapSubmitted(NamedTuple):
    """Many items for one kind. `raw` is JSON [seq, kind number, items]."""

    session: str
    seq: int
    kind_no: int
    items: list[Any]
    raw: bytes


class GraphSubmitted(NamedTuple):
    """A graph. `raw` is what the log keeps: the container, or the name of its blob."""

    session: str
    seq: int
    header: dict[str, Any]
    columns: GraphColumns
    raw: bytes


class SubmissionRefused(NamedTuple):
    """The host could not read a submission; it is answered with the error."""

    session: str
    seq: int
    code: str
    text: str


class CancelAsked(NamedTuple):
    session: str
    query_id: int
    run_key: str
    node: int | None


class Queried(NamedTuple):
    session: str
    query_id: int
    what: str
    args: dict[str, Any]


class CloseAsked(NamedTuple):
    session: str
    drain: bool
    timeout_ns: int


# --- from workers and their processes -----------------------------------------------------------------------------


class WorkerStarted(NamedTuple):
    worker: int
    pid: int


class WorkerHello(NamedTuple):
    worker: int
    pid: int


class WorkerCannotBoot(NamedTuple):
    worker: int
    text: str


class WorkerDone(NamedTuple):
    """Groups [serial, run number, nodes, values, started ns, end offsets ns]; `raw` is that as JSON, with the pid.

    `passed`: the worker has claimed or passed over all serials up to here (see `WorkerPool`).
    """

    worker: int
    groups: list[list[Any]]
    raw: bytes
    passed: int = 0


class WorkerFailed(NamedTuple):
    """Rows [serial, run number, node, started ns, ended ns, failure]. `passed` as in `WorkerDone`."""

    worker: int
    rows: list[list[Any]]
    passed: int = 0


class WorkerSpawned(NamedTuple):
    """Nodes that a task wants to add to its run; they count only if the task succeeds."""

    worker: int
    serial: int
    block: dict[str, Any]
    raw: bytes


class WorkerProgress(NamedTuple):
    worker: int
    serial: int
    done: float
    total: float
    text: str


class WorkerLogged(NamedTuple):
    worker: int
    serial: int
    stream: str
    text: str


class WorkerPools(NamedTuple):
    """What the object pools of a worker hold: rows of a name and `actors.policy.object_pool.PoolCounts`."""

    worker: int
    rows: list[list[Any]]


class WorkerObserved(NamedTuple):
    """Read from the lease table: what runs now, since when; counters for recycling.

    `running` has serials and starts at asyncio workers. Serials up to `passed` were claimed or passed over. `stopped`
    says whether the process is frozen by a signal; None when nobody looked.
    """

    worker: int
    serial: int
    started_ns: int
    rss_bytes: int
    tasks_done: int
    stopped: bool | None = None
    running: tuple[tuple[int, int], ...] = ()
    passed: int = 0


class WorkerExited(NamedTuple):
    """A worker process ended.

    `claimed` are its serials in state RUNNING, `current` the one it was executing (0: none). `outputs` is what its
    open attempts had printed, by serial; under 0 what nobody in particular had, such as the dump of a crash.
    """

    worker: int
    status: str
    signal: int
    current: int
    started_ns: int
    claimed: tuple[int, ...]
    outputs: Mapping[int, str] = MappingProxyType({})


class LeasesRevoked(NamedTuple):
    """Answer to `Revoke`: these serials were still unclaimed and are now nobody's."""

    worker: int
    won: tuple[int, ...]
    asked: tuple[int, ...]


class Told(NamedTuple):
    """All that was to be told up to this LSN is in the hands of the sessions."""

    lsn: int


class TimePassed(NamedTuple):
    """Nothing but time; timers that are due fire."""


# --- between actors -----------------------------------------------------------------------------------------------


class Offer(NamedTuple):
    """Pool to scheduler: these workers can take so many tasks, of the class `worst` or a better one if given."""

    node_type: str
    shares: tuple[tuple[int, int], ...]
    worst: int | None = None
    slots: int = 0
    """Slots of the pool, and leases of each class in it; named where classes have shares."""
    held: tuple[int, ...] = ()
    windows: tuple[int, ...] = ()
    """Leases that fit into the table of each worker in `shares`; named where calls wait for their batch."""


class Grant(NamedTuple):
    """Scheduler to pool: nodes to lease to a worker, with what they need to run."""

    worker: int
    run: Run
    kind: Kind
    nodes: Sequence[int]
    attempts: list[int] | None
    items: list[Any]
    batch: int = 0
    """Grants in a row that have the same number, and go to one worker, are one call there; 0: they are no batch."""


FinishedGroup = tuple["Run", Sequence[int], list[Any], int, list[int]]
"""Run, nodes, values, start of the first (ns, monotonic clock), ends relative to it (ns)."""


class Finished(NamedTuple):
    """Pool to scheduler: results under valid leases. `raw` is None when only part of the frame was valid."""

    pid: int
    groups: list[FinishedGroup]
    raw: bytes | None


class AttemptFailed(NamedTuple):
    """Pool to scheduler: an attempt ended without success."""

    run: Run
    node: int
    failure: dict[str, Any]
    pid: int
    started_ns: int
    ended_ns: int


class Returned(NamedTuple):
    """Pool to scheduler: leases that were never started; the nodes go back before the others."""

    run: Run
    nodes: list[int]
    cause: str


class Spawned(NamedTuple):
    """Pool to scheduler: what a task still running wants to add when it succeeds."""

    run: Run
    node: int
    block: dict[str, Any]
    raw: bytes


class StopLeases(NamedTuple):
    """Scheduler to pool: these nodes of a run shall not run, or stop running."""

    run: Run
    nodes: list[int]


class WorkerWanted(NamedTuple):
    """Pool to supervisor: start one more worker."""

    node_type: str
    reason: str


class WorkerAdded(NamedTuple):
    """Supervisor to pool: this worker is being started."""

    worker: int
    node_type: str


class WorkerGone(NamedTuple):
    """Pool to supervisor: a worker ended. `healthy` is False when it never served or died without work."""

    worker: int
    node_type: str
    healthy: bool
    reason: str


class PoolDelayed(NamedTuple):
    """Supervisor to pool: its workers die too often; the next starts at this time."""

    node_type: str
    until_ns: int
    reason: str


class MachineSeen(NamedTuple):
    """The host looked at the machine: busy part of all processors since the look before (None: there was none), free
    part of the memory, processors that this program may use, and for how many more workers as large as the largest of
    now there is memory (None: there is none to go by)."""

    cpu_busy: float | None
    memory_free: float
    cores: int
    fits: int | None = None


class Drain(NamedTuple):
    """Supervisor to the others: give out no more work."""


class LateResult(NamedTuple):
    """Pool to scheduler: an attempt that was given up has answered; nothing of it counts (guarantee G3)."""

    run_no: int
    node: int
    worker: int


class Reported(NamedTuple):
    """Pool to scheduler: a handler said how far it is; what it said stands in the run."""

    run: Run
    node: int


class Noted(NamedTuple):
    """Pool to scheduler: a line for the story of a node."""

    run: Run
    node: int
    event: str
    text: str
