"""S36, S37 and S38 in simulation: the world's engine, log, workers and crashes, with nights that pass in seconds.

The real ones are in `tests/scenarios/test_next_schedules.py`.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from actors.protocol import messages as msg
from tests.sim.planner import graph
from tests.sim.world import World

S = 1_000_000_000
HOUR = 3600 * S


def ns(text: str) -> int:
    """A moment in UTC."""
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * S


class Night(World):
    """A world with schedules and nothing else, from a moment on."""

    def __init__(self, seed: int, start: str, **schedules: dict[str, Any]) -> None:
        super().__init__(seed)
        self.jumps = True  # the planner's own checks of early runs are for runs that are executed at once
        self.clock.wall_offset_ns = ns(start) - self.clock.now_ns
        self._schedules = schedules
        self.start_engine()
        self.clock.at(self.clock.now_ns + S // 10, self._ask)

    def _ask(self) -> None:
        """Ask for the schedules, again and again: engines die, and the same again changes nothing."""
        for number, (name, plan) in enumerate(self._schedules.items()):
            asked = {"name": name, "plan": plan, "graph": graph("default", number), "handler": "m:s"}
            self.user.ask(msg.Queried(self.user.session, 5_000_000, "schedules", {"put": asked}))
        if self.core is None or len(self.core.scheduler.schedules.by_name) < len(self._schedules):
            self.clock.at(self.clock.now_ns + S // 10, self._ask)

    def until(self, moment: str) -> None:
        """Live until then."""
        end_ns = ns(moment)
        while self.clock.wall_ns < end_ns:
            assert self.clock.step()

    def off_until(self, moment: str) -> None:
        """The engine is gone for so long."""
        self.kills_left = 0
        self.kill_engine()
        self.clock._heap = []  # nothing of what was to come does
        self.clock.now_ns += ns(moment) - self.clock.wall_ns
        self.start_engine()

    def due(self, name: str) -> list[str]:
        """Due times that have a run in the log, in UTC."""
        found = sorted(due for other, due, _ in self.user.planner.submitted if other == name)
        return [datetime.fromtimestamp(due / 1e9, UTC).strftime("%d %H:%M") for due in found]


NIGHTS = [
    ("Europe/Berlin", "30 2 * * *", "2026-03-28T22:00", "2026-03-29T05:00", ["29 01:00"]),
    ("Europe/Berlin", "30 2 * * *", "2026-10-24T22:00", "2026-10-25T05:00", ["25 00:30"]),
    ("America/New_York", "30 2 * * *", "2026-03-08T03:00", "2026-03-08T10:00", ["08 07:00"]),
    ("America/New_York", "30 1 * * *", "2026-11-01T03:00", "2026-11-01T10:00", ["01 05:30"]),
    ("Australia/Lord_Howe", "15 2 * * *", "2026-10-03T12:00", "2026-10-03T19:00", ["03 15:30"]),
    ("Australia/Lord_Howe", "45 1 * * *", "2026-04-04T12:00", "2026-04-04T19:00", ["04 14:45"]),
    ("Pacific/Chatham", "0 3 * * *", "2026-09-26T11:00", "2026-09-26T18:00", ["26 14:00"]),
    ("Pacific/Chatham", "15 3 * * *", "2026-04-04T11:00", "2026-04-04T18:00", ["04 13:30"]),
]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize(("zone", "daily", "start", "end", "expected"), NIGHTS)
def test_s36_both_nights(zone: str, daily: str, start: str, end: str, expected: list[str], seed: int) -> None:
    hourly = {"cron": "5 * * * *", "zone": zone}
    world = Night(seed, start, daily={"cron": daily, "zone": zone}, hourly=hourly)
    world.until(end)
    assert world.due("daily") == expected
    hours = world.due("hourly")
    assert len(hours) == (6 if start == "2026-10-03T12:00" else 7)  # five past is in the half hour that is left out
    assert all(hour.endswith((":05", ":20", ":35")) for hour in hours)


@pytest.mark.slow
@pytest.mark.parametrize("jump", [-HOUR, 24 * HOUR, HOUR], ids=["an-hour-back", "a-day-on", "an-hour-asleep"])
def test_s37_a_clock_that_is_set_makes_no_storm_and_stops_nothing(jump: int) -> None:
    world = Night(4, "2026-06-01T10:00", minutes={"cron": "* * * * *"}, every={"every_ns": 60 * S})
    world.kills_left = 0
    world.until("2026-06-01T10:05:30")
    assert (len(world.due("minutes")), len(world.due("every"))) == (5, 5)
    world.clock.wall_offset_ns += jump
    before = world.clock.now_ns
    while world.clock.now_ns < before + 10 * S:
        assert world.clock.step()
    assert len(world.due("minutes")) == (6 if jump > 0 else 5)
    assert len(world.due("every")) == 5
    while world.clock.now_ns < before + 65 * 60 * S:
        assert world.clock.step()
    assert len(world.due("every")) == 5 + 65
    assert len(world.due("minutes")) == (6 + 65 if jump > 0 else 5 + 5)  # what ran does not run again


@pytest.mark.slow
@pytest.mark.parametrize(("catch_up", "count"), [("latest", 1), ("none", 0), ("all", 120)])
def test_s38_an_engine_that_is_off_for_two_hours(catch_up: str, count: int) -> None:
    world = Night(3, "2026-06-01T10:00", minutes={"cron": "* * * * *", "catch_up": catch_up})
    world.until("2026-06-01T10:05:30")
    assert len(world.due("minutes")) == 5
    world.off_until("2026-06-01T12:05:30")
    world.until("2026-06-01T12:05:59")
    assert len(world.due("minutes")) == 5 + count
    assert world.due("minutes")[5:][-1:] == ["01 12:05"][:count]
    world.until("2026-06-01T12:10:30")
    assert len(world.due("minutes")) == 5 + count + 5
