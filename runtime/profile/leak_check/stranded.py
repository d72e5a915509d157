"""What is left with somebody who is dead, or waits for what has ended: what is said without a mark, twice in a row.

    kind      where     why nothing moves it
    run       engine    none of its nodes can go on (`actors.lost`)
    lease     engine    the worker that claimed it is dead, and nobody took it back
    message   engine    it was sent to a worker that died before it took it, and nobody sent it to another
    timer     engine    its run has ended
    ask       program   the engine that was asked is dead, and no other came
    actor     program   a process of ours goes on, and the one that supervises it is dead
    segment   each      whoever made it is dead, nobody maps it, and this process has it open

A worker's death, and what follows, are told to the engine in milliseconds: what is so at two looks, a second apart, was
forgotten. An engine is started again in seconds: there it must be so for `PATIENCE_NS`.

Concurrency: in a thread beside; what changes meanwhile is skipped, and looked at the next time.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

from actors.lost import lost_runs, lost_timers
from actors.protocol.states import LeaseState
from runtime.host import kernel
from runtime.host.kernel import is_alive
from runtime.profile.leak_check.references import frame_of
from runtime.profile.ledger.books import LedgerEntry
from runtime.profile.ledger.kinds import ACTOR, ASK, LEASE, MESSAGE, RUN, SEGMENT, TIMER
from runtime.profile.ledger.pins import Stranded
from runtime.profile.ledger.sites import frame_at
from runtime.profile.model import Frame, Process

RUNS_MAX: Final = 10_000
"""Looked at for one that nothing will move; in a thread beside the engine, so it may not take long."""
LEASES_MAX: Final = 10_000
PATIENCE_NS: Final = 5_000_000_000
ENGINE: Final = Process(0, 0, "engine").title
SUPERVISED: Final = ("worker", "engine", "checkpointer", "trimmer")
_PARENT: Final = 1
_INIT: Final = 1
"""Who gets the children of the dead; none of ours is started by it."""


class EngineLook:
    """Looks at an `actors.core.EngineCore` and the `runtime.host.engine_host.EngineHost` around it."""

    def __init__(self, core: Any, host: Any) -> None:
        self._core, self._host = core, host
        self._born: dict[int, tuple[int, int]] = {}

    def __call__(self) -> Iterator[Stranded]:
        for run, node, why in lost_runs(self._core, RUNS_MAX):
            yield Stranded(RUN, run.key, why, _site(run.kind(node)), ENGINE)
        yield from self._leases()
        for name, ended, node, why in lost_timers(self._core, RUNS_MAX):
            yield Stranded(TIMER, name, why, () if ended is None else _site(ended.kind(node)), ENGINE)

    def _leases(self) -> Iterator[Stranded]:
        born, self._born = self._born, {}
        left = LEASES_MAX
        for pool in list(self._core.pools.values()):
            for worker in list(pool.workers.values()):
                if not worker.pid:
                    continue
                known = born.get(worker.id)
                if known is None or known[0] != worker.pid:
                    known = worker.pid, kernel.start_time(worker.pid)
                self._born[worker.id] = known
                if is_alive(*known):
                    continue
                process = Process(*known, "worker", worker.id, pool.name)
                for found in self._of_dead(process, worker):
                    left -= 1
                    if left < 0:
                        return
                    yield found

    def _of_dead(self, process: Process, worker: Any) -> Iterator[Stranded]:
        """What a worker has that is dead: what it claimed are leases, what it never took are messages."""
        owner = process.named
        post = self._host._workers.get(worker.id)
        for group in worker.book.groups():
            for at, is_open in enumerate(group.open):
                if not is_open:
                    continue
                serial, node = group.base + at, group.nodes[at]
                name = f"{group.run.key}/{group.run.node_id(node)}"
                if post is None or post.table.states(serial, 1)[0] == LeaseState.RUNNING:
                    why = f"{owner}, which holds it, is dead, and nobody took it back"
                    yield Stranded(LEASE, name, why, _site(group.kind), owner)
                else:
                    why = f"it was delivered to {owner}, which is dead and never took it"
                    yield Stranded(MESSAGE, name, why, _site(group.kind), owner)


def _site(kind: Any) -> tuple[Frame, ...]:
    return (frame_of(kind.handler),)


class ProgramLook:
    """Looks at what a program asked of its engine, and at the processes of its page.

    Args:
        intake: The `runtime.host.intake.Intake` of its client.
        page: Gives its page; None where it has none.
    """

    def __init__(self, intake: Any, page: Any) -> None:
        self._intake, self._page = intake, page
        self._engine: Process | None = None
        self._supervisors: dict[Process, tuple[int, int]] = {}
        self._dead_ns = 0

    def __call__(self) -> Iterator[Stranded]:
        page = self._page()
        rows = [] if page is None else [row.process for row in page.processes()]
        yield from self._orphans(rows)
        self._engine = next((process for process in rows if process.role == "engine"), self._engine)
        engine = self._engine
        if engine is None or is_alive(engine.pid, engine.start_time):
            self._dead_ns = 0
            return
        now_ns = time.monotonic_ns()
        self._dead_ns = self._dead_ns or now_ns
        if now_ns - self._dead_ns >= PATIENCE_NS:
            owner = engine.named
            why = f"{owner}, which was asked, is dead, and no other engine came"
            for row in self.questions():
                yield Stranded(ASK, row.key, why, row.site, owner)

    def questions(self) -> list[LedgerEntry]:
        """What waits for an answer, each with the line that asks."""
        owner, found = self._engine, []
        for number, query in list(self._intake.queries.items()):
            site = (frame_at(*query.place),)
            name = f"question {number}"
            found.append(LedgerEntry(number, ASK, name, query.since_ns, owner and owner.title, -1, False, site, ()))
        return found

    def _orphans(self, rows: list[Process]) -> Iterator[Stranded]:
        before, self._supervisors = self._supervisors, {}
        for process in rows:
            if process.role not in SUPERVISED:
                continue
            supervisor = before.get(process) or _parent_of(process.pid)
            self._supervisors[process] = supervisor
            pid = supervisor[0]
            if pid and (pid == _INIT or not is_alive(*supervisor)) and is_alive(process.pid, process.start_time):
                name, owner = process.named, "" if pid == _INIT else f"pid {pid}"
                why = f"it goes on, and the process that supervised it{owner and f', {owner},'} is dead"
                yield Stranded(ACTOR, name, why, (Frame(process.title),), owner)


def _parent_of(pid: int) -> tuple[int, int]:
    fields = kernel._stat(pid) if kernel.LINUX else None
    parent = int(fields[_PARENT]) if fields else 0
    return parent, kernel.start_time(parent) if parent else 0


# --- blocks of shared memory ------------------------------------------------------------------------------------------


def stranded_blocks() -> Iterator[Stranded]:
    """Blocks that this process has open, that nobody maps, and whose maker is dead; see `runtime.mail.blocks`."""
    if not kernel.LINUX:
        return
    found: dict[int, tuple[str, str]] = {}
    for fd in os.listdir("/proc/self/fd"):
        with suppress(OSError, ValueError):
            leads = os.readlink(f"/proc/self/fd/{fd}")
            if not leads.startswith("/memfd:mainspring") or "@" not in leads:
                continue
            maker, _, place = leads.removesuffix(" (deleted)").rpartition(":")[2].partition("@")
            pid, _, start = maker.partition("-")
            if not is_alive(int(pid), int(start)):
                found[os.stat(f"/proc/self/fd/{fd}").st_ino] = (f"{fd} -> {leads}", place)
    if not found:
        return
    mapped = _mapped()
    for inode, (name, place) in found.items():
        if inode not in mapped:
            file, _, line = place.rpartition("+")
            why = "who made it is dead, and nobody maps it; only this descriptor keeps its memory"
            yield Stranded(SEGMENT, name, why, (Frame("block", file, int(line or 0)),), "")


def _mapped() -> set[int]:
    """Inodes of what any process that can be seen has mapped, of ours."""
    found: set[int] = set()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError), open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as file:
            for line in file:
                if "/memfd:mainspring" in line:
                    found.add(int(line.split(maxsplit=5)[4]))
    return found
