"""Debounced calls against a slow reading of the rule, with crashes and clocks that are set at any moment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.protocol import effects as fx
from actors.protocol import messages as msg
from actors.protocol.graph import decode, encode
from actors.protocol.graph_builder import GraphBuilder
from actors.protocol.records import Record
from actors.replay import Replay
from actors.scheduler import Scheduler
from tests.unit.actors.test_once import rig_with_clock

MS = 1_000_000
KEYS = ("a", "b")
NEW_KEYS = st.sampled_from(KEYS)
STEPS = st.one_of(
    st.tuples(st.just("call"), NEW_KEYS, st.integers(1, 8), st.integers(0, 20)),
    st.tuples(st.just("later"), st.integers(1, 10)),
    st.tuples(st.just("crash")),
    st.tuples(st.just("set the clock"), st.integers(-50, 50)),
    st.tuples(st.just("cancel"), NEW_KEYS),
)


@dataclass
class Waiting:
    """A task that will start, as the rule says it; the clock that is on the wall knows two times of it."""

    run: str
    item: int
    due_ns: int
    until_ns: int
    due_wall_ns: int = 0
    until_wall_ns: int = 0


class Rule:
    """The rule, read slowly."""

    def __init__(self) -> None:
        self.waiting: dict[str, list[Waiting]] = {key: [] for key in KEYS}

    def call(self, key: str, item: int, now_ns: int, offset_ns: int, wait_ns: int, longest_ns: int) -> str:
        """The run that a call stands for. `offset_ns`: from the monotonic clock to that on the wall."""
        tasks = self.waiting[key]
        if tasks and tasks[-1].due_ns > now_ns:
            task = tasks[-1]
            task.item, task.due_ns = item, min(now_ns + wait_ns, task.until_ns)
        else:
            task = Waiting(f"s-{item}", item, now_ns + wait_ns, now_ns + longest_ns)
            task.until_wall_ns = task.until_ns + offset_ns
            tasks.append(task)
        task.due_wall_ns = task.due_ns + offset_ns
        return task.run

    def crash(self, offset_ns: int) -> None:
        """After a restart only the clock on the wall says how long it was."""
        for task in (task for tasks in self.waiting.values() for task in tasks):
            task.due_ns, task.until_ns = task.due_wall_ns - offset_ns, task.until_wall_ns - offset_ns

    def started(self, now_ns: int) -> list[int]:
        """What has started by now, and did not before."""
        found: list[int] = []
        for key, tasks in self.waiting.items():
            found += [task.item for task in tasks if task.due_ns <= now_ns]
            self.waiting[key] = [task for task in tasks if task.due_ns > now_ns]
        return sorted(found)


class Engine:
    """The real one, with a worker that takes everything at once."""

    def __init__(self) -> None:
        self.rig = rig_with_clock()
        self.records: list[Any] = []

    def call(self, key: str, item: int, wait_ns: int, longest_ns: int) -> str:
        """Submit a call; the run that it stands for."""
        builder = GraphBuilder()
        builder.add(0, item=b"%d" % item)
        kinds = [{"handler": "m:f", "node_type": "default", "shape": "one"}]
        raw = encode(builder.finish(), {"kinds": kinds, "name": "f", "debounce": [key, wait_ns, longest_ns]})
        header, columns = decode(raw)
        self.rig.say(msg.GraphSubmitted("s", item, header, columns, raw))
        stands = {body[0]: body[1] for body in self.rig.told("D")}
        return str(stands.get(item, f"s-{item}"))

    def started(self) -> list[int]:
        """Items given to workers since the last call; they succeed."""
        found = []
        for lease in self.rig.taken(fx.LeaseWork):
            found += lease.items
            self.rig.succeed(lease.worker, lease.serial, 0, run=lease.run.no)
        return sorted(found)

    def crash(self) -> None:
        """Open the log again at the same time."""
        self.records += self.rig.records
        scheduler = Scheduler(["default"])
        replay = Replay(scheduler)
        for record in self.records:
            replay.fold(record)
        now_ns, offset_ns = self.rig.now_ns, self.rig.wall_offset_ns
        _, effects = replay.finish(now_ns, now_ns + offset_ns, {})
        rig = rig_with_clock(scheduler)
        rig.now_ns, rig.wall_offset_ns = now_ns, offset_ns
        self.records += [effect for effect in effects if isinstance(effect, Record)]
        self.rig = rig


@pytest.mark.slow
@settings(deadline=None, max_examples=200)
@given(st.lists(STEPS, max_size=30))
def test_the_engine_does_as_the_rule_says(steps: list[tuple[Any, ...]]) -> None:
    engine, rule, calls = Engine(), Rule(), 0
    for what, *args in steps:
        if what == "call":
            key, wait, more = args
            calls += 1
            now_ns = engine.rig.now_ns + 1
            offset_ns = engine.rig.wall_offset_ns
            expected = rule.call(key, calls, now_ns, offset_ns, wait * MS, (wait + more) * MS)
            assert engine.call(key, calls, wait * MS, (wait + more) * MS) == expected
        elif what == "later":
            engine.rig.later(args[0] * MS)
        elif what == "crash":
            engine.crash()
            rule.crash(engine.rig.wall_offset_ns)
        elif what == "set the clock":
            engine.rig.wall_offset_ns += args[0] * MS
        elif tasks := rule.waiting[args[0]]:
            run = tasks.pop().run
            engine.rig.say(msg.CancelAsked("s", 1, run, None))
        assert engine.started() == rule.started(engine.rig.now_ns)
    engine.rig.later(1000 * MS)
    assert engine.started() == rule.started(engine.rig.now_ns)
    assert not engine.rig.core.scheduler.book.known
