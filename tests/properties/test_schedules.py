"""Schedules under any mixture of time that passes, runs that end, crashes, pauses and clocks that are set.

- A due time has at most one run, and not more than one run is open unless that is allowed.
- With catch_up="all" and a queue, or runs side by side, none is missing while nobody sets clocks or pauses.
- Whatever happened, it goes on: two hours later the latest due time has been judged.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.unit.actors.clocked import Clocked, S, dues_of

pytestmark = pytest.mark.slow

MINUTE, HOUR = 60 * S, 3600 * S
PLANS = st.one_of(st.just({"cron": "* * * * *"}), st.just({"every_ns": MINUTE}), st.just({"cron": "*/5 * * * *"}))


class Schedule(RuleBasedStateMachine):
    """One schedule in one engine after the other."""

    def __init__(self) -> None:
        super().__init__()
        self.rig = Clocked()
        self.disturbed = False
        self.clock_set = False

    @initialize(
        plan=PLANS,
        overlap=st.sampled_from(("skip", "queue", "cancel", "allow")),
        catch_up=st.sampled_from(("latest", "none", "all")),
        jitter_ns=st.sampled_from((0, 0, 30 * S)),
    )
    def put(self, plan: dict[str, Any], overlap: str, catch_up: str, jitter_ns: int) -> None:
        if (overlap, catch_up) == ("cancel", "all"):
            overlap = "queue"
        self.plan = {**plan, "overlap": overlap, "catch_up": catch_up, "jitter_ns": jitter_ns}
        assert self.rig.put(**self.plan)["changed"]

    @rule(seconds=st.integers(1, 200), steps=st.integers(1, 3))
    def pass_time(self, seconds: int, steps: int) -> None:
        for _ in range(steps):
            self.rig.later(seconds * S)

    @rule(which=st.integers(0, 5), fails=st.booleans())
    def end_one(self, which: int, fails: bool) -> None:
        self.rig.end_one(which, fails=fails)

    @rule(off_ns=st.sampled_from((0, S, 5 * S, 30 * S, 10 * MINUTE)))
    def crash(self, off_ns: int) -> None:
        self.rig = self.rig.again(off_ns)

    @rule(word=st.sampled_from(("pause", "resume")))
    def pause(self, word: str) -> None:
        self.disturbed = True
        self.rig.ask("policy", change={word: ["schedule:job"]})

    @rule(by_ns=st.integers(-2 * HOUR, HOUR))
    def set_clock(self, by_ns: int) -> None:
        self.disturbed = self.clock_set = True
        self.rig.wall_offset_ns += by_ns

    @rule()
    def say_it_again(self) -> None:
        assert not self.rig.put(**self.plan)["changed"]

    @invariant()
    def one_run_each(self) -> None:
        dues = list(dues_of(self.rig))
        if not (self.clock_set and "every_ns" in self.plan):  # whose grid may come to a time again
            assert len(set(dues)) == len(dues)
        row = self.rig.row()
        if self.plan["overlap"] != "allow":
            assert row["open"] <= 1
        complete = self.plan["catch_up"] == "all" and self.plan["overlap"] in ("queue", "allow")
        if complete and not self.disturbed and "every_ns" in self.plan:
            assert row["started"] + row["queued"] == (row["judged_ns"] - row["created_ns"]) // MINUTE

    def teardown(self) -> None:
        rig = self.rig
        rig.ask("policy", change={"resume": ["schedule:job"]})
        for _ in range(130):
            rig.later(MINUTE)
            rig.end_all()
        assert rig.wall_ns - rig.row()["judged_ns"] <= 6 * MINUTE
        if self.plan["overlap"] == "queue":
            for _ in range(rig.row()["queued"] + 1):
                rig.later(1000)
                rig.end_all()
            assert rig.row()["queued"] <= 1


TestSchedule = Schedule.TestCase
TestSchedule.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
