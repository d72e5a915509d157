"""What a user can set: node types, retries, retention, durability. Validated at construction, all problems at once.

Times are given in seconds here, as people think; inside the engine they are integer nanoseconds (conversion happens
here and in `runtime.scheduling` only).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, Literal, get_args

from actors.archived import ArchiveRule
from actors.protocol import limits
from actors.protocol.errors import UnknownNodeType
from actors.protocol.moments import NS_PER_S
from actors.protocol.states import FailureKind
from actors.protocol.words import is_name
from runtime.checks import BYTES_MAX, SECONDS_MAX, is_number, is_one_of, is_range, is_whole, listed, refuse
from runtime.host.scaling import OnScale, can_be_asked
from runtime.profiling import Profiling
from runtime.protection import Breaker, RetryBudget
from runtime.retention import Retention
from runtime.scheduling import Scheduling
from runtime.script import main_script
from runtime.units import seconds_to_ns

DEFAULT_NODE_TYPE: Final = "default"
"""Node type of a task that names none. When the runtime is given other node types only, the first of them stands in."""
WORKERS_MAX: Final = 512
"""Of one node type."""
NICENESS_MAX: Final = 19
RETRIED_KINDS: Final = frozenset({FailureKind.ERROR, FailureKind.TIMEOUT, FailureKind.CRASH, FailureKind.MEMORY})
"""Failure kinds that a retry can help against; a payload or a missing handler fails the same way again."""
DRAIN_TIMEOUT_S: Final = 10.0
"""How long `close()` lets running attempts finish when it is given no timeout."""

_COOLDOWN_MAX_S: Final = limits.POOL_COOLDOWN_MAX_NS / NS_PER_S
NAME_RULE: Final = f"name must be a string of 1 to {limits.NAME_BYTES_MAX:,} bytes in UTF-8"

_CHECKPOINT_BYTES: Final = (limits.CHECKPOINT_BYTES_MIN, limits.CHECKPOINT_BYTES_MAX)
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


@dataclass(frozen=True, slots=True)
class NodeType:
    """A kind of worker: its pool's size, mode and hygiene.

    Args:
        name: Node type, as tasks name it.
        workers: Processes, `(min, max)` or one number for both. With `(0, max)` none is there while nothing is to do.
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
        niceness: How far its workers step back where processes compete for cores: from 0, as the program itself, to
            19. With 10, tasks that compute for milliseconds delay neither engine nor program; where tasks are short,
            workers that step back are what the engine waits for.
        cooldown: Seconds; a worker above the smallest number goes when it was not needed for twice as long, or for
            longer where the pool shrank too soon before.
        profile_signal: Whether its workers are profiled by SIGPROF, which interrupts system calls. False where a C
            library does not go on after that; then `python -m runtime.profile py-spy` is the way to look at them.
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
    niceness: int = 0
    cooldown: float = limits.POOL_COOLDOWN_NS / NS_PER_S
    profile_signal: bool = True

    def __post_init__(self) -> None:
        refuse(
            f"NodeType {self.name!r}",
            (is_name(self.name), NAME_RULE),
            (
                is_range(self.workers, WORKERS_MAX),
                f"workers must be 0 <= min <= max <= {WORKERS_MAX}, max >= 1, not {self.workers!r:.60}",
            ),
            (is_one_of(self.mode, get_args(WorkerMode)), f"mode must be 'process' or 'asyncio', not {self.mode!r:.60}"),
            (is_whole(self.concurrency, 0, limits.PREFETCH_MAX), f"concurrency must be 1 to {limits.PREFETCH_MAX}"),
            (
                self.prefetch is None or is_whole(self.prefetch, 1, limits.PREFETCH_MAX),
                f"prefetch must be 1 to {limits.PREFETCH_MAX}",
            ),
            (
                self.recycle_tasks is None or is_whole(self.recycle_tasks, 1, BYTES_MAX),
                "recycle_tasks must be at least 1",
            ),
            (
                self.recycle_rss_bytes is None or is_whole(self.recycle_rss_bytes, 1, BYTES_MAX),
                "recycle_rss_bytes must be positive",
            ),
            (is_number(self.grace, 0), f"grace must be 0 to {SECONDS_MAX:,.0f} seconds, not {self.grace!r:.60}"),
            (
                self.retry_budget is None or isinstance(self.retry_budget, RetryBudget),
                f"retry_budget must be a RetryBudget, not {self.retry_budget!r:.60}",
            ),
            (
                self.breaker is None or isinstance(self.breaker, Breaker),
                f"breaker must be a Breaker, not {self.breaker!r:.60}",
            ),
            (is_whole(self.niceness, 0, NICENESS_MAX), f"niceness must be 0 to {NICENESS_MAX}"),
            (
                is_number(self.cooldown, 0, _COOLDOWN_MAX_S, above=True),
                f"cooldown must be above 0 and at most {_COOLDOWN_MAX_S:,.0f} seconds",
            ),
            (isinstance(self.profile_signal, bool), "profile_signal must be True or False"),
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
            "cooldown_ns": seconds_to_ns(self.cooldown),
            "niceness": self.niceness,
            **({} if self.profile_signal else {"profile_signal": False}),
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
        object.__setattr__(self, "on", tuple(map(str, listed(self.on))))
        unknown = sorted(set(self.on) - RETRIED_KINDS)
        refuse(
            "Retry",
            (is_whole(self.max_attempts, 1, 1_000_000), "max_attempts must be 1 to 1,000,000"),
            (is_number(self.base, 0), f"base must be 0 to {SECONDS_MAX:,.0f} seconds"),
            (
                is_number(self.cap, self.base if is_number(self.base, 0) else 0),
                f"cap must not be below base, nor above {SECONDS_MAX:,.0f} seconds",
            ),
            (is_number(self.factor, 1), "factor must be a number of at least 1"),
            (isinstance(self.jitter, bool), "jitter must be True or False"),
            (not unknown, f"on= may hold {sorted(RETRIED_KINDS)}, not {unknown}"),
            (
                isinstance(self.lower_class, bool) or is_whole(self.lower_class),
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
class RuntimeConfig:
    """Everything a runtime is opened with; `to_wire` is what the engine process is started with.

    Args:
        state_dir: The state folder.
        node_types: Node types, or one of name "default" when empty.
        durability: "fsync" survives power loss, "os" survives the death of every process, "none" promises nothing.
        retention: How many finished runs are kept, and how long.
        salvage: Open a log that is corrupt in the middle, and report what was dropped, instead of refusing.
        missing_handler: What happens to a task whose handler workers cannot find: "park" keeps it, warns of it once for
            each handler through the logger "mainspring", and goes on with it when the handler appears; "fail" fails it.
        scheduling: Who runs next, and how much at once.
        on_scale: Asked in this program before a pool gets another size; see `runtime.host.scaling`.
        checkpoint_bytes: Of log, after which the state is written to the checkpoint; None: never.
        log_shards: In how many shards the log of a new folder lies, and that of an old one must; None: in one, or as
            it is.
        profiling: What the profiler does beyond what is always on.

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
    on_scale: OnScale | None = None
    checkpoint_bytes: int | None = limits.CHECKPOINT_BYTES
    log_shards: int | None = None
    profiling: Profiling = field(default_factory=Profiling)

    def __post_init__(self) -> None:
        object.__setattr__(self, "state_dir", str(Path(self.state_dir).absolute()))
        given = listed(self.node_types)
        object.__setattr__(self, "node_types", given or (NodeType(DEFAULT_NODE_TYPE),))
        names = [n.name for n in given if isinstance(n, NodeType)] or [DEFAULT_NODE_TYPE]
        known = isinstance(self.scheduling, Scheduling)
        refuse(
            "Runtime",
            (all(isinstance(n, NodeType) for n in given), f"node_types must be NodeType objects, not {given!r:.80}"),
            (len(set(names)) == len(names), f"node types must have different names, not {names}"),
            (
                is_one_of(self.durability, get_args(Durability)),
                f"durability must be one of {', '.join(get_args(Durability))}",
            ),
            (is_one_of(self.missing_handler, get_args(MissingHandler)), "missing_handler must be 'park' or 'fail'"),
            (isinstance(self.retention, Retention), f"retention must be a Retention, not {self.retention!r:.60}"),
            (known, f"scheduling must be a Scheduling, not {self.scheduling!r:.60}"),
            *((False, problem) for problem in (self.scheduling.strangers(names) if known else ())),
            (
                self.checkpoint_bytes is None or is_whole(self.checkpoint_bytes, *_CHECKPOINT_BYTES),
                f"checkpoint_bytes must be {_CHECKPOINT_BYTES[0]:,} to {_CHECKPOINT_BYTES[1]:,}, or None",
            ),
            (
                self.log_shards is None or is_whole(self.log_shards, 1, limits.LOG_SHARDS_MAX),
                f"log_shards must be 1 to {limits.LOG_SHARDS_MAX}, or None",
            ),
            (isinstance(self.profiling, Profiling), f"profiling must be a Profiling, not {self.profiling!r:.60}"),
            (can_be_asked(self.on_scale), f"on_scale must be a function, and no coroutine, not {self.on_scale!r:.60}"),
        )

    @property
    def archive_rule(self) -> ArchiveRule | None:
        """How long runs stay in the archive; None: there is none."""
        rule = self.retention.archive_rule()
        return rule if rule.keeps and self.checkpoint_bytes is not None else None

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
        rule = self.archive_rule
        return {
            "state_dir": self.state_dir,
            "node_types": [n.to_wire() | {"asks_scale": self.on_scale is not None} for n in self.node_types],
            "durability": self.durability,
            "retention": {"runs": self.retention.runs, "nodes": self.retention.nodes},
            "salvage": self.salvage,
            "checkpoint_bytes": self.checkpoint_bytes,
            "archive": None if rule is None else rule.to_json(),
            "missing_handler": self.missing_handler,
            "policy": self.scheduling.to_wire(),
            "main": main_script(),
            "face_pid": os.getpid(),
            **({"allow_attach": True} if self.profiling.allow_attach else {}),
        }
