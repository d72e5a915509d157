"""Figures by hand: waits, utilisation and queues of a history that can be worked out on paper."""

from __future__ import annotations

from runtime.planning.figures import MOMENTS, recorded_figures, simulated_figures, to_json
from runtime.planning.setting import EVERY, Setting
from runtime.planning.world import Simulation
from tests.unit.planning.histories import MS, History, node_type


def history() -> History:
    """One worker: a map of three tasks of 100 ms, and a chain of two that arrives at 50 ms."""
    made = History(node_type(workers=1))
    no = made.tasks(0, 3, tenant="a", priority="high")
    chain = made.graph(50, [[], [0]], priority="low")
    for node in range(3):
        made.ran(no, node, 100 * node, 100)
    made.ran(chain, 0, 300, 100)
    made.ran(chain, 1, 410, 100)
    return made


def test_what_was_recorded() -> None:
    found = recorded_figures(history().recording())
    assert found.makespan_ns == 510 * MS
    assert (found.tasks, found.busy_ns) == (5, 500 * MS)
    high, low = found.classes["high"], found.classes["low"]
    assert (high.p50_ns, high.p99_ns, high.mean_ns) == (100 * MS, 200 * MS, 100 * MS)
    assert (low.max_ns, low.mean_ns) == (250 * MS, 130 * MS), "the second waits from the end of the first"
    assert found.tenants["a"].tasks == 3
    (pool,) = found.pools
    assert abs(pool.utilisation - 500 / 510) < 1e-9
    assert (len(pool.waiting), max(pool.waiting), max(pool.running)) == (MOMENTS, 3, 1)


def test_what_was_simulated() -> None:
    simulation = Simulation(history().recording(), Setting(workers={EVERY: 2})).run()
    found = simulated_figures(simulation)
    assert 250 * MS <= found.makespan_ns <= 320 * MS
    (pool,) = found.pools
    assert 1.9 < pool.slots <= 2.0
    assert pool.busy_ns == 500 * MS
    assert max(pool.running) == 2
    assert to_json(found)["pools"][0]["waits"]["tasks"] == 5
