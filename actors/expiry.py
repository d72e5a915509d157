"""Expiry: how nodes end that nobody started in time; functions of the scheduler, in a file of their own.

What waits (READY, BACKOFF, PARKED) fails with the kind "expired", and is not tried again. What a worker holds is taken
back by compare-and-set: either it was not claimed, comes back and ends then (`outcomes.on_returned`), or it runs and
nothing happens to it. A turn ends `EXPIRED_NODES_PER_TURN` of them; the others are set aside if their turn to run comes
before (`timetable.in_time`).

What did not end by its deadline (`actors.deadline`) ends here, too; there what runs is stopped.

A run has one timer, for the next of its nodes; what expires within `EXPIRY_GRAIN_NS` ends together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors import timetable
from actors.cancels import cancel_called
from actors.outcomes import end_expired, end_overdue
from actors.protocol import limits
from actors.protocol import messages as msg
from actors.run import Run
from actors.state_column import LEASED, WAITING

if TYPE_CHECKING:
    from actors.scheduler import Scheduler


def expire(scheduler: Scheduler) -> None:
    """End what expired, as much as a turn may take."""
    left = limits.EXPIRED_NODES_PER_TURN
    for no in scheduler.expiries.pop_due(scheduler.now_ns, left):
        run = scheduler.book.live.get(no)
        if run is None:
            continue
        if left > 0:
            left -= _expire_nodes(scheduler, run, left)
        if run.open:
            timetable.plan_expiry(scheduler, run, scheduler.now_ns + (limits.EXPIRY_GRAIN_NS if left > 0 else 0))


def _expire_nodes(scheduler: Scheduler, run: Run, count_max: int) -> int:
    """End at most so many nodes of a run; returns how many."""
    expires, now_ns = run.rare.expires, scheduler.now_ns
    ended, held = 0, []
    for node in [node for node, at in expires.items() if 0 < at <= now_ns]:
        if ended == count_max:
            break
        expires[node] = -expires[node]
        if run.state[node] == LEASED:
            held.append(node)
        elif run.state[node] in WAITING:
            ended += 1
            end_expired(scheduler, run, node)
    if held:
        scheduler.put(msg.StopLeases(run, held))
    return ended


def end_passed(scheduler: Scheduler) -> None:
    """End what did not end by its deadline, as much as a turn may take."""
    count_max = limits.EXPIRED_NODES_PER_TURN
    held: dict[int, list[int]] = {}
    for no, node in scheduler.deadlines.pop_passed(scheduler.now_ns, scheduler.wall_ns, count_max):
        run = scheduler.book.live.get(no)
        if run is None or node not in run.rare.deadlines:  # it goes again since, without one
            continue
        if run.state[node] in WAITING:
            end_overdue(scheduler, run, node)
            cancel_called(scheduler, run, node)
        elif run.state[node] == LEASED:
            run.own_rare().overdue.add(node)
            held.setdefault(no, []).append(node)
    for no, nodes in held.items():
        scheduler.put(msg.StopLeases(scheduler.book.live[no], nodes))
