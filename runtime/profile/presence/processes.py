"""Processes as they are now: what the page says of each, and what the kernel counts: CPU, memory, waiting for a core.

    before = looked("state/")
    ...
    for row in changes(before, looked("state/")): ...

Needs no answer from anybody, but that those which sleep have not written their books lately: `fresh` asks all of them.

Known limits: what the kernel counts is seen where there is a /proc; elsewhere it is 0.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import Any, Final, NamedTuple

from runtime.profile.ledger.books import Count
from runtime.profile.model import Process
from runtime.profile.presence.control import ask, seen_page
from runtime.profile.presence.page import LETS_ATTACH

_TICK_NS: Final = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
FRESH_S: Final = 0.5
"""To wait for fresh books; who does not answer by then has those of its last beat."""


class Looked(NamedTuple):
    """A process at a moment.

    Attributes:
        process: Who.
        counts: Its books, by kind.
        at_ns: When it was looked at (monotonic).
        since_ns: When it began (monotonic).
        beat_ns: When it last wrote its books (monotonic); 0: never.
        cpu_ns: CPU time, all threads.
        wait_ns: How long its threads were ready and had no core.
        rss_bytes: Resident memory.
        threads: Threads, those of native libraries included.
        self_ns: CPU time that the profiler itself took there.
        state: The kernel's letter: R, S, D, T, Z.
        answers: Whether it answers to requests.
    """

    process: Process
    counts: dict[str, Count]
    at_ns: int
    since_ns: int
    beat_ns: int
    cpu_ns: int
    wait_ns: int
    rss_bytes: int
    threads: int
    self_ns: int
    state: str
    answers: bool

    @property
    def self_cpu_ratio(self) -> float:
        """The part of its CPU time that the profiler took: `profiler_self_cpu_ratio` in data."""
        return self.self_ns / self.cpu_ns if self.cpu_ns else 0.0

    def live(self, kind: str) -> int:
        """How many of a kind live there; 0 where its books are not known."""
        return self.counts[kind].live if kind in self.counts else 0


class ProcessChange(NamedTuple):
    """A process between two moments: parts of one core, and of the time that passed."""

    now: Looked
    cpu: float
    wait: float
    self_cpu: float
    created: dict[str, float]
    """Things of each kind that were created, a second."""


def looked(state_dir: str | os.PathLike[str], *, fresh: bool = True) -> list[Looked]:
    """All processes of a folder.

    Args:
        state_dir: The folder.
        fresh: Have those write their books that sleep.

    Returns:
        A row for each, in the order of roles and numbers.

    Raises:
        ProfileUnavailable: No process of this folder can be seen. StateFolderError: it is no state folder.
    """
    if fresh:
        ask(state_dir, "count", timeout=FRESH_S)
    with seen_page(state_dir) as page:
        rows = page.processes()
    now_ns = time.monotonic_ns()
    found = []
    for row in rows:
        kernel_row = kernel_facts(row.process.pid)
        facts = (kernel_row["cpu_ns"], kernel_row["wait_ns"], kernel_row["rss_bytes"], kernel_row["threads"])
        state = str(kernel_row["state"])
        times, answers = (now_ns, row.begun_ns, row.beat_ns), bool(row.hears & ~LETS_ATTACH)
        found.append(Looked(row.process, row.counts, *times, *facts, row.self_cpu_ns, state, answers))
    return sorted(found, key=order)


def order(row: Looked) -> tuple[int, str, int, int]:
    """The program first, then the spawner, the engine, workers by node type, and what comes and goes."""
    roles = ("face", "spawner", "engine", "worker")
    role = row.process.role
    at = roles.index(role) if role in roles else len(roles)
    return at, row.process.node_type, row.process.number, row.process.pid


def kernel_facts(pid: int) -> dict[str, Any]:
    """What the kernel counts of a process; zeros where that cannot be seen."""
    facts: dict[str, Any] = {"cpu_ns": 0, "wait_ns": 0, "rss_bytes": 0, "threads": 0, "state": ""}
    with suppress(OSError, ValueError, IndexError):
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        facts["state"] = fields[0].decode()
        facts["cpu_ns"] = (int(fields[11]) + int(fields[12])) * _TICK_NS
        facts["threads"], facts["rss_bytes"] = int(fields[17]), int(fields[21]) * _PAGE_BYTES
        cpu_ns = 0
        for thread in os.listdir(f"/proc/{pid}/task"):
            with suppress(OSError, ValueError), open(f"/proc/{pid}/task/{thread}/schedstat", "rb") as file:
                ran_ns, waited_ns, _ = file.read().split()
                cpu_ns += int(ran_ns)
                facts["wait_ns"] += int(waited_ns)
        facts["cpu_ns"] = max(cpu_ns, facts["cpu_ns"])  # to the nanosecond, but without threads that are gone
    return facts


def changes(before: list[Looked], after: list[Looked]) -> list[ProcessChange]:
    """What happened between two looks; of a process that was born meanwhile since it began."""
    was = {row.process: row for row in before}
    found = []
    for now in after:
        then = was.get(now.process)
        passed_ns = max(1, now.at_ns - (then.at_ns if then else now.since_ns))
        cpu, wait, self_cpu = (
            max(0, getattr(now, name) - (getattr(then, name) if then else 0)) / passed_ns
            for name in ("cpu_ns", "wait_ns", "self_ns")
        )
        created = {
            kind: max(0, count.created - (then.counts[kind].created if then and kind in then.counts else 0))
            * 1e9
            / passed_ns
            for kind, count in now.counts.items()
        }
        found.append(ProcessChange(now, cpu, wait, self_cpu, created))
    return found
