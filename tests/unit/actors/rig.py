"""An engine core on a table: time, workers and disk are moved by hand."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import orjson

from actors.core import EngineCore
from actors.persister import Persister
from actors.protocol import effects as fx
from actors.protocol import log_messages as log
from actors.protocol import messages as msg
from actors.protocol.graph import decode, encode
from actors.protocol.graph_builder import GraphBuilder
from actors.protocol.records import Record
from actors.replay import Replay
from actors.scheduler import Scheduler

S = 1_000_000_000
WALL = 1_700_000_000 * S


def node_type(name: str = "default", **more: Any) -> dict[str, Any]:
    base = {"workers_min": 1, "workers_max": 1, "mode": "process", "slots": 1, "prefetch": None, "grace_ns": 100}
    return {"name": name, **base, "recycle_tasks": None, "recycle_rss_bytes": None, **more}


def kind(shape: str = "one", **more: Any) -> dict[str, Any]:
    return {"handler": "m:f", "node_type": "default", "shape": shape, **more}


class Rig:
    """The core with a disk that writes at once (unless held), and effects kept for inspection.

    `effects` are those of a recovery, whose scheduler continues the log; both clocks begin where they are told to.
    """

    def __init__(
        self,
        *node_types: dict[str, Any],
        scheduler: Scheduler | None = None,
        boot: bool = True,
        effects: Sequence[Any] = (),
        next_lsn: int = 1,
        now_ns: int = 1_000_000,
        wall_ns: int | None = None,
    ) -> None:
        self.node_types = list(node_types) or [node_type()]
        names = [n["name"] for n in self.node_types]
        self.now_ns = now_ns
        self.wall_offset_ns = 0 if wall_ns is None else wall_ns - now_ns
        self.records: list[Record] = []
        self.disk_held = False
        self.held: list[log.WriteLog] = []
        self.effects: list[Any] = []
        self.core = EngineCore(scheduler or Scheduler(names), Persister("os", next_lsn), self.node_types)
        self._take(self.core.start(effects, self.now_ns, self.wall_ns))
        self.workers = [e.worker for e in self.taken(fx.StartWorker)]
        for worker in self.workers if boot else []:
            self.say(msg.WorkerHello(worker, 100 + worker))
        self.session = "s"
        self.say(msg.SessionOpened("s", 1))

    @property
    def wall_ns(self) -> int:
        """The wall clock, which a test may set."""
        return self.now_ns + self.wall_offset_ns

    def let_hold(self, count: int) -> None:
        """Until something is measured, a worker holds so many."""
        for pool in self.core.pools.values():
            pool.holds_max = count

    def say(self, *events: Any) -> None:
        self.now_ns += 1
        self._take(self.core.receive(events, self.now_ns, self.wall_ns))
        self.core.check_invariants()

    def later(self, ns: int, *events: Any) -> None:
        self.now_ns += ns
        self.say(*(events or [msg.TimePassed()]))

    def _take(self, effects: list[Any]) -> None:
        for effect in effects:
            if isinstance(effect, log.WriteLog):
                self.held.append(effect)
            else:
                self.effects.append(effect)
        if self.held and not self.disk_held:
            self.write()

    def write(self) -> None:
        """The disk has written what was handed to it."""
        write = self.held.pop(0)
        self.records += write.records
        self.say(log.Written(write.records[-1].lsn, 1, 1))

    def taken(self, effect_type: type) -> list[Any]:
        """Effects of a type since the last call."""
        found = [e for e in self.effects if isinstance(e, effect_type)]
        self.effects = [e for e in self.effects if not isinstance(e, effect_type)]
        return found

    def told(self, frame: str) -> list[Any]:
        """Bodies of frames that sessions were told."""
        found = [e.body for e in self.effects if isinstance(e, fx.Tell) and e.frame == frame]
        self.effects = [e for e in self.effects if not (isinstance(e, fx.Tell) and e.frame == frame)]
        return found

    def submit(self, count: int, **options: Any) -> None:
        """Single tasks with numbers 1 to count."""
        rows = [[seq, 1, seq * 10] for seq in range(1, count + 1)]
        self.say(msg.KindDefined("s", 1, kind(**options)), msg.TasksSubmitted("s", rows, orjson.dumps(rows)))

    def submit_graph(self, edges: list[list[int]], **options: Any) -> None:
        builder = GraphBuilder()
        for parents in edges:
            builder.add(0, parents)
        raw = encode(builder.finish(), {"kinds": [kind("parents", **options)], "name": "graph"})
        header, columns = decode(raw)
        self.say(msg.GraphSubmitted("s", 1, header, columns, raw))

    def leases(self) -> list[tuple[int, int, int]]:
        """(worker, serial, node) of the work given since the last call."""
        return [(e.worker, e.serial + i, n) for e in self.taken(fx.LeaseWork) for i, n in enumerate(e.nodes)]

    def succeed(self, worker: int, serial: int, node: int, value: Any = 1, run: int = 1) -> None:
        raw = orjson.dumps([100 + worker, [[serial, run, [node], [value], self.now_ns, [10]]]])
        self.say(msg.WorkerDone(worker, orjson.loads(raw)[1], raw))

    def fail(self, worker: int, serial: int, node: int, failure_kind: str = "error") -> None:
        failure = {"kind": failure_kind, "type": "builtins.ValueError", "message": "no", "traceback": ""}
        self.say(msg.WorkerFailed(worker, [[serial, 1, node, self.now_ns, self.now_ns + 5, failure]]))

    def observe(self, worker: int, serial: int, started_ns: int, **more: Any) -> None:
        self.say(msg.WorkerObserved(worker, serial, started_ns, 0, 0, **more))

    def die(self, worker: int, current: int = 0, claimed: tuple[int, ...] = (), signal: int = 9) -> None:
        self.say(msg.WorkerExited(worker, f"killed by {signal}", signal, current, self.now_ns, claimed))

    def ask(self, what: str, **args: Any) -> Any:
        self.say(msg.Queried("s", 1, what, args))
        _, result, error = self.told("Q")[-1]
        return result if error is None else error


def rig_with_clock(scheduler: Scheduler | None = None, **more: Any) -> Rig:
    """A rig whose wall clock says `WALL`, and this node type; a scheduler that has read a log goes on with it."""
    rig = Rig(node_type(**more), scheduler=scheduler)
    rig.wall_offset_ns = WALL
    if scheduler is not None:
        rig.core.persister = Persister("os", scheduler.lsn + 1)
    return rig


def folded(records: Iterable[Record], scheduler: Scheduler | None = None) -> Replay:
    """What these records say, as far as they go: recovery is not finished."""
    replay = Replay(scheduler or Scheduler(["default"]))
    for record in records:
        replay.fold(record)
    return replay


def recovered(
    records: Sequence[Record],
    now_ns: int = 1,
    wall_ns: int = 1,
    *,
    policy: dict[str, Any] | None = None,
    log: list[Record] | None = None,
) -> Scheduler:
    """A scheduler that has read a log, at this time of both clocks. `log` gets the records that this writes."""
    scheduler = Scheduler(["default"], policy=policy)
    replay = folded(records, scheduler)
    _, effects = replay.finish(now_ns, wall_ns, {"pid": 1}, next_lsn=scheduler.lsn + 1)
    if log is not None:
        log += [effect for effect in effects if isinstance(effect, Record)]
    scheduler.check_invariants()
    return scheduler
