"""Runs of two halves: of the size that is said, the second half for the one worker."""

from __future__ import annotations

from runtime.bench.workloads import openruns
from runtime.bench.workloads.openruns import NODES, SECOND


def test_a_run_has_two_halves() -> None:
    flow = openruns.two_halves()
    assert len(flow) == NODES
    assert {kind["node_type"] for kind in flow._kinds} == {"cpu", SECOND}


def test_there_are_as_many_runs_as_have_the_nodes() -> None:
    assert openruns.runs_of(1_000_000) == 10_000
    assert openruns.runs_of(1) == 1
    assert [each.name for each in openruns.types(3)] == ["cpu", SECOND]
