"""Who holds a node, and what of it runs."""

from __future__ import annotations

import orjson

from actors.at_workers import held_nodes, holder_of, running_nodes, split_counts
from actors.protocol import messages as msg
from tests.unit.actors.rig import Rig, kind


def test_holders_are_found_with_what_is_ahead() -> None:
    rig = Rig()
    rig.submit_graph([[], [], []])
    (worker, first, _), *_ = rig.leases()
    run = rig.core.scheduler.book.live[1]
    held = holder_of(rig.core.pools, run, 2)
    assert held is not None
    assert (held.worker, held.serial, held.ahead) == (worker, first + 2, 2)
    rig.succeed(worker, first, 0)
    assert holder_of(rig.core.pools, run, 0) is None
    assert held_nodes(rig.core.pools, run) == {1: 100 + worker, 2: 100 + worker}


def test_what_is_ahead_is_what_the_worker_runs_first() -> None:
    rig = Rig()
    rig.let_hold(5)
    rig.submit(3)
    rig.leases()
    rows = [[4, 2, 0], [5, 2, 0]]
    rig.say(msg.KindDefined("s", 2, kind(priority="realtime")), msg.TasksSubmitted("s", rows, orjson.dumps(rows)))
    (worker, _, _), _ = rig.leases()
    batch, other = rig.core.scheduler.book.live.values()

    def ahead() -> list[int]:
        held = (holder_of(rig.core.pools, run, node) for run, node in ((other, 0), (batch, 1)))
        return [found.ahead for found in held if found is not None]

    assert ahead() == [0, 3]
    rig.observe(worker, 1, rig.now_ns)
    assert ahead() == [1, 3], "what runs is not overtaken"


def test_what_runs_is_held_by_a_book() -> None:
    rig = Rig()
    rig.submit_graph([[], []])
    (worker, first, _), *_ = rig.leases()
    rig.observe(worker, first, 7)
    run = rig.core.scheduler.book.live[1]
    assert [tuple(found) for found in running_nodes(rig.core.pools)] == [(run, 0, worker, 100 + worker, 7, 1)]
    rig.succeed(worker, first, 0)
    assert list(running_nodes(rig.core.pools)) == []


def test_no_more_runs_than_is_leased() -> None:
    assert split_counts([1, 2, 3, 4, 5, 6, 7], 1) == [1, 4, 1, 4, 5, 6, 7]
    assert split_counts([0, 0, 1, 0, 0, 0, 0], 2) == [0, 0, 1, 0, 0, 0, 0]
