"""One simulated world: the real `EngineCore`, log writer and recovery, with fake clock, mail, disk, workers and user.

A seed decides everything: what is submitted, how long things take, what breaks and when. The same actors run here and
in production; only the host is pretended. Checks after every step: the actors' invariants, and the guarantees G1 to G5
in `tests.sim.oracle`. Disk, mail and worker faults are described where the fakes are.

Faults of the world itself: the engine is killed (everything written stays), or the power goes (what was not synced may
go), at any moment; then it recovers and the session asks again for what it does not have.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from random import Random
from typing import Any
from uuid import UUID

from actors.checkpoints import Checkpoints
from actors.core import EngineCore
from actors.persister import Persister
from actors.protocol import effects as fx
from actors.protocol import limits
from actors.protocol import log_messages as log
from actors.protocol import messages as msg
from actors.protocol.errors import DiskFull, LogFailed
from actors.replay import Replay
from actors.scheduler import Scheduler
from actors.schedules import SESSION
from runtime.host.calendar import ZoneCalendar
from runtime.storage.report import RecoveryReport
from runtime.storage.segment import LogPlace
from runtime.storage.wal import LogWriter
from tests.sim.checkpointing import SimCheckpoints
from tests.sim.clock import Clock, Queue
from tests.sim.disk import FakeDisk
from tests.sim.oracle import Oracle
from tests.sim.scaling import Adviser, check_sizes, elasticity
from tests.sim.shown import Shown
from tests.sim.user import User
from tests.sim.workers import Chances, FakeWorker, Lease
from tests.unit.storage.shards import AnyOrder

PLACE = LogPlace("/log", UUID(int=7))
SEGMENT_BYTES = 4_000
STEPS_MAX = 200_000
TURN_NS = 500_000
"""Until the next turn, when one left something to do: long, so that much happens in between."""


def guards(seed: int, name: str) -> dict[str, Any]:
    """A breaker and a retry budget for some node types, by draws of their own."""
    random = Random(f"guards {name} {seed}")
    found: dict[str, Any] = {}
    if random.random() < 0.5:
        found["breaker"] = {
            "ended_min": random.choice((1, 2, 5)),
            "failure_ratio": random.choice((0.1, 0.3, 0.6)),
            "window_ns": random.choice((5_000_000, 100_000_000)),
            "cooldown_ns": random.choice((500_000, 5_000_000)),
            "cooldown_max_ns": 20_000_000,
            "probes": random.choice((1, 2, 5)),
        }
    if random.random() < 0.4:
        found["retry_budget"] = {"ratio": random.choice((0.0, 0.2)), "min_per_s": random.choice((50.0, 1000.0))}
    return found


class World:
    """See the module. `run` ends when all that was submitted has ended, or raises. Its log may lie in shards."""

    def __init__(self, seed: int, shards: int = 1) -> None:
        self.seed = seed
        self.random = random = Random(seed)
        self.clock = Clock(random)
        self.disk = FakeDisk(seed)
        self.disk.make_folder("/log")
        self.place = replace(PLACE, shards=shards)
        for part in self.place.parts():
            self.disk.make_folder(part.folder)
        self.durability = random.choice(("fsync", "fsync", "os"))
        self._may_be_empty = seed % 5 == 3
        self.node_types = [self._node_type("default", "process"), self._node_type("io", "process")]
        self.chances = Chances(
            crash=random.choice((0, 0, 0.02, 0.1)),
            hang=random.choice((0, 0, 0.02)),
            double=random.choice((0, 0.2)),
            boot_failure=random.choice((0, 0, 0.3)),
        )
        self.delay_ns = random.choice((0, 2_000_000))
        self.oracle = Oracle()
        self.user = User(self, random)
        self._adviser = Adviser(self)
        self.workers: dict[int, FakeWorker] = {}
        self.core: EngineCore | None = None
        self.kills_left = random.choice((0, 1, 3))
        self.jumps = seed % 3 == 0
        """Whether somebody sets the wall clock in this world."""
        self.batching = Random(f"batching {seed}")
        self._meddling = Random(f"meddling {seed}")
        self.wave_edges_max = (1, 2, 5, limits.WAVE_EDGES_MAX)[seed % 4]
        self.incarnation = 0
        self.checkpoints = SimCheckpoints(seed, self.place, [n["name"] for n in self.node_types])
        self._pending_write: tuple[Any, bool] | None = None
        self._writer: LogWriter | None = None

    def _node_type(self, name: str, mode: str) -> dict[str, Any]:
        low = self.random.choice((1, 2))
        return {
            "name": name,
            "workers_min": 0 if self._may_be_empty else low,
            "workers_max": low + self.random.choice((0, 1)),
            "mode": mode,
            "slots": 1,
            "prefetch": self.random.choice((None, 1, 3)),
            "recycle_tasks": self.random.choice((None, None, 7)),
            "recycle_rss_bytes": None,
            "grace_ns": 20_000_000,
            **guards(self.seed, name),
            **elasticity(self.seed, name),
        }

    # --- life -----------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Live until everything ended."""
        self.start_engine()
        self.user.begin()
        if self.jumps:
            self._plan_jump(Random(f"jumps {self.seed}"))
        for _ in range(STEPS_MAX):
            if self.user.satisfied():
                self.oracle.final(self.user)
                self._read_again()
                return
            if not self.clock.step():
                raise AssertionError(f"nothing will happen any more, but the user waits: {self.user.missing()[:5]}")
        raise AssertionError(f"no end after {STEPS_MAX} steps: {self.user.missing()[:5]}")

    def _plan_jump(self, random: Random) -> None:
        def jump() -> None:
            self.user.note_due()
            self.clock.wall_offset_ns += random.randrange(-3_000_000_000, 3_000_000_000)
            if random.random() < 0.97:
                self._plan_jump(random)

        self.clock.at(self.clock.now_ns + random.randrange(1_000_000, 20_000_000), jump)

    def _read_again(self) -> None:
        """What was told to the end is what the log says, also where nothing was killed."""
        scheduler = Scheduler([n["name"] for n in self.node_types])
        self.checkpoints.resume(Replay(scheduler), self.disk.after_kill())
        self.oracle.recovered(scheduler, self.user)

    def start_engine(self) -> None:
        """Open the folder: read the log, go on."""
        self.incarnation += 1
        scheduler = Scheduler([n["name"] for n in self.node_types], wave_edges_max=self.wave_edges_max)
        scheduler.schedules.calendar = ZoneCalendar()
        replay = Replay(scheduler)
        report = self.checkpoints.resume(replay, self.disk)
        self._writer = self._open_log(report)
        segments = self._writer.segments()
        closed = tuple((s.last_lsn, s.bytes) for s in segments[:-1])
        persister = Persister(
            self.durability,
            report.next_lsn,
            [(s.no, s.first_lsn) for s in segments],
            self.delay_ns,
            Checkpoints(self.checkpoints.bytes_min, self.checkpoints.lsn, closed),
        )
        _, effects = replay.finish(self.clock.now_ns, self.clock.wall_ns, {"pid": self.incarnation}, report.next_lsn)
        self.oracle.recovered(scheduler, self.user)
        self.core = EngineCore(scheduler, persister, self.node_types)
        self.shown = Shown(scheduler.book)
        self._wake_ns = 0
        self._turn_asked = False
        self._to_user = Queue(self.clock, self.user.receive)
        self._from_user = Queue(self.clock, self.receive)
        self._do(self.core.start(effects, self.clock.now_ns, self.clock.wall_ns))
        self.user.connect(self._from_user)

    def _open_log(self, report: RecoveryReport) -> LogWriter:
        order = AnyOrder(self.disk.random) if self.place.shards > 1 else None
        return LogWriter(self.place, self.disk, report, segment_bytes=SEGMENT_BYTES, syncs=order)

    def kill_engine(self) -> None:
        """SIGKILL, or the power goes; workers die with it; what is in the user's ring is still read."""
        if self.core is None:
            return
        self.core = None
        for worker in self.workers.values():
            worker.cut()
        self.workers.clear()
        self._from_user.cut()
        self.user.disconnect()
        self._pending_write = None
        power = self.durability == "fsync" and self.random.random() < 0.5
        self.disk = self.disk.after_power_cut(self.random.randrange(1 << 30)) if power else self.disk.after_kill()
        if power:
            self._to_user.cut()
        self.clock.at(self.clock.now_ns + self.random.randrange(1_000_000, 50_000_000), self.start_engine)

    def receive(self, event: object) -> None:
        """Something arrives at the engine."""
        if self.core is None:
            return
        if self.kills_left and self.random.random() < 0.01:
            self.kills_left -= 1
            self.kill_engine()
            return
        self._do(self.core.receive([event], self.clock.now_ns, self.clock.wall_ns))

    # --- effects --------------------------------------------------------------------------------------------------

    def _do(self, effects: list[Any]) -> None:
        assert self.core is not None
        for effect in effects:
            self._does[type(effect)](self, effect)
        self.core.check_invariants()
        self.oracle.check_scheduler(self.core, self.user)
        check_sizes(self.core)
        self.shown.check()
        self.user.planner.check(self.core)
        if self.core.unfinished and not self._turn_asked:
            self._turn_asked = True
            self._meddle(self.core)
            self.clock.at(self.clock.now_ns + TURN_NS, partial(self._go_on, self.core))

    def _meddle(self, core: EngineCore) -> None:
        """While something follows from the end of a node, cancels, kills and replays are frequent."""
        chance = self._meddling.random()
        if chance < 0.1:
            for spreading in list(core.scheduler.waves.values())[:1]:
                self.user.meddle(spreading.run.seq, self._meddling)
        elif 0.15 <= chance < 0.25:
            for spreading in list(core.scheduler.waves.values())[:1]:
                self.user.operator.revive(spreading.run.seq)
        elif self.kills_left and chance < 0.15:
            self.kills_left -= 1
            self.clock.at(self.clock.now_ns + self._meddling.randrange(TURN_NS), self.kill_engine)

    def _go_on(self, core: EngineCore) -> None:
        """The engine asked for another turn, unless it died since."""
        if core is self.core:
            self._turn_asked = False
            self._do(core.receive([], self.clock.now_ns, self.clock.wall_ns))

    def _start_worker(self, effect: fx.StartWorker) -> None:
        worker = FakeWorker(
            effect.worker, self.clock, self.random, self.chances, self._worker_said, self._execute, self._broke
        )
        self.workers[effect.worker] = worker
        self.clock.at(self.clock.now_ns + 1_000_000, worker.boot)

    def _worker_said(self, message: object) -> None:
        if isinstance(message, msg.WorkerExited):
            self.workers.pop(message.worker, None)
        self.receive(message)

    def _execute(self, leases: list[Lease]) -> list[tuple[str, Any]]:
        if leases[0].batch:
            return self.oracle.execute_batch(leases, self.user)
        return [self._execute_one(lease) for lease in leases]

    def _execute_one(self, lease: Lease) -> tuple[str, Any]:
        if lease.run.session == SESSION:
            return self.user.planner.execute(lease)
        return self.oracle.execute(lease, self.user)

    def _broke(self, leases: list[Lease]) -> None:
        self.oracle.batches.broke(leases, self.user)

    def _lease(self, effect: fx.LeaseWork) -> None:
        worker = self.workers.get(effect.worker)
        if worker is not None:
            worker.grant(effect)
            if effect.batch and effect.batch in {
                one.batch for one in worker.coming
            }:  # one message, however many groups
                worker.coming.append(effect)
                return
            worker.coming = coming = [effect]
            worker.comes_ns = max(worker.comes_ns, self.clock.now_ns + self.random.randrange(100_000))
            self.clock.at(worker.comes_ns, lambda: worker.receive(coming))  # one queue keeps its order

    def _revoke(self, effect: fx.Revoke) -> None:
        worker = self.workers.get(effect.worker)
        if worker is not None and worker.alive:
            won = worker.revoke(effect.serials)
            self.clock.at(
                self.clock.now_ns, lambda: self._answer(msg.LeasesRevoked(effect.worker, won, effect.serials))
            )

    def _answer(self, message: msg.LeasesRevoked) -> None:
        if message.worker in self.workers:
            self.receive(message)

    def _ask_cancel(self, effect: fx.AskCancel) -> None:
        worker = self.workers.get(effect.worker)
        if worker is not None:
            worker.ask_cancel(effect.serial, effect.reason)

    def _signal(self, effect: fx.SignalWorker) -> None:
        worker = self.workers.get(effect.worker)
        if worker is not None and (effect.signal == "KILL" or self.random.random() < 0.5):
            number = 9 if effect.signal == "KILL" else 15
            self.clock.at(self.clock.now_ns + 100_000, lambda: worker.die(f"killed by SIG{effect.signal}", number))

    def _drain(self, effect: fx.DrainWorker) -> None:
        worker = self.workers.get(effect.worker)
        if worker is not None:
            self.clock.at(self.clock.now_ns + 50_000, worker.drain)

    def _write(self, effect: log.WriteLog) -> None:
        incarnation = self.incarnation
        delay = self.random.randrange(50_000, 2_000_000) if effect.sync else 0
        self.clock.at(self.clock.now_ns + delay, lambda: self._written(effect, incarnation))

    def _written(self, effect: log.WriteLog, incarnation: int) -> None:
        if incarnation != self.incarnation or self.core is None or self._writer is None:
            return
        try:
            self._writer.write(effect.records, sync=effect.sync)
        except DiskFull as full:
            self.receive(log.NoSpace(full.message))
            return
        except LogFailed as failed:
            self.receive(log.LogBroken(failed.message))
            return
        self.user.planner.written(effect.records)
        active = self._writer.active
        self.receive(log.Written(effect.records[-1].lsn, active.no, active.first_lsn))

    def _tell(self, effect: fx.Tell) -> None:
        if effect.session != SESSION:
            self._to_user.post(effect)

    def _wake(self, effect: fx.WakeAt) -> None:
        if self._wake_ns and effect.due_ns >= self._wake_ns > self.clock.now_ns:
            return
        self._wake_ns = due = max(effect.due_ns, self.clock.now_ns + 1)
        incarnation = self.incarnation
        self.clock.at(due, lambda: self._woken(incarnation, due))

    def _woken(self, incarnation: int, due: int) -> None:
        if incarnation != self.incarnation or self.core is None:
            return
        if self._wake_ns == due:
            self._wake_ns = 0
        for number in self.core.watched():
            worker = self.workers.get(number)
            if worker is not None:
                self.receive(msg.WorkerObserved(number, worker.current, worker.started_ns, 0, 0, passed=worker.passed))
                if self.core is None:
                    return
        self.receive(msg.TimePassed())

    def _take_checkpoint(self, effect: log.TakeCheckpoint) -> None:
        incarnation = self.incarnation

        def disk() -> FakeDisk | None:
            return self.disk if incarnation == self.incarnation and self.core is not None else None

        self.checkpoints.take(effect, self.clock, disk, self.receive)

    def _remove(self, effect: log.RemoveSegments) -> None:
        assert self._writer is not None
        self._writer.remove_below(effect.below)

    def _nothing(self, effect: object) -> None:
        """Announcements and blobs do not matter here."""

    def _refused(self, effect: fx.Refuse) -> None:
        """The log failed: the engine is of no use any more; the user opens the folder again."""
        self.clock.at(self.clock.now_ns + 1, self.kill_engine)

    _does = {
        fx.StartWorker: _start_worker,
        fx.LeaseWork: _lease,
        fx.Revoke: _revoke,
        fx.AskCancel: _ask_cancel,
        fx.AskResults: lambda self, effect: None,
        fx.SignalWorker: _signal,
        fx.DrainWorker: _drain,
        fx.Tell: _tell,
        fx.WakeAt: _wake,
        fx.Announce: _nothing,
        fx.Scaled: lambda self, effect: self._adviser.asked(effect),
        fx.ForgetRun: _nothing,
        fx.Refuse: _refused,
        log.WriteLog: _write,
        log.RemoveSegments: _remove,
        log.TakeCheckpoint: _take_checkpoint,
    }
