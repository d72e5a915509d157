"""Nodes that a task adds to its run: when they count, and what happens when they cannot be added."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from actors.giving import flow_of
from actors.protocol import limits
from actors.protocol import messages as msg
from tests.unit.actors.rig import Rig, folded, kind


def spawn(rig: Rig, worker: int, serial: int, count: int, **more: Any) -> None:
    block = {"n": count, "kinds": [kind(**more)], "kind_of": [0] * count}
    rig.say(msg.WorkerSpawned(worker, serial, block, orjson.dumps([serial, 1, 0, block])))


def test_spawned_nodes_count_when_their_attempt_succeeds() -> None:
    rig = Rig()
    rig.submit_graph([[]])
    ((worker, serial, node),) = rig.leases()
    spawn(rig, worker, serial, 2)
    assert rig.leases() == []
    rig.succeed(worker, serial, node)
    assert [n for _, _, n in rig.leases()] == [1, 2]
    assert folded(rig.records).scheduler.book.live[1].size == 3
    events = rig.ask("story", run="s-1")["events"]
    assert [event[2:4] for event in events] == [["submitted", "1 node as s-1"], ["spawned", "2 nodes"]]


def test_what_a_graph_of_one_node_adds_takes_turns_with_the_single_tasks_of_its_session() -> None:
    rig = Rig()
    rig.submit_graph([[]])
    run = rig.core.scheduler.book.live[1]
    ((worker, serial, node),) = rig.leases()
    assert flow_of(run) == "s"
    spawn(rig, worker, serial, 200)
    rig.succeed(worker, serial, node)
    assert flow_of(run) == 1
    assert len([*rig.core.scheduler.ready["default"]._levels[2].found(1)]) == 1
    assert rig.ask("priority", run="s-1", priority="high") == {"changed": True}
    assert rig.core.scheduler.ready["default"].counts()[2] == 0


def test_what_single_tasks_add_is_not_told_as_results_of_other_submissions() -> None:
    """The places behind a bundle are the numbers of its session's next submissions."""
    rig = Rig()
    rig.submit(1)
    ((worker, serial, node),) = rig.leases()
    spawn(rig, worker, serial, 2)
    rig.succeed(worker, serial, node)
    assert rig.told("R") == [[[1, [0], [1]]]]
    for worker, serial, node in rig.leases():
        rig.succeed(worker, serial, node)
    assert rig.told("R") == []
    assert rig.core.scheduler.book.finished[1].counts() == [0, 0, 0, 3, 0, 0, 0]


def test_an_attempt_that_fails_adds_nothing() -> None:
    rig = Rig()
    rig.submit_graph([[]])
    ((worker, serial, node),) = rig.leases()
    spawn(rig, worker, serial, 2)
    rig.fail(worker, serial, node)
    assert rig.core.scheduler.book.finished[1].size == 1


def test_equal_kinds_are_entered_once() -> None:
    rig = Rig()
    rig.submit_graph([[]])
    for _ in range(5):
        ((worker, serial, node),) = rig.leases()
        spawn(rig, worker, serial, 1)
        rig.succeed(worker, serial, node)
    assert len(rig.core.scheduler.book.live[1].kinds) == 2


@pytest.mark.parametrize(
    ("count", "more", "why"),
    [(3, {}, "the run would have 5 nodes; at most 4"), (1, {"node_type": "nowhere"}, "needs node type 'nowhere'")],
)
def test_an_attempt_fails_whose_nodes_cannot_be_added(
    monkeypatch: pytest.MonkeyPatch, count: int, more: dict[str, Any], why: str
) -> None:
    monkeypatch.setattr(limits, "NODES_PER_RUN_MAX", 4)
    rig = Rig()
    rig.submit_graph([[], []])
    (worker, serial, _), (_, other, _) = rig.leases()
    spawn(rig, worker, serial, count, **more)
    raw = orjson.dumps([101, [[serial, 1, [0, 1], [7, 8], rig.now_ns, [10, 30]]]])
    rig.say(msg.WorkerDone(worker, orjson.loads(raw)[1], raw))
    assert other == serial + 1
    for scheduler in (rig.core.scheduler, folded(rig.records).scheduler):
        run = scheduler.book.finished[1]
        assert run.results == [None, 8]
        assert run.counts() == [0, 0, 0, 1, 1, 0, 0]
        assert why in run.rare.failures[0]["message"]
        assert not run.rare.refused
