"""Baselines: a race against something wrong would prove nothing."""

from __future__ import annotations

import pytest

from runtime.bench import baselines
from runtime.bench.figures import BenchError
from runtime.bench.handlers import increment, mix
from runtime.bench.workloads import graphs

pytestmark = [
    pytest.mark.slow,
    # The standard library's pools fork where that is their default, as they do for any user.
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
]


def test_the_executor_is_warm_and_leaves_nothing() -> None:
    with baselines.executor(1) as pool:
        assert pool.submit(increment, 1).result() == 2


@pytest.mark.parametrize(
    "graph",
    [graphs.chain(20), graphs.layered(5, 7, 3), graphs.stencil(4, 5, 1_000), graphs.montage(40, 1_000)],
    ids=["chain", "layered", "stencil", "montage"],
)
def test_the_hand_written_scheduler_computes_the_graph(graph: graphs.TaskGraph) -> None:
    with baselines.pool_of(2) as pool:
        assert baselines.PoolScheduler(pool, graph).run() == graph.expected()


def test_a_failing_task_ends_the_scheduler() -> None:
    graph = graphs.TaskGraph(increment, mix, [(), (0,)], [(1, 2, 3), ()])
    with baselines.pool_of(1) as pool, pytest.raises(BenchError, match="TypeError"):
        baselines.PoolScheduler(pool, graph).run()
