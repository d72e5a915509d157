"""For tests of programs that use Mainspring: the real face, without processes.

    def test_etl():
        with inline_runtime(tasks) as rt:
            assert rt.submit(transform, rows).result() == 3

`inline_runtime` runs all tasks in one thread of the test's own process: breakpoints, coverage and patches work,
and it opens in milliseconds. Submissions, values, graphs, trigger rules, retries and questions are the real thing,
decided by the real scheduler. What needs processes is not there: timeouts and cancels do not stop what runs,
nothing runs side by side, nothing is on disk but large values. `temporary_runtime` is a whole runtime in a folder
that is removed.

What a crash leaves behind: a temporary folder.
"""

from __future__ import annotations

import os
import select
import shutil
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from queue import SimpleQueue
from types import SimpleNamespace
from typing import Any, Final, cast

import orjson

from actors.at_workers import RunningNode
from actors.protocol import effects as fx
from actors.protocol import messages as msg
from actors.queries import Queries
from actors.run import Run
from actors.scheduler import Scheduler
from actors.state_column import CANCELLING
from runtime.config import NodeType
from runtime.engine import Runtime
from runtime.host import decode
from runtime.host.calendar import ZoneCalendar
from runtime.inline_runner import InlineJob, InlineRunner
from runtime.mail.bell import Bell
from runtime.mail.blobs import BlobStore
from runtime.mail.codec import Codec
from runtime.mail.link import Link, LinkEnds, create_link
from runtime.registry import TaskRegistry
from runtime.scheduling import Scheduling

_SHARE: Final = 64
"""Tasks taken at a time."""
_IDLE_S: Final = 0.05


@contextmanager
def inline_runtime(
    tasks: TaskRegistry | None = None,
    *,
    node_types: tuple[NodeType, ...] = (),
    scheduling: Scheduling | None = None,
) -> Iterator[Runtime]:
    """A runtime whose tasks run in a thread of this process. See the module.

    Args:
        tasks: As for `Runtime`.
        node_types: Likewise; only their names matter.
        scheduling: Likewise.
    """
    scheduling = scheduling or Scheduling()
    folder = tempfile.mkdtemp(prefix="mainspring-test-")
    try:
        names = [n.name for n in node_types] or ["default"]
        starter = InlineStarter(folder, names, scheduling.to_wire())
        options: dict[str, Any] = {"node_types": node_types, "durability": "none", "scheduling": scheduling}
        with Runtime(folder, tasks, starter=starter, **options) as rt:
            yield rt
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def temporary_runtime(tasks: TaskRegistry | None = None, **options: Any) -> Iterator[Runtime]:
    """A whole runtime, with processes, in a folder that is removed at the end.

    Args:
        tasks: As for `Runtime`.
        options: Likewise. `durability` is "none" unless given.
    """
    folder = tempfile.mkdtemp(prefix="mainspring-test-")
    try:
        with Runtime(os.path.join(folder, "state"), tasks, **{"durability": "none", **options}) as rt:
            yield rt
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class InlineStarter:
    """An `EngineStarter` whose engine is a thread. What it knows outlives `crash`, as the log would.

    Args:
        state_dir: Folder of the large values.
        node_types: Names that tasks may use.
        policy: As the engine reads it.
    """

    def __init__(
        self, state_dir: str | os.PathLike[str], node_types: list[str], policy: dict[str, Any] | None = None
    ) -> None:
        self._blobs = BlobStore(Path(state_dir) / "blobs", fsync=False)
        self._node_types = node_types
        self._scheduler = Scheduler(node_types, policy=policy)
        self._scheduler.schedules.calendar = ZoneCalendar()
        self._news: deque[dict[str, Any]] = deque()
        self._bell = Bell.create()
        self._engine: InlineEngine | None = None
        self._stopped = False

    def start(self) -> LinkEnds:
        """Start the thread on a new link."""
        ends = create_link()
        self._engine = InlineEngine(ends.dup(), self._scheduler, self._blobs, self._node_types, self._ended)
        self._engine.start()
        return ends

    def crash(self) -> None:
        """End the engine without a word, as SIGKILL would, after the task that runs."""
        if self._engine is not None:
            self._engine.kill()

    def fileno(self) -> int:
        """Readable when the engine has ended."""
        return -1 if self._stopped else self._bell.read_fd

    def news(self) -> list[dict[str, Any]]:
        """What happened."""
        if not self._stopped:
            self._bell.drain()
        found = list(self._news)
        self._news.clear()
        return found

    def stop(self) -> None:
        """End everything."""
        if self._stopped:
            return
        if self._engine is not None:
            self._engine.kill()
        self._stopped = True
        self._bell.close()

    def _ended(self, status: int) -> None:
        self._news.append({"did": "engine_exited", "status": status})
        self._bell.ring()


class InlineEngine:
    """The engine's side of a link: the real scheduler in one thread, tasks in another."""

    def __init__(
        self, ends: LinkEnds, scheduler: Scheduler, blobs: BlobStore, names: list[str], ended: Callable[[int], None]
    ) -> None:
        self._link = Link(ends, "b")
        self._bell = ends.bell_b
        self._scheduler = scheduler
        self._blobs = blobs
        self._runner = InlineRunner(Codec(blobs), names)
        self._ended = ended
        self._session = ""
        self._status: int | None = None
        self._backlog: deque[tuple[bytes, bool]] = deque()
        self._asked: SimpleQueue[list[InlineJob] | None] = SimpleQueue()
        self._told: deque[Any] = deque()
        self._leased: dict[tuple[int, int], Run] = {}
        self._running: list[RunningNode] = []
        core = SimpleNamespace(
            scheduler=scheduler,
            pools={},
            supervisor=SimpleNamespace(state="inline"),
            running_nodes=lambda: iter(self._running),
        )
        self._queries = Queries(cast("Any", core))
        self._thread = threading.Thread(target=self._main, name="mainspring-inline", daemon=True)
        self._worker = threading.Thread(target=self._work, name="mainspring-inline-worker", daemon=True)

    def start(self) -> None:
        """Start both threads."""
        self._thread.start()
        self._worker.start()

    def kill(self) -> None:
        """End the threads; waits for the task that runs."""
        if self._status is None:
            self._status = 9
            with suppress(OSError):  # it ended by itself meanwhile, and closed its link
                self._bell.ring()
        self._thread.join()

    def _main(self) -> None:
        try:
            while self._status is None:
                self._turn()
        finally:
            self._asked.put(None)
            self._worker.join()
            self._decide(list(self._told))
            lost = [msg.Returned(run, [node], "the engine ended") for (_, node), run in self._leased.items()]
            self._decide([*lost, msg.SessionLost(self._session)])
            self._link.close()
            self._ended(self._status or 0)

    def _turn(self) -> None:
        control, work = self._link.receive()
        events: list[Any] = []
        while self._told:
            events.append(self._told.popleft())
        for frame in control:
            if frame[:1] == b"H":
                hello = orjson.loads(frame[1:])
                self._session = hello["session"]
                events.append(msg.SessionOpened(self._session, hello["open_seq"]))
            else:
                events.append(decode.face_control(self._session, frame))
        events += filter(None, decode.face_submissions(self._session, work, self._blobs.open))
        self._decide(events or [msg.TimePassed()])
        ready = self._scheduler.ready
        while not self._leased and any(queue.size for queue in ready.values()):  # passes over what was cancelled
            self._decide([msg.Offer(name, ((1, _SHARE),)) for name, queue in ready.items() if queue.size])
        while self._backlog and self._link.send(self._backlog[0][0], control=self._backlog[0][1]):
            self._backlog.popleft()
        if not events and not self._scheduler.unfinished and self._status is None:
            self._sleep()

    def _sleep(self) -> None:
        if self._link.arm():
            if not self._told:
                select.select([self._link.fileno()], [], [], _IDLE_S)
            self._link.drain_bell()
            self._link.disarm()

    def _decide(self, events: list[Any]) -> None:
        now_ns, wall_ns = time.monotonic_ns(), time.time_ns()
        told: list[Any] = []
        for event in events:
            if isinstance(event, msg.Queried):
                told += self._queries.answer(event, now_ns, wall_ns)
            elif isinstance(event, msg.CloseAsked):
                self._status = 0
            else:
                self._give_back(event)
                told += self._scheduler.receive([event], now_ns, wall_ns)
        grants: list[msg.Grant] = []
        for effect in told:
            if isinstance(effect, fx.Tell):
                self._backlog.append((effect.frame.encode() + orjson.dumps(effect.body), effect.control))
            elif isinstance(effect, msg.Grant):
                grants.append(effect)
            elif isinstance(effect, fx.Announce):
                self._backlog.append((b"Y" + orjson.dumps([effect.text, effect.code]), True))
            elif isinstance(effect, fx.ForgetRun):
                self._blobs.remove_run(effect.run_key)
        self._lease(grants)

    def _lease(self, grants: list[msg.Grant]) -> None:
        for batch, members in groupby(grants, key=attrgetter("batch")):
            jobs = []
            for grant in members:
                for place, node in enumerate(grant.nodes):
                    attempt = grant.attempts[place] if grant.attempts else 1
                    self._leased[grant.run.no, node] = grant.run
                    jobs.append(InlineJob(grant.run, grant.kind, node, attempt, grant.items[place]))
            for part in [jobs] if batch else [[job] for job in jobs]:
                self._asked.put(part)

    def _give_back(self, event: Any) -> None:
        if isinstance(event, msg.Finished):
            self._leased.pop((event.groups[0][0].no, event.groups[0][1][0]), None)
        elif isinstance(event, msg.AttemptFailed):
            self._leased.pop((event.run.no, event.node), None)

    def _work(self) -> None:
        """The other thread: run what is asked for, unless it was cancelled meanwhile or the engine ends."""
        while (jobs := self._asked.get()) is not None:
            if self._status is None:
                stopped = [
                    job for job in jobs if job.run.state[job.node] == CANCELLING or job.node in job.run.rare.overdue
                ]
                self._told.extend(self._runner.stopped(job.run, job.node) for job in stopped)
                if jobs := [job for job in jobs if job not in stopped]:
                    pid, now_ns = os.getpid(), time.monotonic_ns()
                    self._running = [RunningNode(job.run, job.node, 0, pid, now_ns, len(jobs)) for job in jobs]
                    batches = jobs[0].kind.batch is not None
                    self._told.extend(self._runner.run_batch(jobs) if batches else self._runner.run(*jobs[0]))
                    self._running = []
                self._bell.ring()
        self._runner.close()
