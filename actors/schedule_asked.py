"""What is asked about schedules: to make one, to end one, to list them. Functions of the scheduler.

The same name with the same content changes nothing, so a program may say at each start what it wants; another content
replaces what was there, and begins anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from actors.policy.recurrence import Calendar, jitter_of
from actors.protocol import limits
from actors.protocol.errors import ConfigurationError
from actors.protocol.graph import decode
from actors.schedule import Schedule
from actors.schedules import ahead_of, is_paused

if TYPE_CHECKING:
    from actors.scheduler import Scheduler

GAPS_LOOKED_AT: Final = 10
_ASKED: Final = ("name", "plan", "graph", "handler", "expires_ns")


def answer(scheduler: Scheduler, args: Mapping[str, Any]) -> dict[str, Any]:
    """The reply to "schedules": makes one ("put"), ends one ("remove"), or tells of a page of them ("from").

    Raises:
        ConfigurationError: It cannot be.
    """
    by_name = scheduler.schedules.by_name
    if "put" in args:
        changed = _put(scheduler, args["put"])
        return {"changed": changed, "row": _row_of(scheduler, by_name[args["put"]["name"]])}
    if "remove" in args:
        schedule = by_name.get(args["remove"])
        if schedule is not None:
            scheduler.schedules.remove(scheduler, schedule)
        return {"changed": schedule is not None}
    names = sorted(name for name in by_name if name >= str(args.get("from") or ""))
    page = names[: limits.QUERY_ROWS_MAX]
    rows = [_row_of(scheduler, by_name[name]) for name in page]
    return {"rows": rows, "next": names[len(page)] if len(names) > len(page) else None}


def _put(scheduler: Scheduler, data: Any) -> bool:
    """Whether something changed."""
    if not isinstance(data, Mapping):
        raise ConfigurationError("schedule: it must be a dictionary")
    schedules = scheduler.schedules
    fresh = Schedule.of({name: data.get(name) for name in _ASKED})
    before = schedules.by_name.get(fresh.name)
    if before is not None and before.same(fresh):
        return False
    if before is None and len(schedules.by_name) >= limits.SCHEDULES_MAX:
        raise ConfigurationError(f"schedule: there are {limits.SCHEDULES_MAX:,} already")
    for kind in decode(fresh.graph)[0]["kinds"]:
        if kind["node_type"] not in scheduler.ready:
            raise ConfigurationError(f"schedule: there is no node type {kind['node_type']!r}")
    refuse_wrong_times(fresh, schedules.calendar, scheduler.wall_ns)
    schedules.enter(scheduler, fresh)
    return True


def refuse_wrong_times(schedule: Schedule, calendar: Calendar, wall_ns: int) -> None:
    """Refuse what is never due, and jitter that would mix up its runs.

    Raises:
        ConfigurationError: So it is; or its expression or zone cannot be read.
    """
    plan = schedule.plan
    due = plan.next_ns(calendar, wall_ns)
    if due is None:
        raise ConfigurationError(f"schedule: {plan.words()} is never due")
    for _ in range(GAPS_LOOKED_AT if plan.jitter_ns else 0):
        following = plan.next_ns(calendar, due)
        if following is None:
            return
        if following - due < plan.jitter_ns:
            raise ConfigurationError(
                f"schedule: jitter is longer than the {(following - due) / 1e9:g} s between two due times"
            )
        due = following


def _row_of(scheduler: Scheduler, schedule: Schedule) -> dict[str, Any]:
    """What a running engine knows of a schedule."""
    due, starts = schedule.next_ns, None
    if due is not None:
        due += ahead_of(scheduler, schedule)
        starts = due + jitter_of(schedule.name, due, schedule.plan.jitter_ns)
    return {
        **row_of(schedule),
        "paused": is_paused(scheduler, schedule),
        "next_due_ns": due,
        "next_start_ns": starts,
        "trouble": schedule.trouble,
    }


def row_of(schedule: Schedule) -> dict[str, Any]:
    """What is told of a schedule, but for what only a running engine knows."""
    return {
        "name": schedule.name,
        "plan": schedule.plan.to_json(),
        "handler": schedule.handler,
        "created_ns": schedule.created_ns,
        "judged_ns": schedule.judged_ns,
        "started": schedule.started,
        "open": len(schedule.open),
        "queued": len(schedule.queued),
        "last": schedule.last,
        "passed": schedule.passed,
    }
