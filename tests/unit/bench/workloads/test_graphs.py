"""Graphs: shapes as their sources describe them, and results that can be computed without running anything."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from runtime.bench.workloads import graphs
from runtime.errors import WorkflowFileError

MEAN_NS = 1_000


def test_parents_come_first_in_every_graph() -> None:
    for graph in (graphs.chain(9), graphs.layered(5, 6, 3), graphs.stencil(4, 6, 1), graphs.montage(100, MEAN_NS)):
        assert all(parent < node for node, parents in enumerate(graph.parents) for parent in parents)
        assert len(graph.seeds) == len(graph) == len(graph.expected())


def test_a_chain_counts_its_hops() -> None:
    graph = graphs.chain(10)
    assert graph.expected()[-1] == 10
    assert graph.sinks() == [9]


def test_layers_have_distinct_parents_in_the_layer_before() -> None:
    graph = graphs.layered(4, 10, 3)
    assert len(graph) == 40
    for node in range(10, 40):
        parents = graph.parents[node]
        assert len(set(parents)) == 3
        assert {parent // 10 for parent in parents} == {node // 10 - 1}


def test_a_layer_narrower_than_its_parents_is_possible() -> None:
    assert graphs.layered(3, 2, 3).parents[2] in [(0, 1), (1, 0)]


def test_the_same_seed_gives_the_same_graph() -> None:
    assert graphs.layered(4, 10, 3).expected() == graphs.layered(4, 10, 3).expected()
    assert graphs.layered(4, 10, 3, seed=2).parents != graphs.layered(4, 10, 3).parents


def test_the_stencil_is_clipped_at_its_edges() -> None:
    graph = graphs.stencil(2, 4, 500)
    assert graph.parents[4:] == [(0, 1), (0, 1, 2), (1, 2, 3), (2, 3)]
    assert graph.arguments(1) == (500, 1)
    assert graph.arguments(5) == (500,)
    assert graph.useful_ns() == 8 * 500


def test_a_burning_graph_has_the_results_of_its_pure_twin() -> None:
    graph = graphs.stencil(3, 3, 1)
    results: list[int] = []
    for node, parents in enumerate(graph.parents):
        results.append(graph.handler(*graph.arguments(node), *[results[p] for p in parents]))
    assert results == graph.expected()


def test_montage_has_the_levels_of_the_recorded_one() -> None:
    graph = graphs.montage(600, MEAN_NS)
    assert 400 < len(graph) < 800
    levels = graph.expected()
    assert max(levels) == 8
    assert Counter(levels)[3] == Counter(levels)[4] == 1
    assert graph.sinks() == [len(graph) - 1]


def test_montage_durations_have_the_mean_that_was_asked_for() -> None:
    graph = graphs.montage(600, MEAN_NS)
    assert graph.useful_ns() / len(graph) == pytest.approx(MEAN_NS, rel=0.01)


def test_the_lower_bound_is_work_or_the_longest_path() -> None:
    graph = graphs.stencil(5, 4, 100)
    assert graph.lower_bound_ns(1) == 20 * 100
    assert graph.lower_bound_ns(2) == 10 * 100
    assert graph.lower_bound_ns(100) == 5 * 100


def test_a_workflow_file_becomes_a_graph(tmp_path: Path) -> None:
    path = tmp_path / "flow.json"
    path.write_text(json.dumps(workflow({"b": ["a"], "a": [], "c": ["a", "b"]}, {"a": 1.0, "b": 2.0, "c": 3.0})))
    graph = graphs.recorded(path, MEAN_NS)
    assert graph.parents == [(), (0,), (0, 1)]
    assert graph.durations_ns == [500, 1000, 1500]
    assert graph.expected() == [1, 2, 3]


def test_a_workflow_without_runtimes_burns_nothing(tmp_path: Path) -> None:
    path = tmp_path / "flow.json"
    path.write_text(json.dumps(workflow({"a": []}, {"a": 0.0})))
    assert graphs.recorded(path, MEAN_NS).durations_ns == [0]


def test_a_broken_workflow_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "flow.json"
    path.write_text("{}")
    with pytest.raises(WorkflowFileError):
        graphs.recorded(path, MEAN_NS)


def workflow(parents: dict[str, list[str]], runtimes: dict[str, float]) -> dict[str, object]:
    children = {name: [child for child, row in parents.items() if name in row] for name in parents}
    tasks = [{"id": name, "name": name, "parents": parents[name], "children": children[name]} for name in parents]
    happened = [{"id": name, "runtimeInSeconds": seconds} for name, seconds in runtimes.items()]
    body = {"specification": {"tasks": tasks}, "execution": {"tasks": happened}}
    return {"name": "flow", "schemaVersion": "1.5", "workflow": body}
