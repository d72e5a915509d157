"""Schedules: one run for each due time, overlap and catch-up, both clocks, and what recovery makes of it."""

from __future__ import annotations

import pytest

from actors.protocol import effects as fx
from actors.protocol import limits
from actors.protocol import messages as msg
from actors.protocol.records import RecordType
from actors.scheduler import Scheduler
from actors.schedules import JUDGED_PER_TURN, NoCalendar
from runtime.host.calendar import ZoneCalendar
from tests.unit.actors.clocked import Clocked, S, dues_of
from tests.unit.actors.rig import folded

MINUTE, HOUR = 60 * S, 3600 * S
NEXT = 1_700_000_040 * S
"""The first whole minute after WALL."""


def test_a_minute_job_runs_once_for_each_minute() -> None:
    rig = Clocked()
    assert rig.put(cron="* * * * *")["changed"]
    for number in range(3):
        rig.until(NEXT + number * MINUTE)
        rig.end_all()
    assert rig.runs() == ["job@20231114T221400Z", "job@20231114T221500Z", "job@20231114T221600Z"]
    row = rig.row()
    assert (row["started"], row["open"], row["queued"]) == (3, 0, 0)
    assert row["last"] == [NEXT + 2 * MINUTE, "job@20231114T221600Z", "succeeded"]
    assert row["next_due_ns"] == NEXT + 3 * MINUTE


def test_the_same_again_changes_nothing_and_another_begins_anew() -> None:
    rig = Clocked()
    rig.put(cron="* * * * *")
    count = len(rig.records)
    assert not rig.put(cron="* * * * *")["changed"]
    assert len(rig.records) == count
    rig.until(NEXT - S)
    assert rig.put(cron="* * * * *", item=8)["changed"]
    rig.until(NEXT)
    assert rig.runs() == ["job@20231114T221400Z"]
    assert next(iter(rig.core.scheduler.book.live.values())).items == [8]
    assert rig.ask("schedules", remove="job") == {"changed": True}
    assert rig.ask("schedules", remove="job") == {"changed": False}
    rig.until(NEXT + 5 * MINUTE)
    assert len(rig.runs()) == 1
    assert rig.again().ask("schedules") == {"rows": [], "next": None}


@pytest.mark.parametrize(
    ("overlap", "expected"),
    [("skip", [0, 3]), ("queue", [0, 1]), ("cancel", [0, 2]), ("allow", [0, 1, 2])],
)
def test_overlap(overlap: str, expected: list[int]) -> None:
    rig = Clocked()
    rig.put(every_ns=MINUTE, overlap=overlap)
    start = rig.wall_ns // 1_000_000 * 1_000_000
    rig.until(start + MINUTE)
    leases = rig.leases()
    rig.until(start + 3 * MINUTE + S)
    if overlap == "skip":
        assert rig.row()["passed"] == [start + 3 * MINUTE, "the run before was not over"]
    if overlap == "allow":
        leases += rig.leases()
    if overlap == "cancel":
        assert rig.core.scheduler.book.live[1].cancel_asked
    for (worker, serial, node), no in zip(leases, sorted(rig.core.scheduler.book.live), strict=False):
        rig.succeed(worker, serial, node, run=no)
    rig.until(start + 4 * MINUTE + S)
    found = [(due - start) // MINUTE - 1 for due in dues_of(rig)]
    assert found[: len(expected)] == expected
    assert rig.row()["queued"] == {"skip": 0, "queue": 2, "cancel": 1, "allow": 0}[overlap]


@pytest.mark.parametrize(("catch_up", "count"), [("latest", 1), ("none", 0), ("all", 120)])
def test_s38_an_engine_that_was_off_for_two_hours(catch_up: str, count: int) -> None:
    first = Clocked()
    first.put(cron="* * * * *", catch_up=catch_up)
    first.until(NEXT)
    first.end_all()
    rig = first.again(2 * HOUR + 30 * S)
    for _ in range(count + 2):
        rig.later(1000)
        rig.end_all()
    caught_up = list(dues_of(rig))[1:]
    assert caught_up == [NEXT + n * MINUTE for n in range(1, 121)][120 - count :]
    rig.until(NEXT + 121 * MINUTE)
    rig.end_all()
    assert list(dues_of(rig))[1:] == [*caught_up, NEXT + 121 * MINUTE]
    if catch_up == "none":
        assert rig.row()["passed"] == [NEXT + 120 * MINUTE, "it was missed"]


def test_a_crash_loses_no_due_time_and_doubles_none() -> None:
    rig = Clocked()
    rig.put(cron="* * * * *", overlap="queue", catch_up="none")
    rig.until(NEXT + MINUTE + S)
    assert (rig.row()["started"], rig.row()["queued"]) == (1, 1)
    written = rig.records
    for count in range(2, len(written) + 1):
        other = Clocked(written[:count], 5, NEXT + MINUTE + 2 * S)
        for _ in range(3):
            other.later(1000)
            other.end_all()
        assert [due for due in dict.fromkeys(dues_of(other)) if due >= NEXT + MINUTE] == [NEXT + MINUTE], count
        assert len(set(dues_of(other))) == len(list(dues_of(other)))


def test_the_record_of_a_run_is_enough_to_know_that_its_time_is_over() -> None:
    rig = Clocked()
    rig.put(cron="* * * * *", overlap="allow")
    rig.until(NEXT)
    last = max(place for place, record in enumerate(rig.records) if record.type == RecordType.SUBMITTED)
    again = Clocked(rig.records[: last + 1], 5, rig.wall_ns + S)
    again.end_all()
    again.until(NEXT + 30 * S)
    assert list(dues_of(again)) == [NEXT]


def test_what_was_queued_is_started_however_long_the_engine_was_off() -> None:
    rig = Clocked()
    rig.put(cron="* * * * *", overlap="queue", catch_up="none")
    rig.until(NEXT + 3 * MINUTE + S)
    assert (rig.row()["started"], rig.row()["queued"]) == (1, 3)
    rig = rig.again(2 * HOUR + 20 * S)
    for _ in range(5):
        rig.later(1000)
        rig.end_all()
    assert list(dues_of(rig)) == [NEXT + number * MINUTE for number in range(4)]
    assert rig.row()["passed"][1] == "it was missed"


def test_runs_of_what_was_there_before_count_for_what_replaced_it() -> None:
    rig = Clocked()
    rig.put(cron="* * * * *")
    rig.until(NEXT)
    for _ in range(2):
        rig.put(cron="* * * * *", item=8)
        rig.until(NEXT + MINUTE)
        assert (rig.row()["open"], len(rig.runs())) == (1, 1)
        rig.ask("schedules", remove="job")
    rig.end_all()
    rig.put(cron="* * * * *")
    rig.until(NEXT + 2 * MINUTE)
    assert len(rig.runs()) == 2


def test_the_end_of_a_run_asks_for_a_turn_at_once() -> None:
    rig = Clocked()
    rig.put(cron="* * * * *", overlap="queue")
    rig.until(NEXT + MINUTE + S)
    rig.taken(fx.WakeAt)
    ((worker, serial, node),) = rig.leases()
    rig.succeed(worker, serial, node)
    assert min(effect.due_ns for effect in rig.taken(fx.WakeAt)) <= rig.now_ns


def test_intervals_pass_by_the_monotonic_clock() -> None:
    rig = Clocked()
    rig.put(every_ns=10 * S)
    for jump in (-HOUR, 24 * HOUR):
        before = rig.row()["started"]
        rig.wall_offset_ns += jump
        rig.later(9 * S)
        rig.later(10)
        assert rig.row()["started"] == before
        rig.later(S)
        assert rig.row()["started"] == before + 1
        rig.end_all()


def test_due_times_of_an_interval_are_a_grid_over_restarts() -> None:
    rig = Clocked()
    rig.put(every_ns=10 * S)
    start = rig.row()["created_ns"]
    for number in range(1, 6):
        rig.until(start + number * 10 * S)
        rig.end_all()
        rig = Clocked(rig.records, 1_000_000 * number, rig.wall_ns + 1_234_567)
        rig.wall_offset_ns -= 777 * number  # each measures its clocks anew
    assert list(dues_of(rig)) == [start + number * 10 * S for number in range(1, 6)]
    rig.wall_offset_ns += HOUR + 1
    rig.later(10 * S)
    assert rig.row()["last"][0] % 1_000_000 == 0


def test_a_clock_that_is_set_forward_makes_no_storm() -> None:
    rig = Clocked()
    rig.put(cron="* * * * *")
    rig.wall_offset_ns += 24 * HOUR
    rig.later(S)
    assert rig.row()["started"] == 1
    rig.end_all()
    rig.later(S)
    assert rig.row()["started"] == 1


def test_a_clock_that_is_set_back_repeats_nothing_and_stops_nothing() -> None:
    rig = Clocked()
    rig.put(cron="* * * * *")
    rig.until(NEXT)
    rig.end_all()
    rig.wall_offset_ns -= HOUR
    rig.until(NEXT)
    assert rig.row()["started"] == 1
    rig.until(NEXT + MINUTE)
    assert rig.row()["started"] == 2
    rig.end_all()
    rig.wall_offset_ns -= 24 * HOUR
    rig.later(S)
    rig.until(NEXT - 24 * HOUR + 2 * MINUTE)
    assert rig.row()["started"] == 3


def test_jitter_is_the_same_after_a_crash_and_within_its_bound() -> None:
    rig = Clocked()
    rig.put(cron="* * * * *", jitter_ns=50 * S)
    due, starts = rig.row()["next_due_ns"], rig.row()["next_start_ns"]
    assert due < starts < due + 50 * S
    again = rig.again()
    assert again.row()["next_start_ns"] == starts
    again.until(starts - 1000)
    assert again.runs() == []
    again.until(starts)
    assert again.runs() == ["job@20231114T221400Z"]


def test_a_paused_schedule_passes_over_and_goes_on() -> None:
    rig = Clocked()
    rig.put(cron="* * * * *")
    rig.ask("policy", change={"pause": ["schedule:job"]})
    rig.until(NEXT + MINUTE)
    assert rig.row()["passed"] == [NEXT + MINUTE, "the schedule was paused"]
    rig = rig.again()
    assert rig.row()["paused"]
    rig.until(NEXT + 2 * MINUTE)
    rig.ask("policy", change={"resume": ["schedule:job"]})
    rig.until(NEXT + 3 * MINUTE)
    assert rig.runs() == ["job@20231114T221700Z"]


def test_schedules_outlive_the_log_in_which_they_were_made() -> None:
    rig = Clocked()
    rig.core.scheduler.book.runs_max = 20
    rig.put(every_ns=S)
    made = next(r.lsn for r in rig.records if r.type == RecordType.SCHEDULE)
    for _ in range(60):
        rig.later(S)
        rig.end_all()
        rig.say(msg.Told(rig.core.scheduler.lsn))
    kept = [r for r in rig.records if r.lsn >= rig.core.scheduler._floor_lsn]
    assert kept[0].lsn > made
    again = Clocked(kept, 5, rig.wall_ns)
    assert again.row() == rig.row()


def test_many_due_times_at_once_are_bounded() -> None:
    first = Clocked()
    first.put(cron="* * * * * *", catch_up="all", overlap="queue")
    rig = first.again(HOUR)
    assert rig.row()["queued"] + rig.row()["started"] == limits.SCHEDULE_QUEUED_MAX


def test_an_engine_that_drains_starts_nothing_more_and_the_next_one_judges_it() -> None:
    rig = Clocked()
    rig.put(cron="* * * * *")
    rig.say(msg.CloseAsked("s", True, 10 * MINUTE))
    rig.until(NEXT + S)
    assert rig.runs() == []
    assert rig.again(3 * S).runs() == ["job@20231114T221400Z"]


def test_a_full_engine_lets_due_times_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Clocked()
    rig.put(cron="* * * * *")
    monkeypatch.setattr(limits, "NODES_OPEN_MAX", 0)
    rig.until(NEXT + 2 * S)
    assert (rig.runs(), rig.row()["queued"], rig.row()["trouble"]) == ([], 1, "the engine is full")
    monkeypatch.undo()
    rig.until(NEXT + 4 * S)
    assert (rig.runs(), rig.row()["queued"], rig.row()["trouble"]) == (["job@20231114T221400Z"], 0, "")


def test_a_node_type_that_is_gone_leaves_its_runs_waiting() -> None:
    rig = Clocked()
    rig.put(cron="* * * * *")
    scheduler = Scheduler(["other"])
    scheduler.schedules.calendar = ZoneCalendar()
    folded(rig.records, scheduler).finish(1, NEXT + S, {})
    (run,) = scheduler.book.live.values()
    assert (run.key, scheduler.ready["default"].size) == ("job@20231114T221400Z", 1)


def test_without_a_calendar_nothing_is_lost() -> None:
    rig = Clocked()
    rig.put(cron="* * * * *")
    calendar, rig.core.scheduler.schedules.calendar = rig.core.scheduler.schedules.calendar, NoCalendar()
    rig.until(NEXT + 2 * S)
    assert (rig.runs(), rig.row()["trouble"]) == ([], "this engine reads no cron expressions")
    rig.core.scheduler.schedules.calendar = calendar
    rig.until(NEXT + 4 * S)
    assert (rig.runs(), rig.row()["trouble"]) == (["job@20231114T221400Z"], "")


def test_many_schedules_at_one_time_take_turns() -> None:
    rig = Clocked()
    for number in range(100):
        rig.put(f"job {number}", cron="* * * * *")
    rig.until(NEXT - S // 2)
    before = rig.core.scheduler.book.next_run_no
    rig.until(NEXT)
    assert rig.core.scheduler.book.next_run_no - before == JUDGED_PER_TURN
    for _ in range(8):
        rig.later(1000)
    assert rig.core.scheduler.book.next_run_no - before == 100


def test_what_cannot_be_is_refused_with_all_problems() -> None:
    rig = Clocked()
    answer = rig.put(name="a/b", cron="* * * * *", every_ns=5, catch_up="some", overlap="no", jitter_ns=-1)
    assert answer["code"] == "MS101"
    for word in ("name", "either cron or every", "every must be", "catch_up", "overlap", "jitter"):
        assert word in answer["message"]
    for wrong, word in (
        ({"cron": "99 * * * *"}, "cannot be read"),
        ({"cron": "* * * * *", "zone": "Europe/Nowhere"}, "no time zone"),
        ({"cron": "* * * * *", "jitter_ns": 2 * MINUTE}, "jitter is longer"),
        ({"cron": "0 0 29 2 MON#5", "zone": "UTC"}, ""),
        ({"every_ns": MINUTE, "node_type": "gpu"}, "no node type 'gpu'"),
        ({"every_ns": MINUTE, "zone": "Europe/Berlin"}, "zone is for cron"),
        ({"every_ns": MINUTE, "catch_up": "all", "overlap": "cancel"}, "exclude each other"),
        ({"every_ns": MINUTE, "item": "x" * 40_000}, "are allowed"),
    ):
        answer = rig.put(**wrong)
        assert word in answer.get("message", "")
    assert [row["name"] for row in rig.ask("schedules")["rows"]] == ["job"]


def test_a_run_that_somebody_has_go_again_holds_up_no_due_time_also_after_a_restart() -> None:
    rig = Clocked()
    rig.put(cron="* * * * *", overlap="skip")
    rig.until(NEXT)
    rig.end_one(0, fails=True)
    (failed,) = rig.runs()
    assert rig.ask("rerun", run=failed) == {"count": 1}
    assert rig.open() == [failed]
    for each in (rig, rig.again()):
        assert each.core.scheduler.schedules.by_run == {}
        each.until(NEXT + MINUTE)
        assert len(each.open()) == 2


def test_a_schedule_that_is_drained_is_quiet_when_what_it_started_has_ended() -> None:
    rig = Clocked()
    rig.put(cron="* * * * *")
    rig.put("None", cron="* * * * *")
    rig.until(NEXT)
    rig.ask("policy", change={"pause": ["schedule:job"]})
    assert rig.ask("held", scopes=["schedule:job"], take_back=True) == {"held": 1}
    assert rig.ask("held", scopes=["schedule:other"]) == {"held": 0}
    rig.submit(1)
    assert rig.ask("held", scopes=["schedule:None", "schedule:job"]) == {"held": 2}
    rig.end_all()
    rig.until(NEXT + MINUTE)
    assert rig.ask("held", scopes=["schedule:job"]) == {"held": 0}
