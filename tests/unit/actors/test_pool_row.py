"""What is told of a pool: whom it has, how large it may be, and why it is as large as it is."""

from __future__ import annotations

from actors.pool_row import pool_row
from actors.protocol import messages as msg
from tests.unit.actors.rig import Rig, node_type


def test_workers_and_what_they_hold() -> None:
    rig = Rig(node_type(workers_min=2, workers_max=2, prefetch=1), boot=False)
    up, starting = rig.workers
    rig.say(msg.WorkerHello(up, 41))
    rig.submit(3)
    row = pool_row(rig.core.pools["default"], 1, 0)
    assert row["workers"] == [
        {"worker": up, "pid": 41, "state": "ready", "held": 2, "tasks": 0},
        {"worker": starting, "pid": 0, "state": "starting", "held": 0, "tasks": 0},
    ]
    assert (row["node_type"], row["ready"], row["workers_range"], row["trouble"]) == ("default", 1, [2, 2], "")
    assert (row["steps"], row["scaled"], row["grown"], row["shrunk"]) == ([], None, 0, 0)


def test_steps_have_a_time_of_the_wall_clock() -> None:
    rig = Rig(node_type(workers_min=0, workers_max=4), boot=False)
    rig.submit(1)
    row = pool_row(rig.core.pools["default"], 1, 10**18)
    assert row["steps"] == [row["scaled"]]
    assert row["scaled"]["from"] == 0 < row["scaled"]["to"]
    assert 10**18 < row["scaled"]["at_ns"] <= 10**18 + rig.now_ns
    assert row["grown"] > 0
