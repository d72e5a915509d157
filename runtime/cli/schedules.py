"""`schedules` and `unschedule`: what a state folder runs again and again, and when.

Schedules are read from the log, with or without a running engine, so beside one they are a moment behind. An interval
goes by the engine's monotonic clock; its next time is the one that the log and this machine's clock say.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from actors.protocol.errors import ConfigurationError
from actors.protocol.words import counted
from runtime.cli.console import Console
from runtime.cli.control import engine_of
from runtime.cli.exits import Exit
from runtime.cli.report import align
from runtime.schedules import ScheduleStatus, ask_unschedule, row_from_log
from runtime.storage.recovery import read_schedules

UPCOMING: Final = 3
"""Due times that are shown of each."""


def show_schedules(state: Path, console: Console, *, as_json: bool = False) -> Exit:
    """Read and print.

    Args:
        state: The state folder.
        console: Where to print.
        as_json: One JSON object instead of text.
    """
    found, pid = read_schedules(state)
    schedules = [ScheduleStatus.of(row_from_log(schedule, paused=paused)) for schedule, paused in found]
    if as_json:
        console.say(json.dumps({"owner_pid": pid, "schedules": [_plain(schedule) for schedule in schedules]}, indent=2))
    else:
        console.say(schedule_lines(schedules, pid))
    return Exit.OK


def unschedule(state: Path, name: str, console: Console, *, as_json: bool = False) -> Exit:
    """Have the engine that has the folder open end a schedule.

    Args:
        state: The state folder.
        name: Of the schedule.
        console: Where to print.
        as_json: One JSON object instead of text.

    Raises:
        ConfigurationError: There is none of this name. EngineUnavailable: No engine runs there.
    """
    answer: Mapping[str, Any] = engine_of(state)(*ask_unschedule(name))
    if not answer["changed"]:
        raise ConfigurationError(f"there is no schedule {name!a:.120}")
    console.say(json.dumps(answer) if as_json else f"{name} starts nothing any more")
    return Exit.OK


def schedule_lines(schedules: list[ScheduleStatus], pid: int | None) -> list[str]:
    """The schedules as text."""
    if not schedules:
        return ["no schedules"]
    header = ("schedule", "when", "runs", "starts next", "then due", "last due", "ended as", "runs so far")
    lines = align([header, *map(_row, schedules)], left=7)
    for schedule in schedules:
        passed, last = schedule.passed_due, schedule.last_due
        notes = [schedule.trouble] if schedule.trouble else []
        if passed is not None and (last is None or passed > last):
            notes.append(f"nothing was started for {_text(passed)}: {schedule.passed_reason}")
        if schedule.queued:
            notes.append(f"{counted(schedule.queued, 'due time waits', 'due times wait')} for the run before to end")
        lines += [f"{schedule.name}: {note}" for note in notes]
    if pid is None:
        lines.append("no engine is running: what is due meanwhile is judged when the folder is opened")
    return lines


def _row(schedule: ScheduleStatus) -> tuple[str, ...]:
    when = f"every {schedule.every:g} s" if schedule.cron is None else f"{schedule.cron} {schedule.zone}"
    if schedule.jitter:
        when += f" + up to {schedule.jitter:g} s"
    times = schedule.upcoming(UPCOMING)
    return (
        schedule.name,
        when,
        schedule.handler,
        "paused" if schedule.paused else _text(schedule.next_start),
        ", ".join(_text(later) for later in times[1:]) or "–",
        _text(schedule.last_due),
        schedule.last_state or "–",
        f"{schedule.started:,}",
    )


def _plain(schedule: ScheduleStatus) -> dict[str, Any]:
    plain = {field.name: getattr(schedule, field.name) for field in fields(schedule)}
    plain["upcoming"] = schedule.upcoming(UPCOMING)
    return {name: _jsonable(value) for name, value in plain.items()}


def _jsonable(value: Any) -> Any:
    if isinstance(value, list):
        return [_jsonable(one) for one in value]
    return value.isoformat() if isinstance(value, datetime) else value


def _text(when: datetime | None) -> str:
    return "–" if when is None else when.strftime("%Y-%m-%d %H:%M:%S %Z")
