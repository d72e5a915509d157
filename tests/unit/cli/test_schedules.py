"""`schedules` and `unschedule`: read from the log with and without an engine, ended from outside."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from runtime import NodeType, RunState, Runtime, ScheduleStatus
from runtime.cli import main
from runtime.cli.exits import Exit
from runtime.cli.schedules import schedule_lines

ONE = [NodeType("default", workers=1)]
DUE = datetime(2026, 12, 1, 12, tzinfo=UTC)
STATUS = ScheduleStatus(
    name="job",
    handler="m:f",
    cron="0 * * * *",
    every=None,
    zone="UTC",
    catch_up="latest",
    overlap="skip",
    jitter=0.0,
    started=1200,
    running=0,
    queued=2,
    paused=False,
    next_due=DUE,
    next_start=DUE,
    last_due=DUE.replace(hour=10),
    last_run_id="job@x",
    last_state=RunState.FAILED,
    passed_due=DUE.replace(hour=11),
    passed_reason="it was missed",
    trouble="the engine is full",
)


def test_the_next_start_is_told_with_its_jitter() -> None:
    one = replace(STATUS, jitter=90.0, next_start=DUE.replace(minute=1, second=17))
    header, line = schedule_lines([one], 1)[:2]
    assert "0 * * * * UTC + up to 90 s" in line
    at = header.index("starts next")
    assert line[at:].startswith("2026-12-01 12:01:17 UTC")
    assert line[header.index("then due") :].startswith("2026-12-01 13:00:00 UTC")


@pytest.mark.slow
def test_schedules_are_told_and_ended_from_outside(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = str(tmp_path / "state")
    with Runtime(state, node_types=ONE, durability="os") as rt:
        rt.schedule("nightly", math.sqrt, 9.0, cron="30 2 * * *", zone="Europe/Berlin")
        rt.schedule("each", math.sqrt, 9.0, every=3600)
        assert main(["pause", state, "schedule:each"]) == Exit.OK
        assert rt.schedules()[0].paused
        capsys.readouterr()
        assert main(["schedules", state]) == Exit.OK
        text = capsys.readouterr().out
        assert "30 2 * * * Europe/Berlin" in text
        assert "every 3600 s" in text
        assert "paused" in text
        assert main(["schedules", state, "--json"]) == Exit.OK
        told = json.loads(capsys.readouterr().out)
        assert [row["name"] for row in told["schedules"]] == ["each", "nightly"]
        assert told["schedules"][1]["upcoming"][0] == rt.schedules()[1].next_due.isoformat()  # type: ignore[union-attr]
        assert main(["unschedule", state, "each"]) == Exit.OK
        assert main(["unschedule", state, "each"]) == Exit.USAGE
        assert [schedule.name for schedule in rt.schedules()] == ["nightly"]
    capsys.readouterr()
    assert main(["schedules", state]) == Exit.OK
    assert "no engine is running" in capsys.readouterr().out
    assert main(["unschedule", state, "nightly"]) == Exit.ENVIRONMENT
    assert "no engine runs on" in capsys.readouterr().err


def test_what_is_known_is_printed() -> None:
    header, row, *notes = schedule_lines([STATUS], 5)
    assert header.split()[:3] == ["schedule", "when", "runs"]
    assert "1,200" in row
    assert "2026-12-01 12:00:00 UTC  2026-12-01 13:00:00 UTC, 2026-12-01 14:00:00 UTC" in row
    assert notes == [
        "job: the engine is full",
        "job: nothing was started for 2026-12-01 11:00:00 UTC: it was missed",
        "job: 2 due times wait for the run before to end",
    ]
    assert schedule_lines([], None) == ["no schedules"]
    fine = replace(STATUS, queued=0, trouble="", passed_due=None, passed_reason=None, last_due=None, last_state=None)
    assert len(schedule_lines([fine], 5)) == 2
