"""Cancels: who asks is answered, what waits ends at once, and what a worker holds is asked to stop."""

from __future__ import annotations

from typing import Any

import pytest

from actors.protocol import effects as fx
from actors.protocol import messages as msg
from actors.protocol.records import RecordType
from actors.replay import Replay
from actors.scheduler import Scheduler
from actors.state_column import CANCELLED, CANCELLING
from tests.unit.actors.rig import WALL, Rig, node_type, rig_with_clock


def cancel(rig: Rig, run: str, node: int | None = None) -> Any:
    """The answer to one who asks for a cancel."""
    rig.say(msg.CancelAsked("s", 5, run, node))
    ((_, done, refused),) = rig.told("Q")
    return done if refused is None else refused["code"]


@pytest.mark.parametrize(("run", "node", "answer"), [("s-9", None, "MS121"), ("s-1", 3, "MS113"), ("s-1", -1, "MS113")])
def test_what_is_not_there_is_refused(run: str, node: int | None, answer: str) -> None:
    rig = Rig()
    rig.submit_graph([[], [0]])
    logged = len(rig.records)
    assert cancel(rig, run, node) == answer
    assert len(rig.records) == logged


def test_what_waits_ends_and_what_is_held_is_asked_to_stop() -> None:
    rig = Rig(node_type(prefetch=1))
    rig.submit_graph([[], [], [], [0]])
    (worker, first, _), (_, second, _) = rig.leases()
    assert cancel(rig, "s-1") is True
    (run,) = rig.core.scheduler.book.live.values()
    assert list(run.state) == [CANCELLING, CANCELLING, CANCELLED, CANCELLED]
    assert [(effect.worker, effect.serials) for effect in rig.taken(fx.Revoke)] == [(worker, (first, second))]
    assert rig.records[-1].type == RecordType.CANCEL


def test_what_is_over_is_not_cancelled() -> None:
    rig = Rig()
    rig.submit_graph([[], [0]])
    ((worker, serial, _),) = rig.leases()
    rig.succeed(worker, serial, 0)
    assert cancel(rig, "s-1", 0) is False
    ((worker, serial, _),) = rig.leases()
    rig.succeed(worker, serial, 1)
    assert cancel(rig, "s-1") is False
    assert RecordType.CANCEL not in {record.type for record in rig.records}


def test_a_node_that_is_cancelled_leaves_the_others() -> None:
    rig = Rig(node_type(prefetch=1))
    rig.submit_graph([[], [], []])
    rig.leases()
    assert cancel(rig, "s-1", 2) is True
    (run,) = rig.core.scheduler.book.live.values()
    assert [state == CANCELLED for state in run.state] == [False, False, True]
    assert rig.taken(fx.Revoke) == []


@pytest.mark.parametrize("node", [1, None])
def test_the_story_tells_who_asked_and_what_ended(node: int | None) -> None:
    """Before and after the log was read again."""
    rig = rig_with_clock()
    rig.submit_graph([[], [0]])
    rig.leases()
    cancel(rig, "s-1", node)
    place = -1 if node is None else node
    again = Replay(Scheduler(["default"]))
    for record in rig.records:
        again.fold(record)
    for scheduler in (rig.core.scheduler, again.scheduler):
        (run,) = scheduler.book.live.values()
        told = [(at_ns, *event[:3]) for at_ns, *event in run.rare.events]
        assert [event[1:] for event in told] == [
            (place, "cancel asked", "by s"),
            (place, "cancelled", "what no worker had" if node is None else "cancelled before it started"),
        ]
        assert {event[0] for event in told} == {run.rare.ended_early[place]}
        assert WALL <= told[0][0] <= rig.wall_ns
    events = rig.ask("story", run="s-1", node=1)["events"]
    assert "cancelled" in [event[2] for event in events]


def test_what_comes_back_from_its_worker_unstarted_has_an_end_of_its_own() -> None:
    rig = rig_with_clock()
    rig.submit_graph([[], [0]])
    ((worker, serial, _),) = rig.leases()
    cancel(rig, "s-1", 0)
    rig.later(10**9, msg.LeasesRevoked(worker, (serial,), (serial,)))
    (run,) = rig.core.scheduler.book.finished.values()
    assert run.state[0] == CANCELLED
    assert run.rare.ended_early[0] >= WALL + 10**9
