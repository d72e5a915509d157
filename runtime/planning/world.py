"""A recording lived again: the real `EngineCore`, with workers, mail and disk on a virtual clock.

What arrived arrives when it did, tasks take what they took and fail as they failed, and what was asked for at run time
(cancels, classes, policy) is asked for again. All decisions are the engine's own. The clock jumps from event to event,
so that an hour takes as long as its decisions do.

What is modelled of the host: a message takes `HOP_NS`, a turn of the engine `TURN_NS`, workers start when their like
did. What is not: the engine's own processor time under load, workers that compete for cores, the disk, crashes,
recycling. `figures` shows what was recorded beside what was simulated; with nothing changed the two tell how well the
model fits.
"""

from __future__ import annotations

import heapq
from collections import Counter, deque
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from typing import Any, Final

import orjson

from actors.core import EngineCore
from actors.persister import Persister
from actors.policy.policy import Policy
from actors.protocol import effects as fx
from actors.protocol import limits
from actors.protocol import log_messages as log
from actors.protocol import messages as msg
from actors.protocol.kinds import PRIORITIES
from actors.run import Run
from actors.scheduler import Scheduler
from runtime.planning.lived import LivedRuns
from runtime.planning.recording import RecordedRun, Recording
from runtime.planning.setting import Setting, change_to
from runtime.planning.worker import HOP_NS, Ending, VirtualAsyncWorker, VirtualWorker

TURN_NS: Final = 100_000
"""Between the begins of two turns of the engine: what arrives meanwhile is taken together."""
COARSE_TURN_NS: Final = 10_000_000
COARSE_TASKS_MIN: Final = 50_000
COARSE_PART: Final = 10
"""In a recording of so many tasks, turns are so far apart where more waits than workers take: at most a tenth of what a
task takes on average. Workers hold that much ahead, so nobody is idle for it, and a turn costs as much as ten tasks."""
BOOT_NS: Final = 200_000_000
"""Until a worker serves, where the recording does not show it."""
BOOT_MAX_NS: Final = 3_000_000_000
"""A worker of the recording that had work later than this was there before."""
IDLE_WAKES_MAX: Final = 1000
"""Wake-ups in a row from which nothing followed: what is left will never run."""
MACHINE_CORES: Final = 4096
"""The machine of the simulation is never what is short."""
_ASKER: Final = "simulation"


class Simulation:
    """See the module. `run` once.

    Args:
        recording: What is lived again.
        setting: What is different.

    Raises:
        ConfigurationError: The setting is wrong; all problems are named.
    """

    def __init__(self, recording: Recording, setting: Setting) -> None:
        self.recording = recording
        self.setting = setting
        self._lived = lived = LivedRuns(recording)
        self.runs, self.busy_ns, self.guessed = lived.runs, lived.busy_ns, lived.guessed
        self.worker_ns: Counter[str] = Counter()
        """What workers of a node type were there, all together."""
        self.lost = 0
        self.turns = 0
        self.now_ns = self._started_ns = recording.axis(recording.opened_ns)
        self.node_types = {data["name"]: data for data in setting.node_types(recording)}
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._tickets = count()
        self._inbox: deque[tuple[Any, bool]] = deque()
        self._turn_due = self._last_turn_ns = self._wake_ns = 0
        self._arrivals_left = 0
        self._first_arrival_ns = min((r.arrival_ns for r in recording.runs.values()), default=self.now_ns)
        self._turn_gap_ns = TURN_NS
        self._coarse = sum(len(r.starts) for r in recording.runs.values()) >= COARSE_TASKS_MIN
        self._held: deque[Callable[[], None]] = deque()
        self._workers: dict[int, VirtualWorker] = {}
        self._boots = Counter[str]()
        self._kinds: dict[tuple[str, int], Any] = {}
        self._idle_wakes = 0
        self._lsn = 0
        policy = self._without_strangers(setting.policy_over(recording.policy)).to_json()
        bounds = {"runs": limits.NODES_OPEN_MAX, "nodes": 1 << 40}
        scheduler = Scheduler(list(self.node_types), retention=bounds, policy=policy)
        self.core = EngineCore(scheduler, Persister("none"), list(self.node_types.values()))

    # --- the clock ------------------------------------------------------------------------------------------------

    def at(self, due_ns: int, action: Callable[[], None]) -> None:
        """Do this then."""
        heapq.heappush(self._heap, (max(due_ns, self.now_ns), next(self._tickets), action))

    def run(self) -> Simulation:
        """Live until all that arrived has ended, or nothing will happen any more."""
        self._do(self.core.start([], self.now_ns, self._wall_ns))
        runs = sorted(self.recording.runs.values(), key=lambda found: (found.arrival_ns, found.run.no))
        self._arrivals_left = len(runs)
        for found in runs:
            self.at(found.arrival_ns, partial(self._arrive, found))
        for at_ns, what, args in self.recording.controls:
            self.at(at_ns, partial(self._control, what, args))
        heap = self._heap
        while heap and (self._arrivals_left or self.core.scheduler.book.live or self._inbox):
            if self._idle_wakes > IDLE_WAKES_MAX and not self._arrivals_left:
                break
            due_ns, _, action = heapq.heappop(heap)
            self.now_ns = due_ns
            action()
        self.lost = sum(run.open for run in self.core.scheduler.book.live.values())
        for worker in self._workers.values():
            self._count(worker)
        return self

    @property
    def _wall_ns(self) -> int:
        return self.recording.wall(self.now_ns)

    # --- what arrives ---------------------------------------------------------------------------------------------

    def _arrive(self, found: RecordedRun) -> None:
        if not self.core.intake_open:
            self._held.append(partial(self._submit, found))
            return
        self._submit(found)

    def _submit(self, found: RecordedRun) -> None:
        self._arrivals_left -= 1
        payload, session, seq = found.payload, found.run.session, found.run.seq
        if payload[:1] == b"G":
            header, columns = self.recording.container(payload)
            for name in ("schedule", "unique", "key", "debounce"):
                header.pop(name, None)
            if (due := found.run.rare.due.get(0)) is not None and not header.get("times"):
                header["times"] = [due]
            columns.items = None
            self._tell(msg.GraphSubmitted(session, seq, header, columns, b""))
            return
        _, _, _, kinds, body = orjson.loads(payload[1:])
        for number, data in kinds:
            if self._kinds.get((session, number)) != data:
                self._kinds[session, number] = data
                self._tell(msg.KindDefined(session, number, data))
        if payload[:1] == b"M":
            self._tell(msg.MapSubmitted(session, seq, kinds[0][0], [None] * len(body[2]), b"[]"))
        else:
            self._tell(msg.TasksSubmitted(session, [[row[0], row[1], None, *row[3:]] for row in body], b"[]"))

    def _control(self, what: str, args: Sequence[Any]) -> None:
        """Somebody asks for something, as it was recorded."""
        if what == "policy":
            wanted = self.setting.policy_over(args[0])
            if change := change_to(self.core.scheduler.policy, self._without_strangers(wanted)):
                self._tell(msg.Queried(_ASKER, 0, "policy", {"change": change}))
            return
        found = self.recording.runs.get(args[0])
        if found is None:
            return
        run, node = found.run, args[1]
        if what == "cancel":
            lived = self.runs.get(run.no)
            if node is not None and lived is not None and node >= run.base_size:
                node = next((n for n in range(run.base_size, lived.run.size) if lived.number(n) == node), None)
                if node is None:
                    return
            self._tell(msg.CancelAsked(_ASKER, 0, run.key, node))
            return
        key = run.key if node is None else f"{run.session}-{run.seq + node}"
        self._tell(msg.Queried(_ASKER, 0, "priority", {"run": key, "priority": PRIORITIES[args[2]]}))

    def _without_strangers(self, policy: Policy) -> Policy:
        """Without quotas and pauses of node types that are not here."""
        data = policy.to_json()

        def known(scope: str) -> bool:
            kind, _, name = scope.partition(":")
            return kind != "type" or name in self.node_types

        data["quotas"] = {scope: limit for scope, limit in data["quotas"].items() if known(scope)}
        data["paused"] = [scope for scope in data["paused"] if known(scope)]
        return Policy.of(data, bounded=False)

    # --- turns of the engine --------------------------------------------------------------------------------------

    def say(self, message: Any, *, alone: bool = False) -> None:
        """A worker sends a message."""
        if isinstance(message, tuple) and type(message) is tuple:
            worker, serial, block = message
            message = msg.WorkerSpawned(worker, serial, orjson.loads(block)[3], block)
        elif type(message) is msg.WorkerExited and (gone := self._workers.pop(message.worker, None)) is not None:
            self._count(gone)
        self._inbox.append((message, alone))
        self._ask_turn(self.now_ns + HOP_NS)

    def _tell(self, message: Any) -> None:
        """Something arrives at the engine from elsewhere, at the time at which it was recorded there."""
        self._inbox.append((message, False))
        self._ask_turn(self.now_ns)

    def _ask_turn(self, due_ns: int) -> None:
        due_ns = max(due_ns, self._last_turn_ns + self._turn_gap_ns)
        if not self._turn_due or due_ns < self._turn_due:
            self._turn_due = due_ns
            self.at(due_ns, partial(self._turn, due_ns))

    def _turn(self, due_ns: int) -> None:
        if due_ns != self._turn_due:
            return
        self._turn_due, self._last_turn_ns = 0, self.now_ns
        inbox, self._inbox = self._inbox, deque()
        batch: list[Any] = []
        for message, alone in inbox:
            if alone:
                self._receive(batch)
                self._receive([message])
                self._lived.see_added(message)
                batch = []
            else:
                batch.append(message)
        self._receive(batch)
        if self._coarse:
            self._turn_gap_ns = self._gap()
        if self.core.unfinished:
            self._ask_turn(self.now_ns)
        if self._held and self.core.intake_open:
            self._held.popleft()()

    def _gap(self) -> int:
        """Until the next turn, see `COARSE_TURN_NS`."""
        core, gap_ns = self.core, COARSE_TURN_NS
        for name, pool in core.pools.items():
            if pool.workers and core.scheduler.ready[name].size < 2 * len(pool.workers):
                return TURN_NS
            gap_ns = min(gap_ns, int(pool.average_ns) // COARSE_PART)
        return max(TURN_NS, gap_ns)

    def _receive(self, batch: list[Any]) -> None:
        if batch or self.core.unfinished:
            self.turns += 1
            self._do(self.core.receive(batch, self.now_ns, self._wall_ns))

    # --- what workers ask -----------------------------------------------------------------------------------------

    def ending(self, run: Run, node: int, attempt: int) -> Ending:
        """How an attempt goes: as it went."""
        return self._lived.ending(run, node, attempt)

    def ran(self, run: Run, node: int, start_ns: int, end_ns: int) -> None:
        """An attempt is over."""
        self._lived.ran(run, node, start_ns, end_ns)

    # --- effects --------------------------------------------------------------------------------------------------

    def _do(self, effects: Sequence[Any]) -> None:
        leases: dict[int, list[fx.LeaseWork]] = {}
        for effect in effects:
            kind = type(effect)
            if kind is fx.LeaseWork:
                leases.setdefault(effect.worker, []).append(effect)
            elif (handler := self._does.get(kind)) is not None:
                handler(self, effect)
        for number, work in leases.items():
            self._idle_wakes = 0
            if (worker := self._workers.get(number)) is not None:
                worker.lease(work)

    def _write(self, effect: log.WriteLog) -> None:
        lsn = effect.records[-1].lsn
        self._do(self.core.receive_log(log.Written(lsn, 1, 1), self.now_ns, self._wall_ns))
        if lsn - self._lsn > limits.QUERY_ROWS_MAX:
            self._lsn = lsn
            self._inbox.append((msg.Told(lsn), False))

    def _start_worker(self, effect: fx.StartWorker) -> None:
        name, number = effect.node_type, effect.worker
        data = self.node_types[name]
        worker = (
            VirtualAsyncWorker(number, name, self, data["slots"])
            if data["mode"] == "asyncio"
            else VirtualWorker(number, name, self)
        )
        self._workers[number] = worker
        boots = [ns for ns in self.recording.boots_ns.get(name, ()) if 0 <= ns <= BOOT_MAX_NS]
        place = self._boots[name]
        self._boots[name] += 1
        initial = self.now_ns == self._started_ns and boots
        after_ns = boots[min(place, len(boots) - 1)] if initial else self._boot_ns(name)
        self.at(self.now_ns + max(0, after_ns - 3 * HOP_NS), partial(self._hello, worker))

    def _boot_ns(self, name: str) -> int:
        """How long a worker takes that is added later: as long as the first task of its node type waited for one."""
        boots = self.recording.boots_ns.get(name)
        runs = self.recording.runs.values()
        arrivals = [r.arrival_ns for r in runs if any(kind.node_type == name for kind in r.run.kinds)]
        if not boots or not arrivals:
            return BOOT_NS
        waited_ns = self._started_ns + boots[0] - min(arrivals)
        return min(waited_ns, BOOT_MAX_NS) if waited_ns > BOOT_NS // 4 else BOOT_NS

    def _hello(self, worker: VirtualWorker) -> None:
        worker.hello_ns = self.now_ns
        self.say(msg.WorkerStarted(worker.number, worker.number))
        self.say(msg.WorkerHello(worker.number, worker.number))

    def _count(self, worker: VirtualWorker) -> None:
        """How long a worker was there since the first task arrived."""
        if worker.hello_ns:
            since_ns = max(worker.hello_ns, self._first_arrival_ns)
            self.worker_ns[worker.node_type] += max(0, self.now_ns - since_ns)

    def _revoke(self, effect: fx.Revoke) -> None:
        worker = self._workers.get(effect.worker)
        if worker is not None:
            self.say(msg.LeasesRevoked(effect.worker, worker.revoke(effect.serials), effect.serials))

    def _ask_cancel(self, effect: fx.AskCancel) -> None:
        if (worker := self._workers.get(effect.worker)) is not None:
            self.at(self.now_ns + HOP_NS, partial(worker.stop, effect.serial, effect.reason))

    def _ask_results(self, effect: fx.AskResults) -> None:
        if (worker := self._workers.get(effect.worker)) is not None:
            worker.asked = effect.wanted

    def _drain(self, effect: fx.DrainWorker) -> None:
        worker = self._workers.get(effect.worker)
        if worker is not None:
            self.at(self.now_ns + HOP_NS, partial(self._drained, worker))

    def _drained(self, worker: VirtualWorker) -> None:
        worker.drain()

    def _signal(self, effect: fx.SignalWorker) -> None:
        worker = self._workers.get(effect.worker)
        if worker is not None and effect.signal == "KILL":
            worker.die("killed", 9)

    def _wake(self, effect: fx.WakeAt) -> None:
        due_ns = max(effect.due_ns, self.now_ns + 1)
        if not self._wake_ns or due_ns < self._wake_ns:
            self._wake_ns = due_ns
            self.at(due_ns, partial(self._woken, due_ns))

    def _woken(self, due_ns: int) -> None:
        if due_ns != self._wake_ns:
            return
        self._wake_ns = 0
        self._idle_wakes += 1
        for number in self.core.watched():
            if (worker := self._workers.get(number)) is not None:
                self._inbox.append((worker.observed(), False))
                self._idle_wakes = 0 if worker.is_busy else self._idle_wakes
        if self.core.wants_machine:
            self._inbox.append((msg.MachineSeen(0.0, 1.0, MACHINE_CORES), False))
        self._inbox.append((msg.TimePassed(), False))
        self._ask_turn(self.now_ns)

    _does: Final[dict[type, Callable[[Any, Any], None]]] = {
        fx.StartWorker: _start_worker,
        fx.Revoke: _revoke,
        fx.AskCancel: _ask_cancel,
        fx.AskResults: _ask_results,
        fx.DrainWorker: _drain,
        fx.SignalWorker: _signal,
        fx.WakeAt: _wake,
        log.WriteLog: _write,
    }
