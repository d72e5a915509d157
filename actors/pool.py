"""WorkerPool: the workers of one node type, what each holds, and how a stuck one is stopped.

Receives leases to give (`Grant`), what workers say and what is observed of them from outside; answers with effects on
workers and with messages to the scheduler. It validates every result against its lease book: what is not held any more
was given up, and is discarded (guarantee G3).

States of a worker: `actors.protocol.states.WORKER_TABLE`. Escalation of one attempt: cooperative, SIGTERM, SIGKILL of
the worker's process group, `grace_ns` apart; the other leases of that worker go back untouched.

Liveness is judged from outside only (pid, process state, words in shared memory), never by messages that need the
handler's interpreter lock: a handler that holds it for half a minute is busy, not dead.

A worker claims the best class first (`actors.worker`), so what it has passed in its lease table is read there with each
of its answers, not inferred from them.

Invariants: a serial is in one book; a worker that is not READY gets no grants; held <= PREFETCH_MAX + 4 * slots, where
a batch counts as one lease, and the lease table has room for all of its leases.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from actors.batching import in_one_call, in_the_same_call, shared_fate
from actors.policy.prefetch import capacity, smoothed, spread
from actors.policy.scale import ScalePolicy
from actors.pool_size import SizeSteps, machine_seen
from actors.pool_starts import cannot_boot, delayed, look_at_starts
from actors.pool_stop import escalate_due, give_back, observed, plan_watch, revoked, stop_leases, take_back
from actors.pool_things import PoolThings, told
from actors.pool_worker import PoolWorker, finish_leases, guilty_of
from actors.protocol import effects as fx
from actors.protocol import limits
from actors.protocol import messages as msg
from actors.protocol.errors import InvariantBroken
from actors.protocol.kinds import PRIORITIES
from actors.protocol.states import WorkerEvent, WorkerState
from actors.protocol.words import counted

NO_END: Final = 1 << 62
"""More tasks than a worker ever runs."""


class WorkerPool:
    """See the module. `node_type` is the wire form of `runtime.config.NodeType`."""

    def __init__(self, node_type: dict[str, Any]) -> None:
        self.name: str = node_type["name"]
        self.slots: int = node_type["slots"]
        self.is_async: bool = node_type["mode"] == "asyncio"
        self.workers_min: int = node_type["workers_min"]
        self.workers_max: int = node_type["workers_max"]
        self.grace_ns: int = node_type["grace_ns"]
        self._prefetch: int | None = node_type["prefetch"]
        self._recycle_tasks: int | None = node_type["recycle_tasks"]
        # In mode asyncio a long task would keep its worker from taking others once all its number was given out.
        self.tasks_max = NO_END if self.is_async or self._recycle_tasks is None else self._recycle_tasks
        self.recycle_rss: int | None = node_type["recycle_rss_bytes"]
        self.workers: dict[int, PoolWorker] = {}
        self.average_ns = 0.0
        self.average_of = [0.0] * len(PRIORITIES)
        """Of all tasks and of those of each class. What is urgent is often short, and says nothing of the others."""
        cooldown_ns = node_type.get("cooldown_ns", limits.POOL_COOLDOWN_NS)
        self.scale = ScalePolicy(self.workers_min, self.workers_max, self.slots, cooldown_ns)
        self.steps = SizeSteps(asks=node_type.get("asks_scale", False))
        self.discarded = self.tasks_before = 0
        self.things = PoolThings()
        self.draining = False
        self.trouble = ""
        self.wanted = 0
        self.timeout_min_ns = self.watch_due_ns = 0
        self.replan = False
        self.holds_max = capacity(self.slots, 0.0, self._prefetch)
        self._out: list[Any] = []
        self.now_ns = 0

    # --- the mutator ----------------------------------------------------------------------------------------------

    def receive(self, batch: Sequence[Any], now_ns: int) -> list[Any]:
        """React to a batch; returns effects and messages, in order."""
        self.now_ns = now_ns
        for message in batch:
            self._on[type(message)](self, message)
        stopping = self.stopping
        if stopping:
            escalate_due(self)
        if self.replan or stopping:
            plan_watch(self)
        out, self._out = self._out, []
        return out

    def lease(self, grants: Sequence[msg.Grant], now_ns: int) -> list[Any]:
        """Give these leases; as `receive` does with grants, without a look at what is being stopped."""
        self.now_ns = now_ns
        for grant in grants:
            self._on_grant(grant)
        if self.replan:
            plan_watch(self)
        out, self._out = self._out, []
        return out

    def start(self, now_ns: int) -> list[Any]:
        """Ask for the smallest number of workers."""
        self.now_ns = now_ns
        for _ in range(self.workers_min):
            self._out.append(self.want("minimum"))
        out, self._out = self._out, []
        return out

    def put(self, message: Any) -> None:
        """Add an effect or a message to what this turn returns."""
        self._out.append(message)

    # --- reading --------------------------------------------------------------------------------------------------

    def offer(self, ready: int) -> msg.Offer | None:
        """How many of so many ready tasks each worker should get now."""
        if self.draining:
            return None
        limit, tasks_max = self.holds_max, self.tasks_max
        able: list[PoolWorker] = []
        room: list[int] = []
        held: list[int] = []
        for worker in self.workers.values():
            if worker.state is WorkerState.READY and not (worker.stops or worker.stuck):
                holds = worker.book.held - worker.book.surplus
                fits = min(limit - holds, worker.window, tasks_max - worker.tasks - holds)
                if fits > 0:
                    able.append(worker)
                    room.append(fits)
                    held.append(holds)
        if not able:
            return None
        if ready == 1:  # as `spread` would; most turns of a chain give one task
            return msg.Offer(self.name, ((able[held.index(min(held))].id, 1),))
        shares = spread(ready, room, held, self.average_ns)
        return msg.Offer(self.name, tuple((w.id, n) for w, n in zip(able, shares, strict=True) if n))

    def held(self) -> int:
        """Leases in all books."""
        return sum(w.book.held for w in self.workers.values())

    @property
    def stopping(self) -> bool:
        """Whether some attempt is being stopped."""
        for worker in self.workers.values():  # noqa: SIM110  (asked every turn; `any` over a generator costs four times)
            if worker.stops:
                return True
        return False

    @property
    def uneven(self) -> bool:
        """Whether looking at the pool's size or at who holds what could help."""
        if len(self.workers) > self.workers_min:
            return True
        slots = self.slots
        for worker in self.workers.values():  # noqa: SIM110  (as above)
            if worker.book.held > slots:
                return True
        return False

    def open_serials(self, worker: int) -> list[int]:
        """Serials that this worker holds."""
        found = self.workers.get(worker)
        return [] if found is None else found.book.open_serials()

    def watched(self) -> list[int]:
        """Workers that should be observed now: those that hold something, and all when one may be recycled."""
        return [w.id for w in self.workers.values() if w.state is not WorkerState.STARTING and self.is_watched(w)]

    @staticmethod
    def is_watched(worker: PoolWorker) -> bool:
        return bool(worker.book.held or worker.stops or worker.window < limits.PREFETCH_MAX)

    # --- work -----------------------------------------------------------------------------------------------------

    def _on_grant(self, message: msg.Grant) -> None:
        worker = self.workers[message.worker]
        if not worker.book.held:
            worker.progress_ns = self.now_ns
            self.replan = self.replan or self.watch_due_ns <= self.now_ns
        worker.saw_kind(message.kind.no)
        group = worker.book.grant(message.run, message.kind, message.nodes, message.batch)
        timeout = message.kind.timeout_ns
        if timeout and (not self.timeout_min_ns or timeout < self.timeout_min_ns):
            self.timeout_min_ns = timeout
            self.watch_due_ns = 0
            self.replan = True
        self._out.append(fx.LeaseWork(worker.id, group.base, *message[1:]))

    def _on_done(self, message: msg.WorkerDone) -> None:
        worker = self.workers.get(message.worker)
        if worker is None:
            self.discarded += sum(len(group[3]) for group in message.groups)
            return
        finished: list[msg.FinishedGroup] = []
        whole = True
        worker.passed = max(worker.passed, message.passed)
        for row in message.groups:
            serial, run_no, nodes, values, started_ns, ends = row
            count = len(values)
            calls = in_one_call(worker, serial) if worker.book.surplus else 1
            mine = finish_leases(worker, serial, run_no, nodes)
            if mine is None:
                whole = False
                finished += self._finish_singly(worker, row)
                continue
            finished.append((*mine, values, started_ns, ends))
            self.measured(ends[-1] * calls / count, mine[0].kind(nodes[0]).priority)
            worker.tasks += count
        self._progressed(worker)
        if finished:
            self._out.append(msg.Finished(worker.pid, finished, message.raw if whole else None))

    def _finish_singly(self, worker: PoolWorker, row: list[Any]) -> list[msg.FinishedGroup]:
        """Part of these leases was given up meanwhile: keep the others."""
        serial, run_no, nodes, values, start, ends = row
        kept: list[msg.FinishedGroup] = []
        before = 0
        for i, node in enumerate(nodes):
            group = worker.book.finish(serial + i, 1)
            if group is None:
                self._discard(worker, run_no, node)
            else:
                kept.append((group.run, [node], [values[i]], start + before, [ends[i] - before]))
            before = ends[i]
        return kept

    def _discard(self, worker: PoolWorker, run_no: int, node: int) -> None:
        self.discarded += 1
        self._out.append(msg.LateResult(run_no, node, worker.id))

    def _on_failed(self, message: msg.WorkerFailed) -> None:
        worker = self.workers.get(message.worker)
        if worker is None:
            self.discarded += len(message.rows)
            return
        worker.passed = max(worker.passed, message.passed)
        for serial, run_no, node, started_ns, ended_ns, failure in message.rows:
            group = worker.book.finish(serial, 1)
            if group is None:
                self._discard(worker, run_no, node)
                continue
            worker.stops.pop(serial, None)
            worker.tasks += 1
            if ended_ns > started_ns:
                self.measured(ended_ns - started_ns, group.lane)
            self._out.append(msg.AttemptFailed(group.run, node, failure, worker.pid, started_ns, ended_ns))
        self._progressed(worker)

    def _on_spawned(self, message: msg.WorkerSpawned) -> None:
        worker = self.workers.get(message.worker)
        group = None if worker is None else worker.book.find(message.serial)
        if group is None:
            self.discarded += 1
            return
        self._out.append(msg.Spawned(group.run, group.nodes[message.serial - group.base], message.block, message.raw))

    def _on_progress(self, message: msg.WorkerProgress) -> None:
        worker = self.workers.get(message.worker)
        group = None if worker is None else worker.book.find(message.serial)
        for run, node in () if group is None else in_the_same_call(group, message.serial):
            run.own_rare().progress[node] = (message.done, message.total, message.text)
            self._out.append(msg.Reported(run, node))

    def _on_logged(self, message: msg.WorkerLogged) -> None:
        worker = self.workers.get(message.worker)
        group = None if worker is None else worker.book.find(message.serial)
        for run, node in () if group is None else in_the_same_call(group, message.serial):
            self._out.append(msg.Noted(run, node, message.stream, message.text))

    def measured(self, task_ns: float, class_: int) -> None:
        """A task of a class took so long: the averages, and with them what a worker may hold, follow."""
        self.average_of[class_] = smoothed(self.average_of[class_], task_ns)
        self.average_ns = smoothed(self.average_ns, task_ns)
        self.holds_max = capacity(self.slots, self.average_ns, self._prefetch)

    def _progressed(self, worker: PoolWorker) -> None:
        worker.progress_ns = self.now_ns
        worker.current = 0
        worker.stuck = False
        if worker.stops:
            for serial in [s for s in worker.stops if worker.book.find(s) is None]:
                del worker.stops[serial]
            if worker.state is WorkerState.KILLING and not worker.stops:  # the attempt ended first: what is left may go
                self._out.append(fx.DrainWorker(worker.id))
        if not worker.book.held:
            worker.idle_since_ns = self.now_ns
        if worker.state is WorkerState.READY:
            if self._recycle_tasks is not None and worker.tasks >= self._recycle_tasks:
                self.replace(worker, f"after {counted(worker.tasks, 'task')}")
            elif worker.kind_last - worker.kind_first > limits.KINDS_MAX:
                self.replace(worker, "it knows too many kinds of tasks")

    # --- life and death -------------------------------------------------------------------------------------------

    def want(self, reason: str) -> msg.WorkerWanted:
        """Ask for one more worker."""
        self.wanted += 1
        return msg.WorkerWanted(self.name, reason)

    def _on_added(self, message: msg.WorkerAdded) -> None:
        self.workers[message.worker] = PoolWorker(message.worker, self.now_ns)
        self._out.append(fx.WakeAt(self.now_ns + limits.WORKER_START_NS))

    def _on_started(self, message: msg.WorkerStarted) -> None:
        if message.worker in self.workers:
            self.workers[message.worker].pid = message.pid

    def _on_hello(self, message: msg.WorkerHello) -> None:
        worker = self.workers.get(message.worker)
        if worker is not None:
            worker.pid = message.pid
            worker.idle_since_ns = self.now_ns
            if worker.state is WorkerState.STARTING:
                self.wanted = max(0, self.wanted - 1)
            worker.move(WorkerEvent.SAID_HELLO)
            self.trouble = ""

    def replace(self, worker: PoolWorker, reason: str) -> None:
        """Start another, let this one finish what it runs."""
        worker.drain_reason = reason
        worker.move(WorkerEvent.DRAIN)
        self._out.append(self.want(f"worker {worker.id} is replaced: {reason}"))
        take_back(self, worker, worker.book.open_serials())
        self._out.append(fx.DrainWorker(worker.id))

    def _on_drain(self, message: msg.Drain) -> None:
        self.draining = True
        for worker in self.workers.values():
            take_back(self, worker, worker.book.open_serials())

    def _on_exited(self, message: msg.WorkerExited) -> None:
        worker = self.workers.pop(message.worker, None)
        if worker is None:
            return
        self.tasks_before += worker.tasks
        self.things.gone(message.worker)
        was = worker.state
        if was is WorkerState.STARTING:
            self.wanted = max(0, self.wanted - 1)
        worker.move(WorkerEvent.EXITED)
        guilty = shared_fate(worker, guilty_of(worker, message, is_async=self.is_async), message.claimed)
        give_back(
            self,
            worker,
            [s for s in worker.book.open_serials() if s not in guilty],
            f"worker {worker.id} ended: {message.status}",
        )
        for serial, failure in guilty.items():
            group = worker.book.finish(serial, 1)
            if group is not None:
                node = group.nodes[serial - group.base]
                started = message.started_ns or self.now_ns
                self._out.append(msg.AttemptFailed(group.run, node, failure, worker.pid, started, self.now_ns))
        healthy = was in (WorkerState.DRAINING, WorkerState.KILLING) or bool(guilty)
        last_words = message.outputs.get(0, "").strip().rpartition("\n")[2]
        reason = worker.boot_error or worker.drain_reason or ": ".join(filter(None, (message.status, last_words[:300])))
        if was is WorkerState.STARTING:
            self.trouble = reason
        self._out.append(msg.WorkerGone(worker.id, self.name, healthy, reason))
        serving = sum(w.state is WorkerState.READY for w in self.workers.values())
        if not self.draining and serving + self.wanted < self.workers_min:
            self._out.append(self.want(f"worker {worker.id} ended: {reason}"))

    def _on_time(self, message: msg.TimePassed) -> None:
        """What was planned may have been what woke the host: plan again."""
        self.replan = True
        look_at_starts(self)

    def check_invariants(self) -> None:
        """Raise InvariantBroken when a book contradicts itself."""
        try:
            for worker in self.workers.values():
                worker.book.check_invariants()
        except AssertionError as broken:
            raise InvariantBroken(f"pool {self.name}: {broken}") from broken

    _on: Final[dict[type, Callable[[Any, Any], None]]] = {
        msg.Grant: _on_grant,
        msg.WorkerDone: _on_done,
        msg.WorkerFailed: _on_failed,
        msg.WorkerSpawned: _on_spawned,
        msg.WorkerProgress: _on_progress,
        msg.WorkerLogged: _on_logged,
        msg.WorkerPools: told,
        msg.StopLeases: stop_leases,
        msg.LeasesRevoked: revoked,
        msg.WorkerObserved: observed,
        msg.WorkerAdded: _on_added,
        msg.WorkerStarted: _on_started,
        msg.WorkerHello: _on_hello,
        msg.WorkerCannotBoot: cannot_boot,
        msg.WorkerExited: _on_exited,
        msg.PoolDelayed: delayed,
        msg.Drain: _on_drain,
        msg.MachineSeen: machine_seen,
        msg.TimePassed: _on_time,
    }
