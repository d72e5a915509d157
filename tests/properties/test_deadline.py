"""A task with a deadline against a slow reading of the rule: attempts, waits, crashes and clocks in any order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.protocol import effects as fx
from actors.protocol import messages as msg
from actors.protocol.records import Record
from actors.protocol.states import NodeState
from actors.replay import Replay
from actors.scheduler import Scheduler
from tests.unit.actors.rig import Rig, kind
from tests.unit.actors.test_once import rig_with_clock

MS = 1_000_000
FAILS = st.tuples(st.just("fail"), st.sampled_from(("error", "error", "timeout", "crash", "deadline")))
STEPS = st.one_of(
    FAILS,
    FAILS,
    st.tuples(st.just("succeed")),
    st.tuples(st.just("take back"), st.booleans()),
    st.tuples(st.just("later"), st.integers(1, 12)),
    st.tuples(st.just("crash")),
    st.tuples(st.just("set the clock"), st.integers(-20, 20)),
)


@dataclass
class Task:
    """What is asked for, and when it must have ended on each clock."""

    delay: int
    deadline: int
    is_moment: bool
    wait: int


class Life:
    """One task in one engine after another."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.rig = rig_with_clock()
        self.records: list[Record] = []
        self.lease: fx.LeaseWork | None = None
        self.is_stopped = False
        due_ns, ends_ns = (self.rig.wall_ns + ms * MS for ms in (task.delay, task.deadline))
        self.ends_wall_ns = ends_ns
        self.ends_ns = self.rig.now_ns + task.deadline * MS
        row = [1, 1, 7, due_ns, None, None, ends_ns, int(task.is_moment)]
        retry = {"max_attempts": 4, "base_ns": task.wait * MS, "cap_ns": task.wait * MS, "jitter": False}
        defined = msg.KindDefined("s", 1, kind(retry=retry))
        self.rig.say(defined, msg.TasksSubmitted("s", [row], orjson.dumps([row])))
        self.arrived_ns = self.rig.now_ns

    @property
    def state(self) -> NodeState:
        """The state of the task."""
        run, _ = self.rig.core.scheduler.book.find("s-1") or (None, None)
        assert run is not None
        return NodeState(run.state[0])

    @property
    def failure_kind(self) -> str:
        """How it ended without success."""
        run, _ = self.rig.core.scheduler.book.find("s-1") or (None, None)
        assert run is not None
        return str(run.rare.failures[0]["kind"])

    def has_passed(self, later_ns: int = 0) -> bool:
        """Whether the deadline has, by the clock that it is meant by; for an attempt that is being stopped it has."""
        if self.is_stopped:
            return True
        if self.task.is_moment:
            return self.rig.wall_ns + later_ns >= self.ends_wall_ns
        return self.rig.now_ns + later_ns >= self.ends_ns

    def crash(self, rig: Rig) -> None:
        """Open the log again at the same time. An interval is as long as the clock on the wall says."""
        self.records += rig.records
        scheduler = Scheduler(["default"])
        replay = Replay(scheduler)
        for record in self.records:
            replay.fold(record)
        now_ns, offset_ns = rig.now_ns, rig.wall_offset_ns
        _, effects = replay.finish(now_ns, now_ns + offset_ns, {})
        self.records += [effect for effect in effects if isinstance(effect, Record)]
        self.rig = rig_with_clock(scheduler)
        self.rig.now_ns, self.rig.wall_offset_ns = now_ns, offset_ns
        self.ends_ns = self.ends_wall_ns - offset_ns
        self.lease, self.is_stopped = None, False

    def look(self) -> None:
        """What must hold after each step."""
        for lease in self.rig.taken(fx.LeaseWork):
            assert not self.has_passed(), "it was given to a worker after its deadline"
            assert self.lease is None
            self.lease = lease
        if self.state in (NodeState.READY, NodeState.BACKOFF):
            assert not self.has_passed(), f"it is {self.state.name} after its deadline"
        if self.state is NodeState.BACKOFF:
            timers = self.rig.core.scheduler.timers
            assert timers.due_ns((1, 0)) is not None, "it was set aside before its deadline"
        if self.state is NodeState.LEASED:
            run = self.rig.core.scheduler.book.live[1]
            self.is_stopped = self.has_passed()
            assert bool(run.rare.overdue) == self.is_stopped


@pytest.mark.slow
@settings(deadline=None, max_examples=200)
@given(
    st.builds(Task, st.sampled_from((0, 0, 0, 5, 10)), st.integers(11, 40), st.booleans(), st.integers(1, 30)),
    st.lists(STEPS, max_size=25),
)
def test_it_ends_in_time_or_at_its_deadline(task: Task, steps: list[tuple[Any, ...]]) -> None:
    life = Life(task)
    stopped: list[int] = []
    life.look()
    for what, *args in steps:
        rig, lease = life.rig, life.lease
        if what == "later":
            rig.later(args[0] * MS)
        elif what == "set the clock":
            rig.wall_offset_ns += args[0] * MS
            rig.later(1)
        elif what == "crash":
            life.crash(rig)
            life.rig.later(1)
            stopped.clear()
        elif lease is not None and life.state is NodeState.LEASED:
            life.lease = None
            if what == "succeed":
                rig.succeed(lease.worker, lease.serial, 0)
                assert life.state is NodeState.SUCCEEDED
            elif what == "fail":
                too_late = life.has_passed(1 + task.wait * MS)
                rig.fail(lease.worker, lease.serial, 0, args[0])
                if life.state is NodeState.FAILED and life.failure_kind == "deadline":
                    assert too_late or args[0] == "deadline"
                elif life.state is not NodeState.FAILED:
                    assert not too_late
            else:
                won = (lease.serial,) if args[0] else ()
                rig.say(msg.LeasesRevoked(lease.worker, won, (lease.serial,)))
                life.lease = None if won else lease
                asked = [effect.reason for effect in rig.taken(fx.AskCancel)]
                assert asked == [3] * (not won and life.has_passed() and lease.serial not in stopped)
                stopped += [lease.serial] * len(asked)
        life.look()
        if life.state in (NodeState.SUCCEEDED, NodeState.FAILED):
            break
    life.rig.later(1000 * MS)
    assert life.state in (NodeState.SUCCEEDED, NodeState.FAILED, NodeState.LEASED)
    life.crash(life.rig)
    life.rig.later(1000 * MS)
    assert life.state in (NodeState.SUCCEEDED, NodeState.FAILED)
