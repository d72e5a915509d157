"""Delays, due times and expiry: who waits, what a clock that is set does, and what recovery makes of it."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from actors.protocol import effects as fx
from actors.protocol import limits
from actors.protocol import messages as msg
from actors.protocol.records import RecordType
from actors.protocol.states import NodeState
from tests.unit.actors.rig import WALL, Rig, S, kind, recovered, rig_with_clock


def submit(rig: Rig, *tails: list[Any], **options: Any) -> None:
    """Tasks 1, 2, ... with these times, in nanoseconds from now on."""
    rows = []
    for seq, tail in enumerate(tails, start=1):
        times = [None if ns is None else ns + rig.wall_ns for ns in tail[:2]]
        rows.append([seq, 1, seq * 10, *times, *tail[2:]])
    rig.say(msg.KindDefined("s", 1, kind(**options)), msg.TasksSubmitted("s", rows, orjson.dumps(rows)))


def state(rig: Rig, seq: int) -> NodeState:
    run, own = rig.core.scheduler.book.find(f"s-{seq}") or (None, None)
    assert run is not None
    return NodeState(run.state[own or 0])


def failures(rig: Rig) -> list[tuple[int, str]]:
    return [(row[0], row[3]["kind"]) for body in rig.told("F") for row in body]


# --- delays and due times -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("appointed", [[], [None, 1]], ids=["delay", "due"])
def test_a_delayed_task_starts_when_its_time_comes(appointed: list[Any]) -> None:
    rig = rig_with_clock()
    submit(rig, [5 * S, *appointed])
    assert state(rig, 1) is NodeState.BACKOFF
    assert rig.told("A") == [[1]]
    rig.later(5 * S - 1000)
    assert rig.leases() == []
    rig.later(1000)
    assert [node for _, _, node in rig.leases()] == [0]


def test_tasks_of_a_bundle_that_wait_a_moment_stay_in_it() -> None:
    rig = rig_with_clock()
    submit(rig, [], [S // 2], [])
    assert len(rig.core.scheduler.book.live) == 1
    assert [node for _, _, node in rig.leases()] == [0, 2]
    rig.later(S)
    assert [node for _, _, node in rig.leases()] == [1]


def test_tasks_that_wait_for_long_do_not_keep_a_bundle_from_ending() -> None:
    rig = rig_with_clock()
    submit(rig, [], [3600 * S], [3600 * S], [])
    assert rig.told("A") == [[1], [3], [4]]
    for worker, serial, node in rig.leases():
        rig.succeed(worker, serial, node, run=1 + 2 * (serial > 1))
    assert [run.seq for run in rig.core.scheduler.book.live.values()] == [2]
    assert [state(rig, seq).name for seq in (1, 2, 3, 4)] == ["SUCCEEDED", "BACKOFF", "BACKOFF", "SUCCEEDED"]


def test_rows_of_one_run_are_logged_as_they_came() -> None:
    rig = rig_with_clock()
    rows = [[seq, 1, seq, rig.wall_ns + 3600 * S] for seq in (1, 2)]
    raw = orjson.dumps(rows).replace(b",", b", ")
    rig.say(msg.KindDefined("s", 1, kind()), msg.TasksSubmitted("s", rows, raw))
    assert [r.payload.endswith(raw + b"]") for r in rig.records if r.type == RecordType.SUBMITTED] == [True]


def test_refused_and_delayed_tasks_of_one_message_find_their_places() -> None:
    rig = rig_with_clock()
    later = rig.wall_ns + 3600 * S
    rows = [[1, 1, 0, later], [2, 7, 0, later], [3, 7, 0], [4, 1, 0], [5, 1, 0, later, later + S]]
    rig.say(msg.KindDefined("s", 1, kind()), msg.TasksSubmitted("s", rows, orjson.dumps(rows)))
    assert [body[0] for body in rig.told("J")] == [2, 3]
    assert [state(rig, seq).name for seq in (1, 4, 5)] == ["BACKOFF", "LEASED", "BACKOFF"]
    assert [run.seq for run in recovered(rig.records, 5, rig.wall_ns).book.live.values()] == [1, 4, 5]


def test_an_attempt_after_the_time_came_is_read_back_as_one() -> None:
    rig = rig_with_clock()
    submit(rig, [S, None, 1], [S // 2], retry={"max_attempts": 3, "base_ns": 60 * S, "jitter": False})
    rig.later(2 * S)
    (worker, serial, node), (_, other, second) = rig.leases()
    rig.fail(worker, serial, node)
    rig.succeed(worker, other, second)
    scheduler = recovered(rig.records, 5, rig.wall_ns)
    (run,) = scheduler.book.live.values()
    assert {NodeState(s).name for s in run.state} == {"BACKOFF", "SUCCEEDED"}
    due = scheduler.timers.next_ns()
    assert due is not None
    assert 59 * S < due < 61 * S


def test_a_time_in_the_past_is_now() -> None:
    rig = rig_with_clock()
    submit(rig, [-3600 * S, None, 1])
    assert len(rig.leases()) == 1


def test_the_order_of_due_times_holds_across_a_restart() -> None:
    rig = rig_with_clock(prefetch=1)
    submit(rig, *([delay * S] for delay in (7, 3, 9, 5, 3)))
    scheduler = recovered(rig.records, 77, WALL + 100 * S)
    assert [node for _, _, nodes in scheduler.ready["default"].pop(9, 0) for node in nodes] == [1, 4, 3, 0, 2]


def test_a_restart_before_the_time_waits_for_the_rest_of_it() -> None:
    rig = rig_with_clock()
    submit(rig, [10 * S], [10 * S, None, 1])
    scheduler = recovered(rig.records, 77, rig.wall_ns + 4 * S)
    (wake,) = [e for e in scheduler.receive([msg.TimePassed()], 78, rig.wall_ns + 4 * S + 1) if type(e) is fx.WakeAt]
    assert wake.due_ns <= 78 + limits.CLOCK_LOOK_NS
    due = scheduler.timers.next_ns()
    assert due is not None
    assert abs(due - 77 - 6 * S) < 100
    assert scheduler.appointments.next_ns() == rig.wall_offset_ns + 1_000_000 + 10 * S + 2


def test_a_submission_that_comes_again_after_a_restart_is_not_entered_twice() -> None:
    rig = rig_with_clock()
    submit(rig, [10 * S])
    scheduler = recovered(rig.records, 77, rig.wall_ns)
    rows = [[1, 1, 10, rig.wall_ns]]
    scheduler.receive([msg.TasksSubmitted("s", rows, orjson.dumps(rows))], 78, rig.wall_ns)
    assert len(scheduler.book.live) == 1
    assert len(scheduler.timers) == 1


@pytest.mark.parametrize("appointed", [[], [None, 1]], ids=["delay", "due"])
def test_a_delayed_task_that_was_cancelled_never_starts(appointed: list[Any]) -> None:
    rig = rig_with_clock()
    submit(rig, [5 * S, *appointed])
    rig.say(msg.CancelAsked("s", 1, "s-1", None))
    assert failures(rig) == [(1, "cancelled")]
    rig.later(60 * S)
    assert rig.leases() == []
    assert not rig.core.scheduler.timers
    assert not rig.core.scheduler.appointments


def test_what_is_due_at_once_comes_in_parts_and_whole() -> None:
    rig = rig_with_clock(workers_max=1)
    count = 3 * limits.DUE_NODES_PER_TURN + 1
    submit(rig, *([S] for _ in range(count)))
    rig.later(2 * S)
    scheduler = rig.core.scheduler
    assert len(scheduler.timers) == count - limits.DUE_NODES_PER_TURN
    assert min(wake.due_ns for wake in rig.taken(fx.WakeAt)) <= rig.now_ns
    for _ in range(3):
        rig.later(1)
    assert not scheduler.timers
    assert scheduler.ready["default"].size + rig.core.held() == count


# --- S37 ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("jump", [-3600 * S, 86_400 * S])
def test_s37_an_interval_does_not_follow_the_wall_clock(jump: int) -> None:
    rig = rig_with_clock()
    submit(rig, [5 * S], [None, 20 * S], timeout_ns=None)
    assert len(rig.leases()) == 1
    rig.wall_offset_ns += jump
    rig.later(4 * S)
    assert state(rig, 1) is NodeState.BACKOFF
    assert "(in 1.0 s)" in rig.ask("why", run="s-1")["text"]
    rig.later(S)
    assert [node for _, _, node in rig.leases()] == [0]
    assert failures(rig) == []


@pytest.mark.parametrize("jump", [-3600 * S, 3600 * S])
def test_s37_a_time_of_day_follows_the_wall_clock(jump: int) -> None:
    rig = rig_with_clock()
    submit(rig, [3600 * S, None, 1])
    rig.taken(fx.WakeAt)
    rig.wall_offset_ns += jump
    rig.later(limits.CLOCK_LOOK_NS)
    assert bool(rig.leases()) is (jump > 0)
    rig.later(3600 * S)
    assert rig.leases() == []
    rig.later(3600 * S)
    assert bool(rig.leases()) is (jump < 0)


def test_s37_the_clock_is_looked_at_every_second_while_somebody_is_due_at_a_time_of_day() -> None:
    rig = rig_with_clock()
    submit(rig, [3600 * S, None, 1])
    assert min(wake.due_ns for wake in rig.taken(fx.WakeAt)) <= rig.now_ns + limits.CLOCK_LOOK_NS


# --- expiry -------------------------------------------------------------------------------------------------------


def test_what_waits_for_a_worker_expires() -> None:
    rig = Rig(boot=False)
    rig.wall_offset_ns = WALL
    submit(rig, [None, 2 * S], [None, 4 * S], [])
    rig.later(2 * S)
    assert failures(rig) == [(1, "expired")]
    assert "no attempt had started by 2023-11-14 22:13:22 UTC" in rig.ask("why", run="s-1")["text"]
    rig.later(2 * S)
    assert failures(rig) == [(2, "expired")]
    rig.say(msg.WorkerHello(rig.workers[0], 101))
    assert [node for _, _, node in rig.leases()] == [2]
    assert recovered(rig.records, 1, rig.wall_ns).book.nodes_live == 3


def test_what_a_worker_holds_is_taken_back_and_what_runs_goes_on() -> None:
    rig = rig_with_clock()
    submit(rig, [None, S], [None, S])
    (worker, running, _), (_, held, _) = rig.leases()
    rig.observe(worker, running, rig.now_ns)
    rig.later(S)
    (revoke,) = rig.taken(fx.Revoke)
    assert set(revoke.serials) == {running, held}
    rig.say(msg.LeasesRevoked(worker, (held,), revoke.serials))
    assert failures(rig) == [(2, "expired")]
    assert rig.taken(fx.AskCancel) == []
    rig.succeed(worker, running, 0)
    assert rig.told("R") == [[[1, [0], [1]]]]
    assert not rig.core.scheduler.expiries


def test_what_waits_for_its_next_attempt_expires_and_is_not_tried_again() -> None:
    rig = rig_with_clock()
    submit(rig, [None, S], retry={"max_attempts": 5, "base_ns": 3 * S, "jitter": False})
    ((worker, serial, node),) = rig.leases()
    rig.fail(worker, serial, node)
    assert "it expires in 1.0 s" in rig.ask("why", run="s-1")["text"]
    rig.later(S)
    assert failures(rig) == [(1, "expired")]
    rig.later(60 * S)
    assert rig.leases() == []


def test_an_attempt_that_fails_after_the_expiry_was_the_last() -> None:
    rig = rig_with_clock()
    submit(rig, [None, S], retry={"max_attempts": 5, "base_ns": S, "jitter": False})
    ((worker, serial, node),) = rig.leases()
    rig.later(2 * S)
    rig.say(msg.LeasesRevoked(worker, (), (serial,)))
    rig.fail(worker, serial, node)
    assert failures(rig) == [(1, "error")]


def test_what_is_parked_expires() -> None:
    rig = rig_with_clock()
    submit(rig, [None, S])
    ((worker, serial, node),) = rig.leases()
    rig.fail(worker, serial, node, "no-handler")
    assert state(rig, 1) is NodeState.PARKED
    rig.later(S)
    assert failures(rig) == [(1, "expired")]
    rig.later(60 * S)
    assert rig.leases() == []


def test_what_comes_back_from_a_dead_worker_after_its_expiry_ends() -> None:
    rig = rig_with_clock()
    submit(rig, [None, S])
    ((worker, serial, _),) = rig.leases()
    rig.later(2 * S)
    rig.say(msg.LeasesRevoked(worker, (), (serial,)))
    rig.die(worker)
    assert failures(rig) == [(1, "expired")]
    assert rig.leases() == []


def test_many_that_expire_at_once_end_in_parts_and_none_of_them_starts() -> None:
    rig = Rig(boot=False)
    rig.wall_offset_ns = WALL
    count = 2 * limits.EXPIRED_NODES_PER_TURN + 1
    submit(rig, *([None, S] for _ in range(count)))
    rig.later(2 * S, msg.WorkerHello(rig.workers[0], 101))
    assert rig.core.scheduler.ready["default"].size == 0
    assert "it has expired" in rig.ask("why", run=f"s-{count}")["text"]
    rig.later(1)
    ended = len(failures(rig))
    assert ended == limits.EXPIRED_NODES_PER_TURN
    while rig.core.scheduler.expiries:
        rig.later(1)
        ended += len(failures(rig))
    assert ended == count
    assert rig.leases() == []


def test_what_expired_while_the_engine_was_down_ends_at_the_start() -> None:
    rig = Rig(boot=False)
    rig.wall_offset_ns = WALL
    submit(rig, [None, S], [S // 2, S])
    scheduler = recovered(rig.records, 5, rig.wall_ns + 3600 * S)
    assert not scheduler.book.live
    assert {run.failure(node)["kind"] for run in scheduler.book.finished.values() for node in (0, 1)} == {"expired"}  # type: ignore[index]


def test_an_end_that_was_told_is_the_same_after_a_restart() -> None:
    rig = Rig(boot=False)
    rig.wall_offset_ns = WALL
    submit(rig, [None, S], [])
    rig.later(S)
    attempts = [orjson.loads(r.payload) for r in rig.records if r.type == RecordType.ATTEMPT]
    assert [(row[2], row[3], row[4]["kind"]) for row in attempts] == [("failed", 0, "expired")]
    (run,) = recovered(rig.records, 5, WALL).book.live.values()
    assert [NodeState(s).name for s in run.state] == ["FAILED", "READY"]


# --- words --------------------------------------------------------------------------------------------------------


def test_why_and_story_say_what_it_waits_for() -> None:
    rig = rig_with_clock()
    submit(rig, [3_200_000_000, 60 * S])
    text = rig.ask("why", run="s-1")["text"]
    assert text == (
        "it waits for its time: 2023-11-14 22:13:23 UTC (in 3.2 s); it expires in 60.0 s unless it starts before"
    )
    events = [(event, detail) for _, _, event, detail, _ in rig.ask("story", run="s-1")["events"]]
    assert events == [("submitted", "1 node as s-1"), ("delayed", "until 2023-11-14 22:13:23 UTC")]
