"""What a flow says of itself: node types that it needs, and an identity that changes with its definition."""

from __future__ import annotations

import asyncio
import math

import pytest

from runtime.cli.kinds import FlowFacts, with_workers
from runtime.config import NodeType
from runtime.flow import Flow
from runtime.registry import TaskRegistry

registry = TaskRegistry()


@registry.task(node_type="cpu")
def compute(value: int) -> int:
    return value + 1


@registry.task(node_type="http")
async def fetch(value: int) -> int:
    return value


def flow_of(*values: int, name: str = "two kinds!") -> Flow:
    flow = Flow(name)
    for value in values:
        flow.add(compute, flow.add(fetch, value))
    return flow


def test_the_same_definition_has_the_same_run_ids() -> None:
    facts = FlowFacts(flow_of(1, 2))
    assert facts.run_id(3) == FlowFacts(flow_of(1, 2)).run_id(3)
    assert facts.run_id(3) != facts.run_id(4)
    assert facts.run_id(3) != FlowFacts(flow_of(1, 3)).run_id(3)
    assert facts.run_id(3).startswith("two-kinds-")


@pytest.mark.parametrize(("name", "start"), [("../é", "flow-"), ("x" * 500, "x" * 60 + "-"), (".a b", "a-b-")])
def test_run_ids_can_name_a_folder(name: str, start: str) -> None:
    run_id = FlowFacts(flow_of(1, name=name)).run_id(1)
    assert run_id.startswith(start)
    assert len(run_id) < 100


def test_node_types_that_the_tasks_name() -> None:
    flow = flow_of(1)
    flow.add(math.sqrt, 2.0)
    flow.add(asyncio.sleep, 0.0)
    found = {node_type.name: node_type.mode for node_type in FlowFacts(flow).default_node_types()}
    assert found == {"http": "asyncio", "cpu": "process", "default": "process"}
    assert [node_type.name for node_type in FlowFacts(Flow()).default_node_types()] == ["default"]


def test_pools_by_task() -> None:
    flow = flow_of(1)
    flow.add(math.sqrt, 2.0)
    pools = FlowFacts(flow).pools([NodeType("cpu"), NodeType("http")])
    assert pools == {"compute": "cpu", "fetch": "http", "sqrt": "cpu"}


def test_the_number_of_workers_is_of_processes_only() -> None:
    node_types = [NodeType("cpu"), NodeType("http", workers=1, mode="asyncio")]
    assert [n.workers for n in with_workers(node_types, 5)] == [5, 1]
    assert with_workers(node_types, None) == node_types


def test_large_values_are_not_written_to_tell_a_definition() -> None:
    flow = flow_of(1)
    flow.add(len, b"x" * 1_000_000)
    facts = FlowFacts(flow)
    assert facts.digest == FlowFacts(flow).digest
    assert {kind["name"] for kind in facts.kinds} == {"compute", "fetch", "len"}
