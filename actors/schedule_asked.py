"""What is asked about schedules: to make one, to end one, to list them. Functions of the scheduler.

The same name with the same content changes nothing, so a program may say at each start what it wants; another content
replaces what was there, and begins anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from actors.policy.recurrence import jitter_of
from actors.protocol import limits
from actors.protocol.errors import ConfigurationError
from actors.protocol.graph import decode
from actors.schedule import Schedule, refuse_wrong_times, row_of
from actors.schedules import ahead_of, is_paused

if TYPE_CHECKING:
    from actors.scheduler import Scheduler

_ASKED: Final = ("name", "plan", "graph", "handler", "ends")


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
