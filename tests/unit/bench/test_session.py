"""The face as the benchmark calls it, on a real runtime in its smallest size."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime.bench import session
from runtime.bench.figures import BenchError
from runtime.bench.workloads import graphs
from runtime.bench.workloads.base import Setup

pytestmark = pytest.mark.slow


def setup(folder: Path) -> Setup:
    return Setup(tasks=10, workers=2, durability="none", folder=folder, smoke=True)


def test_a_measured_graph_has_a_sample_with_all_roles(tmp_path: Path) -> None:
    sample = session.measure_graph(setup(tmp_path), graphs.layered(5, 10, 3), "small")
    assert sample.tasks == 50
    assert sample.elapsed_ns > 0
    assert set(sample.cpu_ns) == {"face", "spawner", "engine", "workers"}


def test_a_wrong_result_is_found(tmp_path: Path) -> None:
    wrong = graphs.layered(3, 5, 2)
    with pytest.raises(BenchError, match="small: result"):
        session.measure_graph(
            setup(tmp_path), graphs.TaskGraph(wrong.handler, sum_of, wrong.parents, wrong.seeds), "small"
        )


def test_no_state_folder_remains(tmp_path: Path) -> None:
    with session.open_runtime(setup(tmp_path)):
        assert list(tmp_path.iterdir())
    assert not list(tmp_path.iterdir())


def sum_of(*values: int) -> int:
    """Not what the handler computes."""
    return sum(values)
