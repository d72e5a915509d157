"""Runs that lost their waker; and all that a run may wait for, which is none."""

from __future__ import annotations

from actors.lost import lost_runs
from actors.state_column import PENDING, READY, SUCCEEDED
from tests.unit.actors.rig import Rig


def found(rig: Rig) -> dict[str, str]:
    return {run.key: why for run, _, why in lost_runs(rig.core, 1000)}


def test_what_runs_waits_or_has_ended_is_not_lost() -> None:
    """Ready, leased, with parents: at each step to the end."""
    rig = Rig()
    rig.submit_graph([[], [], [0], [0, 1]])
    assert found(rig) == {}
    steps = 0
    while leases := rig.leases():
        for worker, serial, node in leases:
            rig.succeed(worker, serial, node)
            steps += 1
            assert found(rig) == {}
    assert steps == 4


def test_a_retry_and_a_worker_that_starts_will_come() -> None:
    rig = Rig(boot=False)
    rig.submit(1)
    assert found(rig) == {}
    rig = Rig()
    rig.submit(1, retry={"max_attempts": 2, "base_ns": 10**9, "jitter": False})
    ((worker, serial, node),) = rig.leases()
    rig.fail(worker, serial, node)
    assert found(rig) == {}


def test_a_run_whose_nodes_only_wait_is_lost() -> None:
    """A wake-up that got lost: the node went back to waiting, and nobody knows of it."""
    rig = Rig(boot=False)
    rig.submit_graph([[], [0]])
    (run,) = rig.core.scheduler.book.live.values()
    run.state[0] = PENDING
    assert found(rig)[run.key].startswith("2 nodes wait, and none is ready, leased, or has a time")
    run.state[0] = run.state[1] = SUCCEEDED
    assert found(rig) == {run.key: "it is open, and all of its nodes have ended"}
    run.state[0] = READY
    assert found(rig) == {}


def test_a_lease_that_no_worker_holds_is_lost() -> None:
    rig = Rig()
    rig.submit(1)
    assert found(rig) == {}
    (run,) = rig.core.scheduler.book.live.values()
    (pool,) = rig.core.pools.values()
    for worker in pool.workers.values():
        worker.book = type(worker.book)(0)
    assert found(rig)[run.key] == "node 0 is leased, and no worker that lives holds the lease"
