"""What can be asked about runs, and the answers as frozen snapshots.

Each question is a pair: a function that makes the request, and one that reads the reply. Neither talks to anyone,
so the blocking and the asyncio face share them. The JSON on the wire is written down in `runtime.host.client`.

Times are nanoseconds since the epoch (wall clock); None means "not yet".
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from actors.protocol import limits
from actors.protocol.errors import ConfigurationError
from actors.protocol.kinds import PRIORITIES
from actors.protocol.states import TERMINAL, NodeState, RunState

Request = tuple[str, dict[str, Any]]


class Counts(NamedTuple):
    """How many nodes of a run are in which state.

    `running` are those whose handler runs. Those that wait count as `ready`: for a worker, at a worker behind others,
    for a retry, or for their handler to be found.
    """

    pending: int = 0
    ready: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    cancelled: int = 0
    skipped: int = 0

    @property
    def done(self) -> int:
        """Nodes in a terminal state."""
        return self.succeeded + self.failed + self.cancelled + self.skipped

    @property
    def total(self) -> int:
        """All nodes."""
        return sum(self)


class Progress(NamedTuple):
    """How far a run, or a task that reports it, has come."""

    done: float
    total: float
    text: str = ""

    @property
    def fraction(self) -> float:
        """From 0 to 1; 0 while the total is unknown."""
        return min(1.0, self.done / self.total) if self.total else 0.0


class RunProgress(Progress):
    """How far a run has come: `done` and `total` are nodes, `text` is what a handler of it reported last.

    Attributes:
        counts: Nodes by state. `running` are those that workers hold: they run there, or wait there to run next.
    """

    counts: Counts

    def __new__(cls, counts: Counts, text: str = "") -> Self:
        """Of counts.

        Args:
            counts: Nodes by state.
            text: What a handler reported.
        """
        made = super().__new__(cls, counts.done, counts.total, text)
        made.counts = counts
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.counts, self.text)


class StoryEvent(NamedTuple):
    """One thing that happened to a run; `node` is None when it concerns the whole run.

    `record` is the number of the record in the log that caused it, where there is one.
    """

    at_ns: int
    node: int | None
    event: str
    text: str
    record: int | None = None


@dataclass(frozen=True, slots=True)
class RunStatus:
    """A run at one moment. `name` is the flow's, empty for single tasks."""

    run_id: str
    name: str
    state: RunState
    counts: Counts
    created_ns: int
    ended_ns: int | None


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """A node at one moment. `attempts` counts those that were started, `worker_pid` is that of the latest.

    `started_ns` and `ended_ns` are of the latest attempt; what ended before any (cancelled, expired) has no start.
    A node that is LEASED is held by the worker of this pid: it runs there if it has `started_ns`, else it waits there.
    """

    index: int
    id: str
    parents: tuple[int, ...]
    state: NodeState
    attempts: int
    started_ns: int | None
    ended_ns: int | None
    worker_pid: int | None
    name: str
    progress: Progress | None = None

    @classmethod
    def from_row(cls, row: Sequence[Any]) -> Self:
        """From a row of the reply to "nodes"."""
        index, name, parents, state, attempts, started_ns, ended_ns, pid, handler, *more = row
        progress = Progress(*more[0]) if more and more[0] else None
        return cls(
            index,
            str(index) if name is None else name,
            tuple(parents),
            NodeState(state),
            attempts,
            started_ns,
            ended_ns,
            pid,
            handler,
            progress,
        )

    @property
    def done(self) -> bool:
        """Whether the state is terminal."""
        return self.state in TERMINAL


class Output(NamedTuple):
    """The end of what an attempt printed; `truncated` says that there was more."""

    text: str
    truncated: bool


class ResultRow(NamedTuple):
    """How a node ended: a wire value, or a failure as it travels."""

    number: int
    id: str
    state: NodeState
    value: Any
    failure: dict[str, Any] | None


# --- questions ----------------------------------------------------------------------------------------------------


def ask_status(run_id: str, *, watch: bool = False) -> Request:
    """State and counts of a run. With `watch`, this session is told when the run ends."""
    return "status", {"run": run_id, "watch": watch}


def read_status(reply: Mapping[str, Any]) -> RunStatus:
    """The reply to `ask_status`."""
    return RunStatus(
        reply["run"],
        reply.get("name") or "",
        RunState(reply["state"]),
        Counts(*reply["counts"]),
        reply["created_ns"],
        reply.get("ended_ns"),
    )


def ask_nodes(run_id: str, first: int = 0, node: int | str | None = None) -> Request:
    """A page of the table of nodes from number `first` on, or the row of one node."""
    return "nodes", {"run": run_id, "node": node, "from": first, "limit": limits.QUERY_ROWS_MAX}


def read_nodes(reply: Mapping[str, Any]) -> list[NodeStatus]:
    """The reply to `ask_nodes`."""
    return [NodeStatus.from_row(row) for row in reply["rows"]]


def ask_results(run_id: str, first: int = 0, node: int | str | None = None, which: str = "all") -> Request:
    """How nodes ended: one node, or a page of "all", of the "final" ones (no other depends on them), or "failed"."""
    return "result", {"run": run_id, "node": node, "which": which, "from": first, "limit": limits.QUERY_ROWS_MAX}


def read_results(reply: Mapping[str, Any]) -> list[ResultRow]:
    """The reply to `ask_results`."""
    return [
        ResultRow(index, str(index) if name is None else name, NodeState(state), value, failure)
        for index, name, state, value, failure in reply["rows"]
    ]


def ask_story(run_id: str, node: int | str | None = None) -> Request:
    """What happened, oldest first."""
    return "story", {"run": run_id, "node": node}


def read_story(reply: Mapping[str, Any]) -> list[StoryEvent]:
    """The reply to `ask_story`."""
    return [
        StoryEvent(at_ns, None if node is None or node < 0 else node, event, text, *cause)
        for at_ns, node, event, text, *cause in reply["events"]
    ]


def ask_why(run_id: str, node: int | str | None = None) -> Request:
    """Why it does not run now."""
    return "why", {"run": run_id, "node": node}


def id_of_run(run: object) -> str:
    """The run id that a caller named, by a handle or itself. Raises ConfigurationError: it is neither."""
    run_id = run if isinstance(run, str) else getattr(run, "run_id", None)
    if not isinstance(run_id, str):
        raise ConfigurationError(f"a run is named by its handle or its id, not by {run!r:.80}")
    return run_id


def ask_priority(run: object, priority: str) -> Request:
    """Another class for a task or run, by its handle or id. Raises ConfigurationError: there can be no such thing."""
    run_id = id_of_run(run)
    if priority not in PRIORITIES:
        raise ConfigurationError(f"priority must be one of {', '.join(PRIORITIES)}, not {priority!r:.80}")
    return "priority", {"run": run_id, "priority": str(priority)}


def ask_output(run_id: str, node: int | str | None = None) -> Request:
    """What the latest attempt printed."""
    return "output", {"run": run_id, "node": node}


def ask_runs(cursor: Any = None) -> Request:
    """A page of the runs that are known, latest first."""
    return "runs", {"from": cursor, "limit": limits.QUERY_ROWS_MAX}


def read_runs(reply: Mapping[str, Any]) -> list[RunStatus]:
    """The reply to `ask_runs`."""
    return [
        RunStatus(run_id, name or "", RunState(state), Counts(*counts), created_ns, ended_ns)
        for run_id, name, state, counts, created_ns, ended_ns in reply["rows"]
    ]


def read_output(reply: Mapping[str, Any]) -> Output:
    """The reply to `ask_output`."""
    return Output(reply["text"], reply["truncated"])


def read_processes(statistics: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The processes in what the engine says of itself, this one first."""
    found: list[dict[str, Any]] = [
        {"role": "face", "pid": os.getpid(), "node_type": None},
        {"role": "spawner", "pid": statistics["spawner_pid"], "node_type": None},
        {"role": "engine", "pid": statistics["pid"], "node_type": None},
    ]
    for pool in statistics["pools"]:
        for worker in pool["workers"]:
            if worker["pid"]:
                found.append({"role": "worker", "pid": worker["pid"], "node_type": pool["node_type"]})
    return found
