"""Timetable: when nodes may start, and until when; functions of the scheduler, in a file of their own.

A node that waits for its time is in state BACKOFF, be it for a retry, a delay or a due time. Two clocks measure that:

- An interval (a retry's wait, `delay=`, `expires=`) runs on the monotonic clock: `Scheduler.timers`, `expiries`. That
  somebody sets the wall clock, or that the machine sleeps, neither shortens nor lengthens it.
- A time of day (`due=`) is compared with the wall clock as it is now: `Scheduler.appointments`. The engine looks at
  that clock at least every `CLOCK_LOOK_NS` while somebody has an appointment, because nobody tells when it is set.

Nothing of it is logged but the submission itself. What is due follows from its row and the clock, so no crash between
two structures can lose a node: it is delayed or ready, and recovery works out which.

Expiry. No attempt starts once the time is over: a node that expired is set aside when its turn comes, and ends in
`actors.expiry`. What runs by then is left alone. `Rare.expires` holds the monotonic time, and its negative once the
scheduler has looked at it.

Known limits: a restart knows the wall clock only, so an interval is as long as that clock says if somebody sets it
while the engine is down, or sets it back and has the engine started again.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from actors import deadline
from actors.protocol import effects as fx
from actors.protocol import limits
from actors.run import Run
from actors.state_column import BACKOFF, READY, where

if TYPE_CHECKING:
    from actors.scheduler import Scheduler

NO_RUN: Final = 0
"""In the place of a run's number, in the key of a timer: the timer is one of `actors.schedules`."""
PLAIN_COLUMNS: Final = 3
"""A row of a submission has these; those behind them are its times."""


def is_later(row: Sequence[Any], wall_ns: int) -> bool:
    """Whether a submitted task waits long enough that its bundle should not wait for it, results and all."""
    return len(row) > PLAIN_COLUMNS and row[3] is not None and row[3] > wall_ns + limits.BUNDLE_WAIT_NS


def enter(run: Run, rows: Sequence[Sequence[Any]], wall_ns: int) -> None:
    """The times of a new run's nodes, by its rows: [_, _, _, due, expires, whether due is a time of day, deadline,
    whether that is one].

    Times are on the wall clock, or null; columns at the end may be missing. `arm` must follow.
    """
    for node, row in enumerate(rows):
        if len(row) <= PLAIN_COLUMNS:
            continue
        due, expires, appointed, ends, ends_at = (*row[PLAIN_COLUMNS:], None, None, None, None, None)[:5]
        if due is not None and due > wall_ns:
            run.move(node, BACKOFF)
            run.own_rare().due[node] = due
            if appointed:
                run.own_rare().appointed.add(node)
        if expires is not None:
            run.own_rare().expires[node] = expires
        if ends is not None:
            deadline.enter(run, node, ends, is_moment=bool(ends_at))


def arm(scheduler: Scheduler, run: Run) -> None:
    """Arm the timers of a run that was just entered or recovered; what expired by now is set aside."""
    rare, key = run.rare, run.no
    shift_ns = scheduler.now_ns - scheduler.wall_ns
    for node in where(run.state, BACKOFF):
        retry = rare.backoff_until.get(node)
        if retry is None and node in rare.appointed:
            scheduler.appointments.set((key, node), rare.due[node])
        else:  # not cut off at now: what is over is due in its order
            due = rare.due.get(node, 0) if retry is None else retry
            scheduler.timers.set((key, node), due + shift_ns)
    if rare.debounce is not None:
        rare.debounce.until_ns += shift_ns
    if rare.deadlines:
        deadline.arm(scheduler, run)
    if rare.expires:
        expires = rare.expires
        for node in expires:
            expires[node] = max(1, expires[node] + shift_ns)
        plan_expiry(scheduler, run)
    in_time(scheduler, run, where(run.state, READY))


def forget(scheduler: Scheduler, run: Run) -> None:
    """The run is over: nothing of it expires any more."""
    if run.rare.expires:
        scheduler.expiries.cancel(run.no)
    if run.rare.deadlines:
        deadline.forget(scheduler, run)


def disarm(scheduler: Scheduler, run: Run, node: int) -> None:
    """This node does not wait for its time any more."""
    key = (run.no, node)
    if not scheduler.timers.cancel(key):
        scheduler.appointments.cancel(key)


def fire(scheduler: Scheduler) -> None:
    """Queue what is due: at most as much as a turn may take of each clock, in order of time."""
    count_max = limits.DUE_NODES_PER_TURN
    scheduler.schedules.look(scheduler)
    places = scheduler.timers.pop_due(scheduler.now_ns, count_max)
    places += scheduler.appointments.pop_due(scheduler.wall_ns, count_max)
    for no, found in groupby(places, key=itemgetter(0)):
        if no == NO_RUN:
            scheduler.schedules.ripen(scheduler, [slot for _, slot in found])
            continue
        run = scheduler.book.live.get(no)
        if run is None:
            continue
        nodes = [node for _, node in found if run.state[node] == BACKOFF]
        for node in nodes:
            run.move(node, READY)
            if run.rare.backoff_until:
                run.rare.backoff_until.pop(node, None)
        scheduler.queue(run, nodes)


def wake(scheduler: Scheduler) -> None:
    """Ask to be woken for what is next on any of the clocks."""
    deadlines = scheduler.deadlines
    intervals = (scheduler.timers, scheduler.expiries, deadlines.intervals)
    times = [ns for timers in intervals if (ns := timers.next_ns()) is not None]
    for appointments in (scheduler.appointments, deadlines.moments):
        if (appointment_ns := appointments.next_ns()) is not None:
            times.append(scheduler.now_ns + min(appointment_ns - scheduler.wall_ns, limits.CLOCK_LOOK_NS))
    if times:
        scheduler.put(fx.WakeAt(min(times)))


# --- expiry -------------------------------------------------------------------------------------------------------


def has_expired(scheduler: Scheduler, run: Run, node: int) -> bool:
    """Whether no attempt of this node may start any more."""
    expires_ns = run.rare.expires.get(node)
    return expires_ns is not None and abs(expires_ns) <= scheduler.now_ns


def is_late(scheduler: Scheduler, run: Run, node: int) -> bool:
    """Whether this node has expired, or its deadline has passed."""
    return has_expired(scheduler, run, node) or deadline.passed(scheduler, run, node)


def in_time(scheduler: Scheduler, run: Run, nodes: Sequence[int]) -> Sequence[int]:
    """Those of these nodes, which left the queue, that may start; the others wait for their end out of the queue."""
    if not (run.rare.expires or run.rare.deadlines):
        return nodes
    late = {node for node in nodes if is_late(scheduler, run, node)}
    if not late:
        return nodes
    run.stirred = True
    for node in late:
        if run.state[node] == READY:
            run.move(node, BACKOFF)
    return [node for node in nodes if node not in late]


def plan_expiry(scheduler: Scheduler, run: Run, earliest_ns: int = 0) -> None:
    """Arm the run's one timer for the next of its nodes that expires."""
    due = min((at for at in run.rare.expires.values() if at > 0), default=None)
    if due is None:
        scheduler.expiries.cancel(run.no)
    else:
        scheduler.expiries.set(run.no, max(due, earliest_ns))


def wait_ns(scheduler: Scheduler, run: Run, node: int) -> int:
    """How long this node, which is in BACKOFF, still waits for its time."""
    key = (run.no, node)
    timer = scheduler.timers.due_ns(key)
    if timer is not None:
        return max(0, timer - scheduler.now_ns)
    appointment = scheduler.appointments.due_ns(key)
    return 0 if appointment is None else max(0, appointment - scheduler.wall_ns)
