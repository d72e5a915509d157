"""Schedules: cron expressions and intervals that start runs, durably; the scheduler's, in a file of its own.

    due ──► judged: start a run now, queue it, or pass it over ──► drained: one after the other, as `overlap` says

**One run for each due time.** The record that submits a run names its schedule and due time, so run and progress are
one record, and no crash comes between. What is passed over or queued is a SCHEDULE record. A run is called
"NAME@20261025T003000Z" by its due time in UTC ("~2" is added where that name is taken).

**Clocks.** Expressions are compared with the wall clock as it is (`Scheduler.appointments`), intervals run on the
monotonic one (`Scheduler.timers`). A clock that is set forward makes times due, and catch-up decides about them; one
that is set back by up to `limits.SCHEDULE_BACK_NS` starts nothing again; by more, expressions go by the new time.

**Overlap**, when a time comes while a run of the schedule is open: "skip" passes it over, "queue" starts it after that
run, "cancel" cancels that run and starts it when it has ended, "allow" starts it. What is caught up by "all" is not
skipped but queued.

What cannot start for another reason (the engine is full, there are too many kinds) waits in the queue and is tried once
a second. While a schedule is paused ("schedule:NAME"), times are passed over and what is queued waits.

Limits: `limits.SCHEDULE*`. Concurrency: none; the scheduler's. Known limit: a restart knows the wall clock only, so an
interval is as long as that clock says if somebody sets it while the engine is down.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Container, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import orjson

from actors import admission, timetable
from actors.policy.recurrence import Calendar, jitter_of, ripe
from actors.protocol import effects as fx
from actors.protocol import limits
from actors.protocol import messages as msg
from actors.protocol.errors import CallerError, ConfigurationError, ProtocolError
from actors.protocol.graph import decode, encode
from actors.protocol.moments import moment, stamp
from actors.protocol.records import RecordType
from actors.run import Run
from actors.schedule import Judged, Schedule

if TYPE_CHECKING:
    from actors.scheduler import Scheduler

SESSION: Final = "schedules"
"""Whose submissions the runs of schedules are. No face is called so."""
TIMER_NO: Final = timetable.NO_RUN
JUDGED_PER_TURN: Final = 16
"""Schedules that a turn judges: about 100 us each with a run to start (rule R5)."""
_GRAIN_NS: Final = 1_000_000
"""Intervals begin at a whole millisecond, so that their runs have short names."""
_STEP_NS: Final = 50_000_000
"""A greater change of the wall clock against the monotonic one is somebody setting it; see `runtime.host.clock`."""
_MISSED: Final = "it was missed"
_PAUSED: Final = "the schedule was paused"
_OPEN: Final = "the run before was not over"
_FULL: Final = "too many due times were queued"


class NoCalendar:
    """Stands where nobody reads expressions: what is judged by one is in trouble, and nothing is lost."""

    def next_ns(self, expression: str, zone: str, after_ns: int) -> int | None:
        """Refuse."""
        raise ConfigurationError("this engine reads no cron expressions")


class Schedules:
    """See the module. `calendar` reads the expressions; whoever makes the scheduler sets it."""

    def __init__(self) -> None:
        self.calendar: Calendar = NoCalendar()
        self.by_name: OrderedDict[str, Schedule] = OrderedDict()
        """In the order of the records that hold them."""
        self.by_run: dict[int, str] = {}
        """Open runs, and what started them."""
        self._by_slot: dict[int, Schedule] = {}
        self._next_slot = 0
        self._ahead_ns = 0

    # --- what is there --------------------------------------------------------------------------------------------

    def enter(self, scheduler: Scheduler, schedule: Schedule) -> None:
        """Begin with a new schedule, in the place of the one of its name if there is one; and log it."""
        before = self.by_name.get(schedule.name)
        if before is not None:
            self._disarm(scheduler, before)
        schedule.created_ns = schedule.judged_ns = scheduler.wall_ns // _GRAIN_NS * _GRAIN_NS
        schedule.position_ns = schedule.judged_ns - (0 if schedule.plan.every_ns is None else _ahead(scheduler))
        self._enter(schedule)
        self._log(scheduler, schedule)
        self._arm(scheduler, schedule)
        timetable.wake(scheduler)

    def remove(self, scheduler: Scheduler, schedule: Schedule) -> None:
        """End it, and log that. Runs that it started go on."""
        self._leave(schedule)
        self._disarm(scheduler, schedule)
        scheduler.log(RecordType.SCHEDULE, orjson.dumps({"gone": schedule.name, "at_ns": scheduler.wall_ns}))

    # --- what happens ---------------------------------------------------------------------------------------------

    def ripen(self, scheduler: Scheduler, slots: Sequence[int]) -> None:
        """The timers of these went off. While the engine drains nothing is judged: a run would start late, unjudged."""
        if scheduler.draining:
            return
        for slot in slots[:JUDGED_PER_TURN]:
            if (schedule := self._by_slot.get(slot)) is not None:
                self._judge(scheduler, schedule)
                self._drain(scheduler, schedule)
                self._arm(scheduler, schedule)
        for slot in slots[JUDGED_PER_TURN:]:
            scheduler.timers.set((TIMER_NO, slot), scheduler.now_ns)

    def ended(self, scheduler: Scheduler, run: Run) -> None:
        """A run that a schedule started is over: what is queued may follow, in a turn of its own."""
        schedule = self.by_name.get(self.by_run.pop(run.no))
        if schedule is None:
            return
        schedule.ended(run.no, run.key, str(run.run_state()))
        if schedule.queued:
            scheduler.timers.set((TIMER_NO, schedule.slot), scheduler.now_ns)
            scheduler.put(fx.WakeAt(scheduler.now_ns))

    def look(self, scheduler: Scheduler) -> None:
        """See whether somebody set the wall clock back."""
        ahead_ns = _ahead(scheduler)
        if ahead_ns < self._ahead_ns:
            for schedule in self.by_name.values():
                if schedule.plan.every_ns is None and self._turned_back(scheduler, schedule):
                    self._arm(scheduler, schedule)
        self._ahead_ns = ahead_ns

    @staticmethod
    def _turned_back(scheduler: Scheduler, schedule: Schedule) -> bool:
        if schedule.judged_ns - scheduler.wall_ns <= limits.SCHEDULE_BACK_NS:
            return False
        schedule.judged_ns = schedule.position_ns = scheduler.wall_ns
        return True

    def _judge(self, scheduler: Scheduler, schedule: Schedule) -> None:
        """Decide about what is due by now."""
        plan, ahead = schedule.plan, ahead_of(scheduler, schedule)
        try:
            found = ripe(plan, schedule.name, self.calendar, schedule.position_ns, _clock(scheduler, schedule), ahead)
        except ConfigurationError as unreadable:
            schedule.trouble = unreadable.message
            return
        schedule.trouble = ""
        if found.until_ns is None:
            return
        until, passed = found.until_ns + ahead, None
        queued: list[int] = []
        only, starts = False, 0
        if is_paused(scheduler, schedule):
            passed = (until, _PAUSED)
        else:
            passed = (until, _MISSED) if found.dropped else None
            for place, due in enumerate((*found.missed, *found.on_time)):
                label = due + ahead
                free = plan.overlap == "allow" or not schedule.open
                first = not (queued or schedule.queued) and starts < limits.SCHEDULE_STARTS_PER_TURN
                if free and first and self._start(scheduler, schedule, label):
                    starts += 1
                    continue
                caught_up = plan.catch_up == "all" and place < len(found.missed)
                if free or caught_up or plan.overlap == "queue":
                    if len(queued) + len(schedule.queued) < limits.SCHEDULE_QUEUED_MAX:
                        queued.append(label)
                    else:
                        passed = (label, _FULL)
                elif plan.overlap == "cancel":
                    queued, only = [label], True
                else:
                    passed = (label, _OPEN)
        if queued or only or passed or schedule.judged_ns != until:
            judged = Judged(until, tuple(queued), only, passed)
            schedule.judge(judged)
            told = {"judged": [schedule.name, *judged], "at_ns": scheduler.wall_ns}
            scheduler.log(RecordType.SCHEDULE, orjson.dumps(told))
        schedule.position_ns = found.until_ns
        if only:
            self._cancel_open(scheduler, schedule)

    def _cancel_open(self, scheduler: Scheduler, schedule: Schedule) -> None:
        for no in sorted(schedule.open):
            run = scheduler.book.live.get(no)
            if run is not None and not run.cancel_asked:
                scheduler.repeat(msg.CancelAsked(SESSION, 0, run.key, None))

    def _drain(self, scheduler: Scheduler, schedule: Schedule) -> None:
        """Start what is queued, as far as it may."""
        if is_paused(scheduler, schedule):
            return
        for _ in range(limits.SCHEDULE_STARTS_PER_TURN):
            if not schedule.queued or (schedule.open and schedule.plan.overlap != "allow"):
                return
            if not self._start(scheduler, schedule, schedule.queued[0]):
                return

    def _start(self, scheduler: Scheduler, schedule: Schedule, due_ns: int) -> bool:
        """Submit the run of a due time. False: it cannot be now."""
        if scheduler.full:
            schedule.trouble = "the engine is full"
            return False
        header, columns = decode(schedule.graph)
        key = first = f"{schedule.name}@{stamp(due_ns)}"
        number = 2
        while scheduler.book.get(key) is not None:
            key, number = f"{first}~{number}", number + 1
        header |= {"run_id": key, "schedule": [schedule.name, due_ns]}
        if schedule.ends:
            expires, deadline = (None if ns is None else scheduler.wall_ns + ns for ns in schedule.ends)
            header["times"] = [None, expires, None, deadline]
        for kind in header["kinds"]:
            scheduler.giving.open(kind["node_type"])  # one that is gone since has a queue, where its tasks are seen
        try:
            raw = encode(columns, header)
            run = admission.enter_graph(scheduler, SESSION, scheduler.book.next_run_no, header, columns, raw)
        except CallerError as refused:
            schedule.trouble = refused.message
            return False
        schedule.trouble = ""
        self.started(run, header)
        scheduler.note(run, -1, "scheduled", f"by {schedule.name!r}, due at {moment(due_ns)}")
        admission.begin_graph(scheduler, run)
        return True

    # --- timers ---------------------------------------------------------------------------------------------------

    def _arm(self, scheduler: Scheduler, schedule: Schedule) -> None:
        """Have it looked at when it is due next; sooner, if something that is queued may start without a run ending."""
        key, plan = (TIMER_NO, schedule.slot), schedule.plan
        self._disarm(scheduler, schedule)
        try:
            due = schedule.next_ns = plan.next_ns(self.calendar, schedule.position_ns)
        except ConfigurationError as unreadable:
            schedule.trouble, schedule.next_ns, due = unreadable.message, None, None
        soon = limits.CLOCK_LOOK_NS if schedule.trouble or is_paused(scheduler, schedule) else 0
        again_ns = None
        if (schedule.queued and (plan.overlap == "allow" or not schedule.open)) or (schedule.trouble and due is None):
            again_ns = scheduler.now_ns + soon
        if due is not None:
            due += jitter_of(schedule.name, due + ahead_of(scheduler, schedule), plan.jitter_ns)
            if plan.every_ns is None:
                scheduler.appointments.set(key, due)
            elif again_ns is None or due < again_ns:
                again_ns = due
        if again_ns is not None:
            scheduler.timers.set(key, again_ns)

    @staticmethod
    def _disarm(scheduler: Scheduler, schedule: Schedule) -> None:
        scheduler.timers.cancel((TIMER_NO, schedule.slot))
        scheduler.appointments.cancel((TIMER_NO, schedule.slot))

    # --- the log --------------------------------------------------------------------------------------------------

    def started(self, run: Run, header: Mapping[str, Any]) -> None:
        """A run whose header names a schedule was submitted; also in replay."""
        name, due_ns = header["schedule"]
        self.by_run[run.no] = name
        if (schedule := self.by_name.get(name)) is not None:
            schedule.begun(due_ns, run.no, run.key)

    def reopened(self, run: Run) -> None:
        """Somebody has a run that was over go again: it is no run of its schedule any more, and holds up none; also in
        replay, which does not know here that it had ended."""
        schedule = self.by_name.get(self.by_run.pop(run.no, ""))
        if schedule is not None:
            schedule.open.discard(run.no)

    def restore(self, payload: bytes, lsn: int) -> None:
        """Take a SCHEDULE record of the log."""
        data = orjson.loads(payload)
        if "put" in data:
            try:
                fresh = Schedule.of(data["put"])
            except ConfigurationError as broken:
                raise ProtocolError(f"record {lsn} holds a schedule that is none: {broken.message}") from broken
            fresh.lsn = lsn
            self._enter(fresh)
            return
        schedule = self.by_name.get(data["gone"] if "gone" in data else data["judged"][0])
        if schedule is None:
            return
        if "gone" in data:
            self._leave(schedule)
        else:
            schedule.judge(Judged(*data["judged"][1:]))

    def saved(self, live: Container[int]) -> dict[str, Any]:
        """What a checkpoint holds; runs that are not live do not matter to any schedule."""
        return {
            "next_slot": self._next_slot,
            "by_run": [[no, name] for no, name in self.by_run.items() if no in live],
            "schedules": [
                [schedule.to_json(), schedule.lsn, schedule.slot, sorted(no for no in schedule.open if no in live)]
                for schedule in self.by_name.values()
            ],
        }

    def load(self, data: Mapping[str, Any]) -> None:
        """Take what `saved` made."""
        self._next_slot = data["next_slot"]
        self.by_run = dict(data["by_run"])
        for text, lsn, slot, open_ in data["schedules"]:
            try:
                schedule = Schedule.of(text)
            except ConfigurationError as broken:
                raise ProtocolError(f"a checkpoint holds a schedule that is none: {broken.message}") from broken
            schedule.lsn, schedule.slot, schedule.open = lsn, slot, set(open_)
            self.by_name[schedule.name] = self._by_slot[slot] = schedule

    def begin(self, scheduler: Scheduler) -> None:
        """The log was read: find out what is open, and look at each at once."""
        self._ahead_ns = _ahead(scheduler)
        book = scheduler.book
        self.by_run = {no: name for no, name in self.by_run.items() if no in book.live}
        for schedule in self.by_name.values():
            settle_open(scheduler, schedule)
            self._turned_back(scheduler, schedule)
            schedule.position_ns = schedule.judged_ns
            if schedule.plan.every_ns is not None:
                schedule.position_ns = min(schedule.judged_ns - _ahead(scheduler), scheduler.now_ns)
            self._arm(scheduler, schedule)

    def carry(self, scheduler: Scheduler, floor: int) -> None:
        """Write again what the log has below the floor, before the floor is raised."""
        while self.by_name and (schedule := next(iter(self.by_name.values()))).lsn < floor:
            self._log(scheduler, schedule)

    def _log(self, scheduler: Scheduler, schedule: Schedule) -> None:
        told = {"put": schedule.to_json(), "at_ns": scheduler.wall_ns}
        schedule.lsn = scheduler.log(RecordType.SCHEDULE, orjson.dumps(told))
        self.by_name.move_to_end(schedule.name)

    def _enter(self, schedule: Schedule) -> None:
        before = self.by_name.pop(schedule.name, None)
        if before is not None:
            self._leave(before)
        schedule.slot, self._next_slot = self._next_slot, self._next_slot + 1
        schedule.open = {no for no, name in self.by_run.items() if name == schedule.name}
        self.by_name[schedule.name] = self._by_slot[schedule.slot] = schedule

    def _leave(self, schedule: Schedule) -> None:
        self.by_name.pop(schedule.name, None)
        self._by_slot.pop(schedule.slot, None)


def settle_open(scheduler: Scheduler, schedule: Schedule) -> None:
    """Of a schedule that was read from the log: which of its runs are open, and how the latest ended."""
    book = scheduler.book
    schedule.open = {no for no in schedule.open if no in book.live}
    run = None if schedule.last is None else book.get(schedule.last[1])
    if schedule.last is not None and run is not None and not run.open:
        schedule.last[2] = str(run.run_state())


def is_paused(scheduler: Scheduler, schedule: Schedule) -> bool:
    """Whether somebody paused it."""
    return f"schedule:{schedule.name}" in scheduler.policy.paused


def _clock(scheduler: Scheduler, schedule: Schedule) -> int:
    """Now, on the clock by which it is judged."""
    return scheduler.wall_ns if schedule.plan.every_ns is None else scheduler.now_ns


def ahead_of(scheduler: Scheduler, schedule: Schedule) -> int:
    """How far the wall clock is ahead of the clock by which it is judged.

    The due times of an interval are a grid over restarts, although each measures the two clocks anew; only a clock that
    somebody set moves it.
    """
    if schedule.plan.every_ns is None:
        return 0
    before, ahead = schedule.judged_ns - schedule.position_ns, _ahead(scheduler)
    if abs(ahead - before) <= _STEP_NS:
        return before
    return (schedule.position_ns + ahead) // _GRAIN_NS * _GRAIN_NS - schedule.position_ns


def _ahead(scheduler: Scheduler) -> int:
    return scheduler.wall_ns - scheduler.now_ns
