"""Schedules as a program asks for them and is told of them: `rt.schedule`, `rt.schedules`, `rt.unschedule`.

What is asked for becomes a request here, checked as far as it can be without the engine, all problems at once; the
blocking and the asyncio face share that. Decided is in `actors.schedules`; expressions and the rule for daylight saving
are those of `runtime.host.calendar`.
"""

from __future__ import annotations

import binascii
import functools
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, Literal, Self, TypeAlias

from actors.policy.recurrence import jitter_of
from actors.protocol import limits
from actors.protocol.errors import ConfigurationError
from actors.protocol.moments import NS_PER_S, moment
from actors.protocol.states import RunState
from actors.schedule import Schedule, refuse_wrong_times, row_of
from runtime.dispatch import Dispatch, with_partial
from runtime.flow import Flow
from runtime.host.calendar import ZoneCalendar, zone_of
from runtime.items import BlobNeeded, encode_call, graph_of_one, shape_of
from runtime.once import ONCE_OPTIONS
from runtime.registry import DEFAULT_OPTIONS, Options, Task, positional_names
from runtime.units import EPOCH, any_to_ns, datetime_to_ns
from runtime.views import Request

CatchUp = Literal["latest", "none", "all"]
Overlap = Literal["skip", "queue", "cancel", "allow"]

_STAMPED: Final = re.compile(r".+@(\d{8}T\d{6})(?:\.(\d{1,9}))?Z(?:~\d+)?", re.DOTALL)
_OF_SUBMIT: Final = ONCE_OPTIONS | {"run_id", "delay", "due"}
_LARGE: Final = (
    f"the arguments of a schedule take at most {limits.SCHEDULE_BYTES_MAX:,} bytes: pass the path or key of what is "
    "large"
)


@dataclass(frozen=True, slots=True)
class ScheduleStatus:
    """A schedule at one moment. Times are datetimes in its zone (UTC for intervals), None where there is none.

    `started` counts its runs, `running` are those that have not ended, `queued` the due times that wait for one of them
    to end. `next_start` is `next_due` plus the jitter. `last_due`, `last_run_id` and `last_state` are of the latest
    run; `passed_due` and `passed_reason` of the latest due time that started none. `trouble` says why it cannot start
    anything now, empty when it can.
    """

    name: str
    handler: str
    cron: str | None
    every: float | None
    zone: str
    catch_up: CatchUp
    overlap: Overlap
    jitter: float
    started: int
    running: int
    queued: int
    paused: bool
    next_due: datetime | None
    next_start: datetime | None
    last_due: datetime | None
    last_run_id: str | None
    last_state: RunState | None
    passed_due: datetime | None
    passed_reason: str | None
    trouble: str

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Self:
        """From a row of the engine's answer, or of what the log says.

        Args:
            row: See `actors.schedule.row_of`.
        """
        plan, last, passed = row["plan"], row["last"], row["passed"]
        zone = plan["zone"]
        state = None
        if last is not None:
            state = RunState(last[2]) if last[2] else RunState.RUNNING
        every_ns = plan.get("every_ns")
        return cls(
            name=row["name"],
            handler=row["handler"],
            cron=plan.get("cron"),
            every=None if every_ns is None else every_ns / NS_PER_S,
            zone=zone,
            catch_up=plan["catch_up"],
            overlap=plan["overlap"],
            jitter=plan["jitter_ns"] / NS_PER_S,
            started=row["started"],
            running=row["open"],
            queued=row["queued"],
            paused=row["paused"],
            next_due=_datetime(row["next_due_ns"], zone),
            next_start=_datetime(row["next_start_ns"], zone),
            last_due=_datetime(last[0], zone) if last else None,
            last_run_id=last[1] if last else None,
            last_state=state,
            passed_due=_datetime(passed[0], zone) if passed else None,
            passed_reason=passed[1] if passed else None,
            trouble=row["trouble"],
        )

    def upcoming(self, count: int = 5) -> list[datetime]:
        """The next due times, without jitter, if nobody sets the clock.

        Args:
            count: How many.

        Returns:
            At most so many.
        """
        found: list[datetime] = []
        due = self.next_due
        calendar = ZoneCalendar()
        while due is not None and len(found) < count:
            found.append(due)
            if self.cron is None:
                due += timedelta(seconds=self.every or 0.0)
            else:
                due = _datetime(calendar.next_ns(self.cron, self.zone, datetime_to_ns(due)), self.zone)
        return found


def due_in(run_id: str) -> datetime | None:
    """The due time in the name of a run that a schedule started; None in other names.

    Args:
        run_id: As in "nightly@20261025T003000.5Z" or "nightly@20261025T003000Z~2".
    """
    found = _STAMPED.fullmatch(run_id)
    if found is None:
        return None
    day, part = found.groups()
    try:
        when = datetime.strptime(f"{day}+0000", "%Y%m%dT%H%M%S%z")
    except ValueError:
        return None
    return when + timedelta(microseconds=int((part or "")[:6].ljust(6, "0")))


def ask_schedule(
    dispatch: Dispatch,
    name: str,
    fn: Any,
    args: tuple[Any, ...],
    options: dict[str, Any],
    plan: Mapping[str, Any],
) -> Request:
    """The request to make a schedule.

    Args:
        dispatch: Knows tasks and node types.
        name: Of the schedule.
        fn: A task, function, partial or flow.
        args: Of its handler.
        options: Task options, and keyword arguments of the handler.
        plan: `cron`, `every`, `zone`, `catch_up`, `overlap` and `jitter` as they were given.

    Raises:
        ConfigurationError: Values are out of range; all problems are named. HandlerRefused, PayloadError, ...: what it
            runs cannot be run.
    """
    every, jitter = any_to_ns(plan["every"]), any_to_ns(plan["jitter"])
    wire = {**plan, "every_ns": every, "jitter_ns": jitter}
    del wire["every"], wire["jitter"]
    problems: list[str] = []
    graph, handler = b"", ""
    ends: Ends = ()
    try:
        graph, handler, ends = _runs(dispatch, fn, args, options)
    except ConfigurationError as wrong:
        problems.append(wrong.message)
    asked = {
        "name": name,
        "plan": wire,
        "graph": binascii.b2a_base64(graph or graph_of_one({"name": ""}, b"null", []), newline=False).decode(),
        "handler": handler or "-",
        "ends": ends,
    }
    try:
        refuse_wrong_times(Schedule.of(asked), ZoneCalendar(), time.time_ns())
    except ConfigurationError as wrong:
        problems.append(wrong.message.removeprefix("schedule: "))
        problems += _unreadable(plan)
    if problems:
        raise ConfigurationError(f"schedule: {'; '.join(dict.fromkeys(problems))}")
    return "schedules", {"put": asked}


def ask_schedules(first: str = "") -> Request:
    """The question which there are: a page, from this name on."""
    return "schedules", {"from": first}


def ask_unschedule(name: str) -> Request:
    """The request to end a schedule."""
    return "schedules", {"remove": name}


def row_from_log(schedule: Schedule, *, paused: bool) -> dict[str, Any]:
    """What the log says of a schedule, with its next due time by this machine's clock.

    Args:
        schedule: As it was read.
        paused: Whether it is.
    """
    due, starts, trouble = None, None, ""
    plan, judged_ns, now_ns = schedule.plan, schedule.judged_ns, time.time_ns()
    try:
        due = plan.next_ns(ZoneCalendar(), judged_ns)
        if due is not None and due + plan.jitter_ns + limits.SCHEDULE_LATE_NS < now_ns:
            trouble = f"it was due at {moment(due)}, and no engine has judged that yet"
            every = plan.every_ns
            due = plan.next_ns(ZoneCalendar(), now_ns if every is None else now_ns - (now_ns - judged_ns) % every)
    except ConfigurationError as unreadable:
        trouble = unreadable.message
    if due is not None:
        starts = due + jitter_of(schedule.name, due, schedule.plan.jitter_ns)
    return {**row_of(schedule), "paused": paused, "next_due_ns": due, "next_start_ns": starts, "trouble": trouble}


Ends: TypeAlias = tuple[int | None, ...]


def _runs(dispatch: Dispatch, fn: Any, args: tuple[Any, ...], options: dict[str, Any]) -> tuple[bytes, str, Ends]:
    """What is run, as a container; what to call it; and after how long it expires, and must have ended."""
    if isinstance(fn, Flow):
        if args or options:
            raise ConfigurationError("a flow takes no arguments; options belong to its tasks or to Flow(name, ...)")
        DEFAULT_OPTIONS.with_changes(dispatch.changes).without_expiry("flows")
        if fn.has_large_values:
            raise ConfigurationError(_LARGE)
        return fn.container(dispatch.client.codec, "", dispatch.config.node_type_for), f"flow {fn.name}", ()
    fn, args, named = with_partial(fn, args, {}) if type(fn) is functools.partial else (fn, args, {})
    given, rest = _split(fn, options)
    plan = (dispatch.with_options(given) if given else dispatch).plan(fn)
    kwargs = {**named, **rest}
    kind = plan.kind(shape_of(args, kwargs))
    try:
        item = encode_call(dispatch.codec, args, kwargs, pickle=plan.pickle, blob_key="?")
    except BlobNeeded:
        raise ConfigurationError(_LARGE) from None
    return graph_of_one(kind, item, []), kind["handler"], plan.ends


def _split(fn: Callable[..., Any], options: dict[str, Any]) -> tuple[Options, dict[str, Any]]:
    """Task options, and what is the handler's own."""
    names, takes_any = positional_names(fn.fn if isinstance(fn, Task) else fn)
    taken = set(options) if takes_any else names
    given = {name: value for name, value in options.items() if name in Options.__annotations__ and name not in taken}
    rest = {name: value for name, value in options.items() if name not in given}
    if strange := sorted(name for name in rest if name in _OF_SUBMIT and name not in taken):
        raise ConfigurationError(f"{', '.join(strange)}: for submit only; when a schedule's runs start, it says itself")
    return given, rest  # type: ignore[return-value]  # a subset of Options


def _unreadable(plan: Mapping[str, Any]) -> list[str]:
    """What is wrong with zone and expression, whatever else is."""
    found = []
    for cron, zone in ((None, plan["zone"]), (plan["cron"], "UTC")):
        try:
            if isinstance(zone, str):
                zone_of(zone)
            if isinstance(cron, str):
                ZoneCalendar().next_ns(cron, "UTC", 0)
        except ConfigurationError as wrong:
            found.append(wrong.message.removeprefix("schedule: "))
    return found


def _datetime(wall_ns: int | None, zone: str) -> datetime | None:
    if wall_ns is None:
        return None
    return (EPOCH + timedelta(microseconds=wall_ns // 1000)).astimezone(zone_of(zone))
