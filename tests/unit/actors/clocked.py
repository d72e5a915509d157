"""A rig whose engine reads expressions, and schedules for it."""

from __future__ import annotations

import binascii
from collections.abc import Iterator
from typing import Any

import orjson

from actors.protocol import messages as msg
from actors.protocol.graph import encode
from actors.protocol.graph_builder import GraphBuilder
from actors.protocol.records import Record, RecordType
from actors.scheduler import Scheduler
from runtime.host.calendar import ZoneCalendar
from tests.unit.actors.rig import WALL, Rig, S, folded, kind, node_type


def graph(item: Any = 7, **more: Any) -> str:
    builder = GraphBuilder()
    builder.add(0, item=orjson.dumps(item))
    return binascii.b2a_base64(encode(builder.finish(), {"kinds": [kind(**more)], "name": "f"}), newline=False).decode()


class Clocked(Rig):
    """A rig whose engine reads expressions, and can be opened again from what its disk holds."""

    def __init__(self, records: list[Record] | None = None, now_ns: int = 1_000_000, wall_ns: int = WALL) -> None:
        scheduler = Scheduler(["default"])
        scheduler.schedules.calendar = ZoneCalendar()
        effects: list[Any] = []
        if records is not None:
            _, effects = folded(records, scheduler).finish(now_ns, wall_ns, {})
        super().__init__(
            node_type(slots=50, prefetch=50),
            scheduler=scheduler,
            effects=effects,
            next_lsn=(records[-1].lsn if records else 0) + 1,
            now_ns=now_ns,
            wall_ns=wall_ns,
        )
        self.records = list(records or []) + self.records

    def put(self, name: str = "job", **more: Any) -> Any:
        plan = {key: more.pop(key) for key in list(more) if key not in ("item", "expires_ns", "node_type")}
        expires_ns, what = more.pop("expires_ns", None), graph(**more)
        asked = {"name": name, "plan": plan, "graph": what, "handler": "m:f", "expires_ns": expires_ns}
        return self.ask("schedules", put=asked)

    def row(self, name: str = "job") -> dict[str, Any]:
        return next(row for row in self.ask("schedules")["rows"] if row["name"] == name)

    def runs(self) -> list[str]:
        book = self.core.scheduler.book
        return [run.key for run in sorted((*book.finished.values(), *book.live.values()), key=lambda run: run.no)]

    def open(self) -> list[str]:
        return [run.key for run in self.core.scheduler.book.live.values()]

    def until(self, wall_ns: int = WALL) -> None:
        """The time passes as it does, with a look every second."""
        while self.wall_ns < wall_ns:
            self.later(min(S, wall_ns - self.wall_ns))

    def at_worker(self) -> list[tuple[int, int, int]]:
        """Run, worker and serial of what is with the worker."""
        return [
            (group.run.no, worker.id, serial)
            for pool in self.core.pools.values()
            for worker in pool.workers.values()
            for serial in worker.book.open_serials()
            if (group := worker.book.find(serial)) is not None
        ]

    def end_all(self) -> None:
        """Everything that is with the worker succeeds."""
        self.leases()
        for number, worker, serial in self.at_worker():
            self.succeed(worker, serial, 0, run=number)

    def end_one(self, which: int, *, fails: bool = False) -> None:
        """One of those that are with the worker ends, if there is one."""
        held = self.at_worker()
        if not held:
            return
        number, worker, serial = held[which % len(held)]
        if not fails:
            self.succeed(worker, serial, 0, run=number)
            return
        failure = {"kind": "error", "type": "builtins.ValueError", "message": "no", "traceback": ""}
        row = [serial, number, 0, self.now_ns, self.now_ns + 5, failure]
        self.say(msg.WorkerFailed(worker, [row]))

    def again(self, off_ns: int = S) -> Clocked:
        """Killed, and opened that much later."""
        return Clocked(self.records, 5, self.wall_ns + off_ns)


def dues_of(rig: Clocked) -> Iterator[int]:
    """Due times of the runs that were submitted, as the log has them."""
    for record in rig.records:
        if record.type == RecordType.SUBMITTED:
            at = record.payload.index(b'"schedule":[')
            yield orjson.loads(record.payload[at + 11 : record.payload.index(b"]", at) + 1])[1]
