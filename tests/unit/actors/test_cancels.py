"""Cancels: who asks is answered, what waits ends at once, and what a worker holds is asked to stop."""

from __future__ import annotations

from typing import Any

import pytest

from actors.protocol import effects as fx
from actors.protocol import messages as msg
from actors.protocol.records import RecordType
from actors.state_column import CANCELLED, CANCELLING
from tests.unit.actors.rig import Rig, node_type


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
