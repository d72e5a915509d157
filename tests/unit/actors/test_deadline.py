"""Total deadlines: what waits ends, what runs is stopped, nothing is tried again; restarts, and clocks that are set."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from actors.protocol import effects as fx
from actors.protocol import limits
from actors.protocol import messages as msg
from actors.protocol.states import FailureKind, NodeState
from tests.unit.actors.rig import Rig, S, kind, recovered, rig_with_clock

RETRY = {"max_attempts": 3, "base_ns": 2 * S, "jitter": False}


def submit(rig: Rig, *deadlines_ns: int, delay_ns: int | None = None, moment: bool = False, **options: Any) -> None:
    """Tasks 1, 2, ... that must have ended so long from now on."""
    due = None if delay_ns is None else rig.wall_ns + delay_ns
    rows = [
        [seq, 1, seq, due, None, None, rig.wall_ns + ns, int(moment)] for seq, ns in enumerate(deadlines_ns, start=1)
    ]
    rig.say(msg.KindDefined("s", 1, kind(**options)), msg.TasksSubmitted("s", rows, orjson.dumps(rows)))


def failures(rig: Rig) -> list[tuple[int, str]]:
    return [(row[0], row[3]["kind"]) for body in rig.told("F") for row in body]


def test_what_waits_for_a_worker_ends_at_its_deadline() -> None:
    rig = rig_with_clock(prefetch=1)
    submit(rig, 100 * S, 100 * S, 5 * S, 5 * S)
    ((worker, serial, node), (_, other, second)) = rig.leases()
    assert "it must have ended in 5.0 s" in rig.ask("why", run="s-3")["text"]
    rig.later(5 * S - 1000)
    assert failures(rig) == []
    rig.later(1000)
    assert failures(rig) == [(3, "deadline"), (4, "deadline")]
    assert "its deadline" in rig.ask("why", run="s-4")["text"]
    rig.succeed(worker, serial, node)
    assert rig.leases() == []
    rig.succeed(worker, other, second)
    assert not rig.core.scheduler.deadlines


@pytest.mark.parametrize("moment", [False, True])
def test_what_runs_is_stopped_by_the_escalation_of_a_timeout(moment: bool) -> None:
    rig = rig_with_clock()
    submit(rig, 5 * S, moment=moment, retry=RETRY)
    ((worker, serial, _),) = rig.leases()
    rig.observe(worker, serial, rig.now_ns)
    assert "it must have ended in" in rig.ask("why", run="s-1")["text"]
    rig.later(5 * S)
    (revoke,) = rig.taken(fx.Revoke)
    rig.say(msg.LeasesRevoked(worker, (), revoke.serials))
    assert rig.taken(fx.AskCancel) == [fx.AskCancel(worker, serial, 3)]
    rig.later(200)
    assert [effect.signal for effect in rig.taken(fx.SignalWorker)] == ["TERM"]
    rig.die(worker, current=serial, claimed=(serial,), signal=15)
    assert failures(rig) == [(1, "deadline")]
    assert rig.leases() == []


def test_what_was_held_and_not_claimed_ends_without_a_stop() -> None:
    rig = rig_with_clock()
    submit(rig, 5 * S, 100 * S)
    ((worker, serial, _), (_, other, _)) = rig.leases()
    rig.later(5 * S)
    rig.say(msg.LeasesRevoked(worker, (serial,), (serial,)))
    assert failures(rig) == [(1, "deadline")]
    assert rig.taken(fx.AskCancel) == []
    rig.succeed(worker, other, 1)
    assert not rig.core.scheduler.deadlines


def test_what_is_being_stopped_does_not_start_again_because_somebody_sets_the_clock_back() -> None:
    rig = rig_with_clock()
    submit(rig, 5 * S, moment=True)
    ((worker, serial, _),) = rig.leases()
    rig.later(5 * S)
    rig.wall_offset_ns -= 3600 * S
    rig.say(msg.LeasesRevoked(worker, (serial,), (serial,)))
    assert failures(rig) == [(1, "deadline")]
    assert rig.leases() == []


def test_a_result_that_comes_before_the_stop_counts() -> None:
    rig = rig_with_clock()
    submit(rig, 5 * S)
    ((worker, serial, node),) = rig.leases()
    rig.later(5 * S)
    rig.succeed(worker, serial, node, 7)
    assert rig.told("R") == [[[1, [0], [7]]]]


def test_a_cancel_that_was_asked_before_the_deadline_stays_one() -> None:
    rig = rig_with_clock()
    submit(rig, 5 * S)
    ((worker, serial, node),) = rig.leases()
    rig.say(msg.CancelAsked("s", 1, "s-1", None))
    rig.say(msg.LeasesRevoked(worker, (), (serial,)))
    rig.later(5 * S)
    rig.fail(worker, serial, node, "cancelled")
    assert failures(rig) == [(1, "cancelled")]


def test_a_waiting_retry_ends_and_so_does_what_is_delayed_or_parked() -> None:
    rig = rig_with_clock()
    submit(rig, 5 * S, retry={**RETRY, "base_ns": 3 * S})
    ((worker, serial, node),) = rig.leases()
    rig.fail(worker, serial, node)
    rig.later(4 * S)
    ((worker, serial, node),) = rig.leases()
    rig.fail(worker, serial, node, FailureKind.NO_HANDLER)
    assert rig.core.scheduler.book.live[1].state[0] == NodeState.PARKED
    rig.later(S)
    ((row,),) = rig.told("F")
    assert (row[0], row[3]["kind"]) == (1, "deadline")
    assert "after 1 of its attempts failed" in row[3]["message"]


def test_a_retry_that_would_start_too_late_is_not_waited_for() -> None:
    rig = rig_with_clock()
    submit(rig, 5 * S, retry={**RETRY, "base_ns": 6 * S})
    ((worker, serial, node),) = rig.leases()
    rig.fail(worker, serial, node)
    ((row,),) = rig.told("F")
    assert (row[3]["kind"], row[2]) == ("deadline", "failed")
    assert row[3]["message"].startswith("attempt 1 failed (ValueError: no), and the next would start after 2023-")


def test_an_attempt_that_ran_into_its_timeout_is_not_repeated_after_the_deadline() -> None:
    rig = rig_with_clock()
    submit(rig, 5 * S, retry={**RETRY, "base_ns": 0})
    ((worker, serial, node),) = rig.leases()
    rig.now_ns += 5 * S
    rig.fail(worker, serial, node, "timeout")
    assert failures(rig) == [(1, "deadline")]


def test_an_interval_takes_its_time_and_a_moment_follows_the_wall_clock() -> None:
    rig = rig_with_clock()
    submit(rig, 60 * S, delay_ns=1000 * S)
    rig.wall_offset_ns += 3600 * S
    rig.later(S)
    assert failures(rig) == []
    rig.later(60 * S)
    assert failures(rig) == [(1, "deadline")]
    rig = rig_with_clock()
    submit(rig, 3600 * S, delay_ns=7200 * S, moment=True)
    rig.wall_offset_ns += 3600 * S
    assert min(effect.due_ns for effect in rig.taken(fx.WakeAt)) <= rig.now_ns + limits.CLOCK_LOOK_NS
    rig.later(S)
    assert failures(rig) == [(1, "deadline")]


@pytest.mark.parametrize("moment", [False, True])
def test_a_deadline_survives_a_restart(moment: bool) -> None:
    rig = rig_with_clock()
    submit(rig, 5 * S, 50 * S, moment=moment)
    scheduler = recovered(rig.records, 7, rig.wall_ns + 6 * S)
    run = scheduler.book.live[1]
    assert [NodeState(s).name for s in run.state] == ["FAILED", "READY"]
    assert run.rare.failures[0]["kind"] == "deadline"
    scheduler.receive([msg.TimePassed()], 7 + 44 * S, rig.wall_ns + 50 * S)
    assert [NodeState(s).name for s in run.state] == ["FAILED", "FAILED"]
    assert not scheduler.deadlines


def test_many_end_in_slices_and_none_of_them_starts_meanwhile() -> None:
    count = 3 * limits.EXPIRED_NODES_PER_TURN
    rig = rig_with_clock(prefetch=1)
    submit(rig, *[5 * S] * count)
    ((worker, serial, node), (_, held, _)) = rig.leases()
    rig.now_ns += 5 * S
    rig.succeed(worker, serial, node)
    assert rig.leases() == []
    ended = failures(rig)
    assert len(ended) < limits.EXPIRED_NODES_PER_TURN
    for _ in range(3):
        rig.later(1)
        ended += failures(rig)
    rig.say(msg.LeasesRevoked(worker, (held,), (held,)))
    ended += failures(rig)
    assert sorted(ended) == [(seq, "deadline") for seq in range(2, count + 1)]
    assert rig.leases() == []
