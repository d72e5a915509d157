"""Total deadlines: by when a task must have ended, over all of its attempts and waits.

A deadline covers a task's delay, its turn in the queue, its attempts and the waits between them. When it passes, what
waits (READY, BACKOFF, PARKED) fails with the kind "deadline". What a worker holds is taken back by compare-and-set, as
for a cancel: either it was not claimed, and ends then, or it runs, and is stopped by the same escalation as at a
timeout. A retry that would start later is not waited for. Nothing that ended this way is tried again. A result that
arrives before its attempt was stopped counts.

Two clocks, as for `delay=` and `due=` (`actors.timetable`): a deadline in seconds is an interval and runs on the
monotonic clock; one that is a time of day is compared with the wall clock as it is, at least every `CLOCK_LOOK_NS`.
The row of the submission has both as times of the wall clock, so a restart needs nothing else.

`Rare.deadlines` holds monotonic times once `arm` has seen them; for times of the day that is what workers are told,
and `Rare.moments` is what counts. `Rare.overdue` are leased nodes whose deadline has passed. Here are the facts; what
follows from them is in `actors.expiry` and `actors.outcomes`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from actors.policy.timers import Timers
from actors.protocol.moments import moment
from actors.protocol.states import FailureKind
from actors.run import Run
from actors.state_column import TERMINAL_FIRST, TERMINAL_LAST

if TYPE_CHECKING:
    from actors.scheduler import Scheduler


class Deadlines:
    """Those of all live runs, by run number and node: intervals on the monotonic clock, moments on the wall clock."""

    def __init__(self) -> None:
        self.intervals: Timers[tuple[int, int]] = Timers()
        self.moments: Timers[tuple[int, int]] = Timers()

    def __bool__(self) -> bool:
        return bool(self.intervals or self.moments)

    def pop_passed(self, now_ns: int, wall_ns: int, count_max: int) -> list[tuple[int, int]]:
        """Take those that passed by now, at most so many."""
        found = self.intervals.pop_due(now_ns, count_max)
        return found + self.moments.pop_due(wall_ns, count_max - len(found))


def enter(run: Run, node: int, at_ns: int, *, is_moment: bool) -> None:
    """A node of a new run has this deadline, on the wall clock. `arm` must follow."""
    rare = run.own_rare()
    rare.deadlines[node] = at_ns
    if is_moment:
        rare.moments[node] = at_ns


def arm(scheduler: Scheduler, run: Run) -> None:
    """Arm the timers of a run that was just entered or recovered."""
    shift_ns = scheduler.now_ns - scheduler.wall_ns
    rare = run.rare
    for node, at_ns in list(rare.deadlines.items()):
        if TERMINAL_FIRST <= run.state[node] <= TERMINAL_LAST:
            del rare.deadlines[node]
            continue
        rare.deadlines[node] = at_ns + shift_ns
        if node in rare.moments:
            scheduler.deadlines.moments.set((run.no, node), rare.moments[node])
        else:
            scheduler.deadlines.intervals.set((run.no, node), at_ns + shift_ns)


def forget(scheduler: Scheduler, run: Run) -> None:
    """The run is over."""
    for node in run.rare.deadlines:
        if not scheduler.deadlines.intervals.cancel((run.no, node)):
            scheduler.deadlines.moments.cancel((run.no, node))


def left_ns(scheduler: Scheduler, run: Run, node: int) -> int | None:
    """How long this node still has, negative when its deadline has passed; None when it has none."""
    at_ns = run.rare.deadlines.get(node)
    if at_ns is None:
        return None
    moment_ns = run.rare.moments.get(node)
    return at_ns - scheduler.now_ns if moment_ns is None else moment_ns - scheduler.wall_ns


def passed(scheduler: Scheduler, run: Run, node: int, later_ns: int = 0) -> bool:
    """Whether the node's deadline has passed, or will have after so long. Of what is leased it stays so, whatever the
    clock on the wall says then: it is being stopped."""
    if node in run.rare.overdue:
        return True
    left = left_ns(scheduler, run, node)
    return left is not None and left <= later_ns


def failure(scheduler: Scheduler, run: Run, node: int) -> dict[str, Any]:
    """How a node ends that waited when its deadline passed."""
    tries = run.rare.attempts.get(node, 0)
    so_far = f", after {tries} of its attempts failed" if tries else ""
    text = f"it had not ended by {moment_of(scheduler, run, node)}, its deadline{so_far}"
    return {"kind": str(FailureKind.DEADLINE), "type": "", "message": text, "traceback": ""}


def failure_after(
    scheduler: Scheduler, run: Run, node: int, attempt: int, last: dict[str, Any], why: str
) -> dict[str, Any]:
    """How a node ends whose attempt failed, when its next one would start too late. What the attempt said is kept."""
    by = moment_of(scheduler, run, node)
    text = f"attempt {attempt} failed ({why}), and the next would start after {by}, the deadline"
    return {**last, "kind": str(FailureKind.DEADLINE), "type": "", "message": text}


def moment_of(scheduler: Scheduler, run: Run, node: int) -> str:
    """The node's deadline, in words."""
    return moment(scheduler.wall_ns + (left_ns(scheduler, run, node) or 0))
