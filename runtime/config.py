"""What a user can set: node types, retries, retention, durability. Validated at construction, all problems at once.

Times are given in seconds here, as people think; inside the engine they are integer nanoseconds (conversion happens
here and in `runtime.scheduling` only).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, Literal, get_args

from actors.protocol import limits
from actors.protocol.errors import ConfigurationError, UnknownNodeType
from actors.protocol.states import FailureKind
from actors.protocol.words import is_name
from runtime.scheduling import Scheduling

NS_PER_S: Final = 1_000_000_000
DEFAULT_NODE_TYPE: Final = "default"
"""Node type of a task that names none. When the runtime is given other node types only, the first of them stands in."""
RETRIED_KINDS: Final = frozenset({FailureKind.ERROR, FailureKind.TIMEOUT, FailureKind.CRASH, FailureKind.MEMORY})
"""Failure kinds that a retry can help against; a payload or a missing handler fails the same way again."""
DRAIN_TIMEOUT_S: Final = 10.0
"""How long `close()` lets running attempts finish when it is given no timeout."""

NAME_RULE: Final = f"name must be a string of 1 to {limits.NAME_BYTES_MAX:,} bytes in UTF-8"

Durability = Literal["fsync", "os", "none"]
WorkerMode = Literal["process", "asyncio"]
Payloads = Literal["json", "pickle"]
MissingHandler = Literal["park", "fail"]


class Priority(StrEnum):
    """Priority class of a task; a class is served before all that stand below it."""

    REALTIME = "realtime"
    HIGH = "high"
    NORMAL = "normal"
    LOW = "low"


def seconds_to_ns(seconds: float | None) -> int | None:
    """Integer nanoseconds of a time in seconds; None stays None."""
    return None if seconds is None else int(seconds * NS_PER_S)


def _refuse(what: str, *checks: tuple[bool, str]) -> None:
    """Raise ConfigurationError naming every check that does not hold."""
    problems = [text for holds, text in checks if not holds]
    if problems:
        raise ConfigurationError(f"{what}: " + "; ".join(problems))


def _number(value: object, least: float, most: float = 1e9, *, above: bool = False) -> bool:
    """Whether it is a finite number in these bounds; `above`: and not the least itself."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return least <= value <= most and not (above and value == least)


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 1_000_000_000


@dataclass(frozen=True, slots=True)
class RetryBudget:
    """How many retries a node type may have, so that they do not become its load. What is above waits its turn.

    Args:
        ratio: Retries for each first attempt of the last 10 seconds.
        per_s: Retries a second besides; what waits is spread over time by it, and as much may come at once.

    Raises:
        ConfigurationError: A value is out of range; all problems are named.
    """

    ratio: float = limits.RETRY_RATIO
    per_s: float = limits.RETRY_MIN_PER_S

    def __post_init__(self) -> None:
        _refuse(
            "RetryBudget",
            (_number(self.ratio, 0, 1_000), f"ratio must be a number from 0 to 1,000, not {self.ratio!r:.60}"),
            (
                _number(self.per_s, 0.001, 1_000_000),
                f"per_s must be a number from 0.001 to 1,000,000, not {self.per_s!r:.60}",
            ),
        )

    def to_wire(self) -> dict[str, Any]:
        """As the engine reads it."""
        return {"ratio": float(self.ratio), "min_per_s": float(self.per_s)}


@dataclass(frozen=True, slots=True)
class Breaker:
    """When a node type stops starting tasks because most of them fail, and how it finds out that they succeed again.

    Failures are attempts that ended with the kind "error", "timeout" or "crash".

    Args:
        min_attempts: Attempts that ended within the window below which nothing is concluded.
        failure_ratio: Share of failures among them that opens it, above 0 and up to 1.
        window: Seconds that it looks back.
        cooldown: Seconds in which nothing starts; twice as many each time that it does not work again after them.
        cooldown_cap: Longest of these.
        probes: Tasks that start after that, and must succeed before the others do.

    Raises:
        ConfigurationError: A value is out of range; all problems are named.
    """

    min_attempts: int = limits.BREAKER_ENDED_MIN
    failure_ratio: float = limits.BREAKER_FAILURE_RATIO
    window: float = limits.BREAKER_WINDOW_NS / NS_PER_S
    cooldown: float = limits.BREAKER_COOLDOWN_NS / NS_PER_S
    cooldown_cap: float = limits.BREAKER_COOLDOWN_MAX_NS / NS_PER_S
    probes: int = limits.BREAKER_PROBES

    def __post_init__(self) -> None:
        cooldown = _number(self.cooldown, 0.001)
        _refuse(
            "Breaker",
            (_whole(self.min_attempts), f"min_attempts must be a whole number from 1, not {self.min_attempts!r:.60}"),
            (
                _number(self.failure_ratio, 0, 1, above=True),
                f"failure_ratio must be a number above 0 and up to 1, not {self.failure_ratio!r:.60}",
            ),
            (_number(self.window, 0.001), f"window must be at least 0.001 seconds, not {self.window!r:.60}"),
            (cooldown, f"cooldown must be at least 0.001 seconds, not {self.cooldown!r:.60}"),
            (
                _number(self.cooldown_cap, self.cooldown if cooldown else 0.001),
                f"cooldown_cap must not be below cooldown, and not {self.cooldown_cap!r:.60}",
            ),
            (_whole(self.probes), f"probes must be a whole number from 1, not {self.probes!r:.60}"),
        )

    def to_wire(self) -> dict[str, Any]:
        """As the engine reads it: plain JSON, times in nanoseconds."""
        return {
            "ended_min": self.min_attempts,
            "failure_ratio": float(self.failure_ratio),
            "window_ns": seconds_to_ns(self.window),
            "cooldown_ns": seconds_to_ns(self.cooldown),
            "cooldown_max_ns": seconds_to_ns(self.cooldown_cap),
            "probes": self.probes,
        }


@dataclass(frozen=True, slots=True)
class NodeType:
    """A kind of worker: its pool's size, mode and hygiene.

    Args:
        name: Node type, as tasks name it.
        workers: Processes, `(min, max)` or one number for both.
        mode: "process" runs one task at a time in each worker, "asyncio" up to `concurrency` at once on uvloop. A
            task that is stopped takes the child processes that it started with it; in mode "asyncio" it has to end them
            itself, because tasks share the process.
        concurrency: Tasks at once in one worker of mode "asyncio" (1 in mode "process").
        prefetch: Upper bound of tasks held ahead by one worker; None lets the engine adapt it to task durations.
        recycle_tasks: Replace a worker after this many tasks; None never.
        recycle_rss_bytes: Replace a worker whose resident memory is above this after a task; None never.
        grace: Seconds between the steps of an escalation (cooperative, SIGTERM, SIGKILL).
        retry_budget: Bound of its retries; None: as many as `Retry` says.
        breaker: Holds its tasks back while most of them fail; None: never.
    """

    name: str
    workers: int | tuple[int, int] = field(default_factory=lambda: (1, max(2, os.cpu_count() or 1)))
    mode: WorkerMode = "process"
    concurrency: int = 0
    prefetch: int | None = None
    recycle_tasks: int | None = None
    recycle_rss_bytes: int | None = None
    grace: float = limits.GRACE_NS / NS_PER_S
    retry_budget: RetryBudget | None = None
    breaker: Breaker | None = None

    def __post_init__(self) -> None:
        low, high = self.workers_range
        _refuse(
            f"NodeType {self.name!r}",
            (is_name(self.name), NAME_RULE),
            (1 <= low <= high <= 512, f"workers must be 1 <= min <= max <= 512, not {self.workers}"),
            (self.mode in ("process", "asyncio"), f"mode must be 'process' or 'asyncio', not {self.mode!r}"),
            (0 <= self.concurrency <= limits.PREFETCH_MAX, f"concurrency must be 1 to {limits.PREFETCH_MAX}"),
            (
                self.prefetch is None or 1 <= self.prefetch <= limits.PREFETCH_MAX,
                f"prefetch must be 1 to {limits.PREFETCH_MAX}",
            ),
            (self.recycle_tasks is None or self.recycle_tasks >= 1, "recycle_tasks must be at least 1"),
            (self.recycle_rss_bytes is None or self.recycle_rss_bytes > 0, "recycle_rss_bytes must be positive"),
            (self.grace >= 0, "grace must not be negative"),
            (
                self.retry_budget is None or isinstance(self.retry_budget, RetryBudget),
                f"retry_budget must be a RetryBudget, not {self.retry_budget!r:.60}",
            ),
            (
                self.breaker is None or isinstance(self.breaker, Breaker),
                f"breaker must be a Breaker, not {self.breaker!r:.60}",
            ),
        )

    @property
    def workers_range(self) -> tuple[int, int]:
        """Smallest and largest number of workers."""
        low, high = (self.workers, self.workers) if isinstance(self.workers, int) else self.workers
        return low, high

    @property
    def slots(self) -> int:
        """Tasks that one worker runs at once."""
        if self.mode == "process":
            return 1
        return self.concurrency or 100

    def to_wire(self) -> dict[str, Any]:
        """As the engine reads it: plain JSON, times in nanoseconds."""
        low, high = self.workers_range
        return {
            "name": self.name,
            "workers_min": low,
            "workers_max": high,
            "mode": self.mode,
            "slots": self.slots,
            "prefetch": self.prefetch,
            "recycle_tasks": self.recycle_tasks,
            "recycle_rss_bytes": self.recycle_rss_bytes,
            "grace_ns": seconds_to_ns(self.grace),
            "retry_budget": None if self.retry_budget is None else self.retry_budget.to_wire(),
            "breaker": None if self.breaker is None else self.breaker.to_wire(),
        }


@dataclass(frozen=True, slots=True)
class Retry:
    """When and how often a failed attempt is tried again: exponential backoff with full jitter.

    Args:
        max_attempts: Attempts in all, the first included; 1 means no retry.
        base: Seconds before the second attempt (the upper bound of the draw when `jitter` is on).
        cap: Longest wait in seconds.
        factor: Growth of the wait from one attempt to the next.
        jitter: Draw the wait uniformly between 0 and its bound, so that tasks that failed together spread out.
        on: Failure kinds that are retried, out of "error", "timeout", "crash" and "memory".
        lower_class: Whether each retry goes one priority class down, as far as "low"; a number says from which retry
            on. So what keeps failing does not stand in the way of what has not been tried.

    Raises:
        ConfigurationError: A value is out of range; all problems are named.
    """

    max_attempts: int = 3
    base: float = 0.1
    cap: float = 60.0
    factor: float = 2.0
    jitter: bool = True
    on: Iterable[str] = ("error", "timeout", "crash", "memory")
    lower_class: bool | int = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "on", (self.on,) if isinstance(self.on, str) else tuple(map(str, self.on)))
        unknown = sorted(set(self.on) - RETRIED_KINDS)
        _refuse(
            "Retry",
            (1 <= self.max_attempts <= 1_000_000, "max_attempts must be 1 to 1,000,000"),
            (self.base >= 0, "base must not be negative"),
            (self.cap >= self.base, "cap must not be below base"),
            (self.factor >= 1, "factor must be at least 1"),
            (not unknown, f"on= may hold {sorted(RETRIED_KINDS)}, not {unknown}"),
            (
                isinstance(self.lower_class, bool) or _whole(self.lower_class),
                f"lower_class must be a boolean or a whole number from 1, not {self.lower_class!r:.60}",
            ),
        )

    def to_wire(self) -> dict[str, Any]:
        """As the engine reads it: plain JSON, times in nanoseconds."""
        lowers = {"lower_after": int(self.lower_class)} if self.lower_class else {}
        return {
            "max_attempts": self.max_attempts,
            "base_ns": seconds_to_ns(self.base),
            "cap_ns": seconds_to_ns(self.cap),
            "factor": float(self.factor),
            "jitter": self.jitter,
            "on": list(self.on),
            **lowers,
        }


@dataclass(frozen=True, slots=True)
class Retention:
    """How many finished runs are kept for their results, stories and `rt.handle()`.

    Over any bound the oldest are forgotten, a sixteenth of the room at once. Besides these two there is one in bytes,
    `limits.BYTES_FINISHED_MAX` of encoded arguments and results. Never forgotten is the latest finished run, whatever
    its size, nor one whose end its program was not yet told.

    Args:
        runs: Finished runs kept, at most `limits.RUNS_FINISHED_MAX`; the oldest go first.
        nodes: Nodes of finished runs kept, at most `limits.NODES_FINISHED_MAX`.

    Raises:
        ConfigurationError: A value is out of range.
    """

    runs: int = limits.RUNS_FINISHED_MAX
    nodes: int = limits.NODES_FINISHED_MAX

    def __post_init__(self) -> None:
        _refuse(
            "Retention",
            (1 <= self.runs <= limits.RUNS_FINISHED_MAX, f"runs must be 1 to {limits.RUNS_FINISHED_MAX}"),
            (1 <= self.nodes <= limits.NODES_FINISHED_MAX, f"nodes must be 1 to {limits.NODES_FINISHED_MAX}"),
        )


@dataclass(frozen=True, slots=True)
class RuntimeConfig:
    """Everything a runtime is opened with; `to_wire` is what the engine process is started with.

    Args:
        state_dir: The state folder.
        node_types: Node types, or one of name "default" when empty.
        durability: "fsync" survives power loss, "os" survives the death of every process, "none" promises nothing.
        retention: How many finished runs are kept.
        salvage: Open a log that is corrupt in the middle, and report what was dropped, instead of refusing.
        missing_handler: What happens to a task whose handler workers cannot find: "park" keeps it, warns of it once for
            each handler through the logger "mainspring", and goes on with it when the handler appears; "fail" fails it.
        scheduling: Who runs next, and how much at once.

    Raises:
        ConfigurationError: A value is out of range, a node type is given twice, or a quota names one that is not there.
    """

    state_dir: str
    node_types: Sequence[NodeType] = ()
    durability: Durability = "fsync"
    retention: Retention = field(default_factory=Retention)
    salvage: bool = False
    missing_handler: MissingHandler = "park"
    scheduling: Scheduling = field(default_factory=Scheduling)

    def __post_init__(self) -> None:
        object.__setattr__(self, "state_dir", str(Path(self.state_dir).absolute()))
        object.__setattr__(self, "node_types", tuple(self.node_types) or (NodeType(DEFAULT_NODE_TYPE),))
        names = [n.name for n in self.node_types]
        _refuse(
            "Runtime",
            (len(set(names)) == len(names), f"node types must have different names, not {names}"),
            (self.durability in get_args(Durability), f"durability must be one of {get_args(Durability)}"),
            (self.missing_handler in get_args(MissingHandler), "missing_handler must be 'park' or 'fail'"),
            *((False, problem) for problem in self.scheduling.strangers(names)),
        )

    def node_type_for(self, name: str) -> str:
        """Name of the node type that serves tasks of node type `name`.

        Raises:
            UnknownNodeType: There is none of this name.
        """
        names = [n.name for n in self.node_types]
        if name in names:
            return name
        if name == DEFAULT_NODE_TYPE:
            return names[0]
        raise UnknownNodeType(f"no node type {name!r}; this runtime has {', '.join(map(repr, names))}")

    def to_wire(self) -> dict[str, Any]:
        """What the engine process is started with: plain JSON."""
        return {
            "state_dir": self.state_dir,
            "node_types": [n.to_wire() for n in self.node_types],
            "durability": self.durability,
            "retention": {"runs": self.retention.runs, "nodes": self.retention.nodes},
            "salvage": self.salvage,
            "missing_handler": self.missing_handler,
            "policy": self.scheduling.to_wire(),
            "main": main_script(),
            "face_pid": os.getpid(),
        }


def main_script() -> str | None:
    """File of the script that this program was started as; None for `python -m`, notebooks and interactive sessions."""
    main = sys.modules.get("__main__")
    spec = getattr(main, "__spec__", None)
    file = getattr(main, "__file__", None)
    if not file or (spec is not None and spec.name != "__main__") or not Path(file).is_file():
        return None
    return str(Path(file).absolute())
