"""What a user can set: node types, priorities, durability. Validated at construction, all problems at once.

Times are given in seconds here, as people think; inside the engine they are integer nanoseconds (conversion happens here only).
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

from actors.protocol import limits
from actors.protocol.errors import ConfigurationError

NS_PER_S = 1_000_000_000

Durability = Literal["fsync", "os", "none"]
WorkerMode = Literal["process", "asyncio"]
Payloads = Literal["json", "pickle"]


class Priority(StrEnum):
    """Priority class of a task; a class is served before all that stand below it."""

    REALTIME = "realtime"
    HIGH = "high"
    NORMAL = "normal"
    LOW = "low"


def seconds_to_ns(seconds: float | None) -> int | None:
    """Integer nanoseconds of a time in seconds; None stays None."""
    return None if seconds is None else int(seconds * NS_PER_S)


def _check(problems: list[str], ok: bool, text: str) -> None:
    if not ok:
        problems.append(text)


@dataclass(frozen=True, slots=True)
class NodeType:
    """A kind of worker: its pool's size, mode and hygiene.

    Args:
        name: Node type, as tasks name it.
        workers: Processes, `(min, max)` or one number for both.
        mode: "process" runs one task at a time in each worker, "asyncio" up to `concurrency` at once on uvloop.
        concurrency: Tasks at once in one worker of mode "asyncio" (1 in mode "process").
        prefetch: Upper bound of tasks held ahead by one worker; None lets the engine adapt it to task durations.
        recycle_tasks: Replace a worker after this many tasks; None never.
        recycle_rss_bytes: Replace a worker whose resident memory is above this after a task; None never.
        grace: Seconds between the steps of an escalation (cooperative, SIGTERM, SIGKILL).
    """

    name: str
    workers: int | tuple[int, int] = field(default_factory=lambda: (1, max(2, os.cpu_count() or 1)))
    mode: WorkerMode = "process"
    concurrency: int = 0
    prefetch: int | None = None
    recycle_tasks: int | None = None
    recycle_rss_bytes: int | None = None
    grace: float = limits.GRACE_NS / NS_PER_S

    def __post_init__(self) -> None:
        problems: list[str] = []
        _check(problems, bool(self.name) and isinstance(self.name, str), "name must be a non-empty string")
        low, high = self.workers_range
        _check(problems, 1 <= low <= high <= 512, f"workers must be 1 <= min <= max <= 512, not {self.workers}")
        _check(problems, self.mode in ("process", "asyncio"), f"mode must be 'process' or 'asyncio', not {self.mode!r}")
        _check(problems, 0 <= self.concurrency <= limits.PREFETCH_MAX, f"concurrency must be 1 to {limits.PREFETCH_MAX}")
        _check(problems, self.prefetch is None or 1 <= self.prefetch <= limits.PREFETCH_MAX, f"prefetch must be 1 to {limits.PREFETCH_MAX}")
        _check(problems, self.recycle_tasks is None or self.recycle_tasks >= 1, "recycle_tasks must be at least 1")
        _check(problems, self.recycle_rss_bytes is None or self.recycle_rss_bytes > 0, "recycle_rss_bytes must be positive")
        _check(problems, self.grace >= 0, "grace must not be negative")
        if problems:
            raise ConfigurationError(f"NodeType {self.name!r}: " + "; ".join(problems))

    @property
    def workers_range(self) -> tuple[int, int]:
        """Smallest and largest number of workers."""
        return (self.workers, self.workers) if isinstance(self.workers, int) else self.workers

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
        }
