"""S36, S37 (expressions) and S38 for real: nights of daylight saving, clocks that are set, engines that were off.

The same in simulation: `tests/sim/test_schedules.py`. Engines have a clock that the test sets (`set_clock`).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest

from runtime import Flow, NodeType, Runtime, ScheduleStatus
from tests.scenarios import handlers
from tests.scenarios.processes import OwnFamily, kill
from tests.scenarios.set_clock import WallClock, engines_with_clock
from tests.scenarios.waiting import await_gone, await_lines, lines, pause, until, words

pytestmark = pytest.mark.slow

ONE: Final = [NodeType("default", workers=1)]
MINUTE_S, HOUR_S, DAY_S = 60.0, 3600.0, 86_400.0


@pytest.fixture
def clock(tmp_path: Path) -> Iterator[WallClock]:
    with engines_with_clock(tmp_path) as found:
        yield found


def to(clock: WallClock, moment: str) -> None:
    """Set the engines' clock to a moment in UTC."""
    clock.set(datetime.fromisoformat(moment).replace(tzinfo=UTC).timestamp() - time.time())


def of(rt: Runtime, name: str = "job") -> ScheduleStatus:
    return next(schedule for schedule in rt.schedules() if schedule.name == name)


def started(rt: Runtime, count: int, name: str = "job") -> ScheduleStatus:
    """The schedule, as soon as it has started so many runs and they ended."""
    found: list[ScheduleStatus] = []

    def there() -> bool:
        found.append(of(rt, name))
        return found[-1].started >= count and not found[-1].running

    until(there, f"run {count} of {name}")
    return found[-1]


def due_of(rt: Runtime, name: str = "job") -> list[str]:
    return sorted(run.run_id.partition("@")[2] for run in rt.runs() if run.run_id.startswith(f"{name}@"))


# --- S36 ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("zone", "cron", "before", "due", "after", "expected"),
    [
        ("Europe/Berlin", "30 2 * * *", "2027-03-28T00:59:30", "2027-03-28T01:00:01", "2027-03-28T01:31", "010000Z"),
        ("Europe/Berlin", "30 2 * * *", "2027-10-31T00:29:30", "2027-10-31T00:30:01", "2027-10-31T01:31", "003000Z"),
        ("Pacific/Chatham", "0 3 * * *", "2027-09-25T13:59", "2027-09-25T14:00:01", "2027-09-25T15:01", "140000Z"),
        ("Australia/Lord_Howe", "45 1 * * *", "2027-04-03T14:44", "2027-04-03T14:45:01", "2027-04-03T15:31", "144500Z"),
    ],
)
def test_s36_a_daily_job_runs_once_in_the_night(
    state_dir: Path, clock: WallClock, zone: str, cron: str, before: str, due: str, after: str, expected: str
) -> None:
    to(clock, before)
    with Runtime(state_dir, node_types=ONE) as rt:
        made = rt.schedule("job", handlers.size_of, b"", cron=cron, zone=zone)
        assert made.next_due is not None
        assert made.next_due.astimezone(UTC).strftime("%H%M%SZ") == expected
        to(clock, due)
        started(rt, 1)
        to(clock, after)
        pause(1.5)
        assert [found[9:] for found in due_of(rt)] == [expected]


# --- S37 ----------------------------------------------------------------------------------------------------------


def test_s37_a_clock_that_is_set_makes_no_storm_and_stops_nothing(
    state_dir: Path, tmp_path: Path, clock: WallClock
) -> None:
    runs = tmp_path / "runs"
    to(clock, "2027-06-01T10:00:58")
    with Runtime(state_dir, node_types=ONE) as rt:
        rt.schedule("job", handlers.mark, str(runs), "job", cron="* * * * *")
        rt.schedule("each", handlers.mark, str(runs), "each", every=1.0)
        started(rt, 1)
        to(clock, "2027-06-01T09:00:58")
        before = of(rt, "each").started
        pause(2.5)
        assert of(rt).started == 1  # what ran does not run again
        assert before + 2 <= of(rt, "each").started <= before + 4
        to(clock, "2027-06-02T09:00:30")
        assert started(rt, 2).last_due == datetime(2027, 6, 2, 9, 0, tzinfo=UTC)
        before = of(rt, "each").started
        pause(1.5)
        assert of(rt).started == 2  # and a day that was leapt over is one run
        assert before + 1 <= of(rt, "each").started <= before + 3
        to(clock, "2027-06-01T11:59:59")
        assert started(rt, 3).last_due == datetime(2027, 6, 1, 12, 0, tzinfo=UTC)
    found = words(runs)
    assert found["job"] == 3


# --- S38 ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("catch_up", "count"), [("latest", 1), ("none", 0), ("all", 120)])
def test_s38_an_engine_that_was_off_for_two_hours(
    state_dir: Path, tmp_path: Path, clock: WallClock, catch_up: Any, count: int
) -> None:
    runs = tmp_path / "runs"
    to(clock, "2027-06-01T10:00:30")
    with Runtime(state_dir, node_types=ONE) as rt:
        rt.schedule("job", handlers.mark, str(runs), "job", cron="* * * * *", catch_up=catch_up)
        to(clock, "2027-06-01T10:01:00")
        started(rt, 1)
    to(clock, "2027-06-01T12:01:20")
    with Runtime(state_dir, node_types=ONE) as rt:
        rt.schedule("job", handlers.mark, str(runs), "job", cron="* * * * *", catch_up=catch_up)
        found = started(rt, 1 + count)
        if not count:
            assert (found.passed_due, found.passed_reason) == (
                datetime(2027, 6, 1, 12, 1, tzinfo=UTC),
                "it was missed",
            )
        pause(0.3)
        assert of(rt).started == 1 + count
        to(clock, "2027-06-01T12:02:00")
        assert started(rt, 2 + count).last_due == datetime(2027, 6, 1, 12, 2, tzinfo=UTC)
        assert len(due_of(rt)) == 2 + count
    assert words(runs) == {"job": 2 + count}


# --- crashes, overlap, and the rest -------------------------------------------------------------------------------


def test_each_due_time_has_one_run_whatever_is_killed(state_dir: Path, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    with Runtime(state_dir, node_types=ONE) as rt:
        made = rt.schedule("job", handlers.mark, str(runs), "job", every=0.05, catch_up="all", overlap="queue")
        for kills in range(1, 5):
            await_lines(runs, kills * 8, 60)
            engine = OwnFamily(rt).engine
            kill(engine)
            await_gone([engine])
        await_lines(runs, 48, 60)
        assert rt.unschedule("job")
        until(lambda: all(run.ended_ns for run in rt.runs()), "all runs to end")
        due = due_of(rt)
    assert made.next_due is not None
    first = made.next_due.timestamp()
    times = [datetime.strptime(text, "%Y%m%dT%H%M%S.%fZ" if "." in text else "%Y%m%dT%H%M%SZ") for text in due]
    places = sorted(round((when.replace(tzinfo=UTC).timestamp() - first) / 0.05, 2) for when in times)
    assert places == list(range(len(places)))  # none is missing, none is there twice, and none is beside the grid


@pytest.mark.parametrize(("overlap", "most"), [("skip", 1), ("queue", 1), ("cancel", 1), ("allow", 3)])
def test_overlap(state_dir: Path, tmp_path: Path, overlap: Any, most: int) -> None:
    runs, gate = tmp_path / "runs", tmp_path / "gate"
    with Runtime(state_dir, node_types=[NodeType("default", workers=3)]) as rt:
        rt.schedule("job", handlers.hold, str(runs), "job", str(gate), every=0.3, overlap=overlap)
        check: dict[str, Callable[[ScheduleStatus], bool]] = {
            "skip": lambda s: s.passed_reason == "the run before was not over",
            "queue": lambda s: s.queued >= 3,
            "cancel": lambda s: s.started >= 3,
            "allow": lambda s: s.running >= 3,
        }
        until(lambda: check[overlap](of(rt)), f"{overlap} to show")
        assert of(rt).running <= max(most, 20 if overlap == "allow" else 1)
        rt.unschedule("job")
        gate.touch()
        until(lambda: all(run.ended_ns for run in rt.runs()), "all runs to end")
        states = [str(run.state) for run in rt.runs()]
        assert ("cancelled" in states) == (overlap == "cancel")


def test_a_flow_on_a_schedule_can_be_found_paused_and_read_from_the_log(state_dir: Path, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    flow = Flow("report")
    first = flow.add(handlers.mark, str(runs), "first")
    flow.add(handlers.mark, str(runs), "second", after=[first])
    with Runtime(state_dir, node_types=ONE) as rt:
        rt.schedule("report", flow, cron="* * * * * *", zone="America/New_York")
        found = started(rt, 1, "report")
        assert found.last_run_id is not None
        assert rt.handle(found.last_run_id).wait(30)
        rt.pause("schedule:report")
        count = len(lines(runs))
        until(lambda: of(rt, "report").passed_reason == "the schedule was paused", "a due time to pass")
        assert len(lines(runs)) <= count + 2
        told = json.loads(command("schedules", str(state_dir), "--json"))
        (row,) = told["schedules"]
        assert (row["name"], row["handler"], row["paused"]) == ("report", "flow report", True)
        assert "starts nothing any more" in command("unschedule", str(state_dir), "report")
        assert rt.schedules() == []
    assert command("schedules", str(state_dir)) == "no schedules\n"


def command(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "runtime", *arguments], capture_output=True, text=True, timeout=60, env=dict(os.environ)
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
