"""The graph that is killed half way: its size and its shape."""

from __future__ import annotations

import pytest

from runtime.bench.workloads import recovery


@pytest.mark.parametrize("tasks", [1, 7, 100, 4_000, 100_000, 1_000_000])
def test_chains_hold_about_as_many_nodes_as_asked(tasks: int) -> None:
    chains, length = recovery.shape(tasks)
    assert length >= 2
    assert chains * length >= min(tasks, 2) // 2
    assert chains * length <= max(tasks, 2)


def test_the_flow_has_one_gate_and_all_chains() -> None:
    chains, length = recovery.shape(400)
    flow = recovery.gated_chains("gate", chains, length)
    assert len(flow) == chains * length + 1
