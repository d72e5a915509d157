"""Traces from rows of nodes, the JSON object."""

from __future__ import annotations

from actors.protocol.states import NodeState
from runtime.cli.trace import Trace
from runtime.views import NodeStatus
from tests.unit.cli.traces import diamond


def row(index: int, node: str, parents: tuple[int, ...], state: NodeState = NodeState.SUCCEEDED) -> NodeStatus:
    ran = state == NodeState.SUCCEEDED
    return NodeStatus(
        index, node, parents, state, 1, 10 if ran else None, 30 if ran else None, 7 if ran else None, "step"
    )


def test_nodes_become_columns() -> None:
    trace = Trace("t", "r", "succeeded", "fsync", 2, 2)
    trace.fill([row(0, "a", ()), row(1, "b", (0,), NodeState.SKIPPED)])
    assert trace.parents == [[], [0]]
    assert trace.groups == ["step", "step"]
    assert trace.states == ["succeeded", "skipped"]
    assert [trace.duration(0), trace.duration(1)] == [20, 0]
    assert [trace.ran(0), trace.ran(1)] == [True, False]
    assert trace.origin() == 10


def test_groups_and_parents_can_be_those_of_a_file() -> None:
    trace = Trace("t", "r", "succeeded", "fsync", 2, 2)
    nodes = [row(0, "a", ()), row(1, "b", ()), row(2, "c", (0, 1)), row(3, "spawned", ())]
    trace.fill(nodes, {"a": "x", "b": "x", "c": "y"}, {"a": (), "b": (), "c": ("b", "a")})
    assert trace.parents == [[], [], [1, 0], []]
    assert trace.groups == ["x", "x", "y", "step"]


def test_json_has_exactly_the_agreed_keys() -> None:
    found = diamond().as_json(35_000_000)
    assert list(found) == ["run_id", "state", "makespan_s", "workers", "nodes"]
    assert found["makespan_s"] == 0.035
    assert found["workers"] == 2
    node = found["nodes"][3]
    assert list(node) == ["id", "parents", "state", "attempts", "started_ns", "ended_ns", "worker_pid"]
    assert node["parents"] == ["b", "c"]
