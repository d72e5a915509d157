"""Somebody who schedules: makes schedules, says them again, replaces, pauses and ends them, while all else happens.

What must hold, judged by what is in the log and in the engine:

- A due time of a schedule is in one submission that was written, whatever was killed.
- Not more than one run of a schedule is open, unless it allows that; what is open is what the schedule thinks is.
- With catch_up="all" and a queue, or runs side by side, each due time has its run or waits for its turn: none is lost.
- No run is executed before its due time and jitter.

The last two only where nobody sets the wall clock. A third of the worlds has no schedules.
"""

from __future__ import annotations

import binascii
from collections import Counter
from random import Random
from typing import TYPE_CHECKING, Any

import orjson

from actors.core import EngineCore
from actors.policy.recurrence import jitter_of
from actors.protocol import messages as msg
from actors.protocol.graph import encode
from actors.protocol.graph_builder import GraphBuilder
from actors.protocol.records import Record, RecordType
from actors.schedules import SESSION

if TYPE_CHECKING:
    from tests.sim.user import User
    from tests.sim.workers import Lease

FIRST_QUERY = 2_000_000
RETRY_NS = 30_000_000
MS = 1_000_000


def graph(node_type: str, number: int) -> str:
    """What a schedule runs."""
    builder = GraphBuilder()
    builder.add(0, item=b"%d" % number)
    retry = {"max_attempts": 2, "base_ns": MS, "cap_ns": 2 * MS}
    kind = {"handler": "m:s", "node_type": node_type, "shape": "one", "retry": retry, "timeout_ns": 100 * MS}
    raw = encode(builder.finish(), {"kinds": [kind], "name": "scheduled"})
    return binascii.b2a_base64(raw, newline=False).decode()


class Planner:
    """See the module. Its draws are its own."""

    def __init__(self, user: User, seed: int) -> None:
        self._user = user
        self._random = random = Random(f"schedules {seed}")
        self._next_query = FIRST_QUERY
        self._waits: dict[int, str] = {}
        self._plans: dict[str, dict[str, Any]] = {}
        self._paused: set[str] = set()
        self.submitted: Counter[tuple[str, int, str]] = Counter()
        self._left: set[str] = set()
        for number in range(random.choice((0, 1, 3))):
            self._plans[f"s{number}"] = self._plan()

    def _plan(self) -> dict[str, Any]:
        random = self._random
        every = random.choice((10, 10, 17, 40)) * MS
        overlap = random.choice(("skip", "queue", "cancel", "allow", "queue", "allow"))
        catch_up = random.choice(("latest", "none", "all", "all"))
        if overlap == "cancel" and catch_up == "all":
            catch_up = "latest"
        plan = {"catch_up": catch_up, "overlap": overlap}
        if random.random() < 0.25:
            return {**plan, "cron": "* * * * * *", "jitter_ns": random.choice((0, 500 * MS))}
        return {**plan, "every_ns": every, "jitter_ns": random.choice((0, 0, every // 2))}

    def rest(self) -> None:
        """Make no schedules in this world."""
        self._plans.clear()

    @property
    def done(self) -> bool:
        """Whether all that was made was ended again."""
        return not self._plans

    def drop(self) -> None:
        """Plan nothing."""
        self._plans.clear()

    def begin(self, now_ns: int) -> None:
        """Plan it."""
        clock, random = self._user.world.clock, self._random
        for name in self._plans:
            clock.at(now_ns + random.randrange(10 * MS), lambda name=name: self._put(name, 1))  # type: ignore[misc]
            for number in random.choice(((), (1, 1), (1, 2))):
                at = now_ns + random.randrange(10 * MS, 80 * MS)
                clock.at(at, lambda name=name, number=number: self._put(name, number))  # type: ignore[misc]
            if random.random() < 0.2:
                self._paused.add(name)
                clock.at(now_ns + random.randrange(60 * MS), lambda name=name: self._change("pause", name))  # type: ignore[misc]
                clock.at(now_ns + 60 * MS, lambda name=name: self._change("resume", name))  # type: ignore[misc]
            clock.at(now_ns + random.randrange(100 * MS, 150 * MS), lambda name=name: self._remove(name))  # type: ignore[misc]

    def hear(self, query_id: int, error: Any) -> None:
        """An answer came."""
        name = self._waits.pop(query_id, None)
        if name is not None:
            assert error is None, error
            self._plans.pop(name, None)

    def execute(self, lease: Lease) -> tuple[str, Any]:
        """A run of a schedule is executed; one in six fails once or for good."""
        run, world = lease.run, self._user.world
        schedule = None if world.core is None else world.core.scheduler.schedules.by_name.get(run.key.partition("@")[0])
        if schedule is not None and not world.jumps and schedule.last is not None and schedule.last[1] == run.key:
            due_ns = schedule.last[0]
            starts_ns = due_ns + jitter_of(schedule.name, due_ns, schedule.plan.jitter_ns)
            assert world.clock.wall_ns >= starts_ns, f"{run.key} is executed {starts_ns - world.clock.wall_ns} ns early"
        fails = Random(run.key).choice((0, 0, 0, 0, 1, 9))
        return ("error", "planned failure") if lease.attempt <= fails else ("ok", 1)

    def written(self, records: list[Record]) -> None:
        """These are in the log now."""
        for record in records:
            if record.type == RecordType.SUBMITTED and (at := record.payload.find(b'"schedule":[')) >= 0:
                name, due_ns = orjson.loads(record.payload[at + 11 : record.payload.index(b"]", at) + 1])
                at = record.payload.index(b'"run_id":"') + 10
                key = record.payload[at : record.payload.index(b'"', at)].decode()
                if not self._user.world.jumps:
                    key = ""  # else an interval may come to a time again, under another name
                self.submitted[name, due_ns, key] += 1
                assert self.submitted[name, due_ns, key] == 1, f"{name} has two runs for {due_ns}"

    def check(self, core: EngineCore) -> None:
        """After each step."""
        schedules, live = core.scheduler.schedules, core.scheduler.book.live
        own = {run.no for run in live.values() if run.session == SESSION}
        assert set(schedules.by_run) <= own
        assert all(live[no].rare.revived for no in own - set(schedules.by_run)), "a run is forgotten"
        for name, schedule in schedules.by_name.items():
            plan = schedule.plan
            assert schedule.open == {no for no, other in schedules.by_run.items() if other == name}
            assert plan.overlap == "allow" or len(schedule.open) <= 1, f"{name} has {len(schedule.open)} open runs"
            all_of_them = plan.catch_up == "all" and plan.overlap in ("queue", "allow") and plan.every_ns
            if all_of_them and not self._user.world.jumps and name not in self._paused:
                due = (schedule.judged_ns - schedule.created_ns) // (plan.every_ns or 1)
                found = schedule.started + len(schedule.queued)
                assert found == due, f"{name} was due {due} times, and has {found} runs or places"

    def _put(self, name: str, number: int) -> None:
        if name in self._plans and name not in self._left:
            node_type = ("default", "io")[number % 2]
            asked = {"name": name, "plan": self._plans[name], "graph": graph(node_type, number), "handler": "m:s"}
            self._ask("schedules", {"put": asked})

    def _change(self, what: str, name: str) -> None:
        self._ask("policy", {"change": {what: [f"schedule:{name}"]}})

    def _remove(self, name: str) -> None:
        """End it, until that was heard."""
        if name in self._plans:
            self._left.add(name)
            self._waits[self._ask("schedules", {"remove": name})] = name
            clock = self._user.world.clock
            clock.at(clock.now_ns + RETRY_NS, lambda: self._remove(name))

    def _ask(self, what: str, args: dict[str, Any]) -> int:
        query_id, self._next_query = self._next_query, self._next_query + 1
        self._user.ask(msg.Queried(self._user.session, query_id, what, args))
        return query_id
