"""Dynamic graphs: nodes that tasks add with `TaskContext.spawn`, through failures, cancels and restarts."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from runtime import Flow, NodeState, NodeType, Runtime, errors
from tests.integration import handlers
from tests.scenarios.processes import OwnFamily, kill
from tests.scenarios.waiting import lines, until, words

pytestmark = pytest.mark.slow

POOL: Final = [NodeType("cpu", workers=2)]


def calls(number: int) -> int:
    """How many calls the recursion makes."""
    return 1 if number < 2 else 1 + calls(number - 1) + calls(number - 2)


@pytest.mark.parametrize("mode", ["process", "asyncio"])
def test_a_recursion_becomes_a_graph(state_dir: Path, mode: Any) -> None:
    with Runtime(state_dir, node_types=[NodeType("cpu", workers=2, mode=mode)], durability="os") as rt:
        flow = Flow("fibonacci")
        flow.add(handlers.fibonacci, 12)
        run = rt.run(flow, timeout=60)
        assert run.status().counts.succeeded == calls(12)
        ids = [node.id for node in run.nodes()]
        assert ids.count("12 left") == 1


def test_edges_among_added_nodes(state_dir: Path, tmp_path: Path) -> None:
    """With data and without, to nodes of the same attempt; results are there under the ids that were given."""
    path = tmp_path / "noted"
    with Runtime(state_dir, node_types=POOL, durability="os") as rt:
        flow = Flow("planned")
        flow.add(handlers.plan, ["c", "a", "b"], str(path), id="plan")
        run = rt.run(flow, timeout=30)
        assert run.result("join") == "C A B"
        assert run.results() == {"plan": 3, "c": "C", "a": "A", "b": "B", "join": "C A B"}
        assert [node.parents for node in run.nodes()] == [(), (), (1,), (2,), (1, 2, 3)]
    assert [line.word for line in lines(path)] == ["c", "a", "b", "join"]


def test_a_single_task_may_add_nodes_too(state_dir: Path, tmp_path: Path) -> None:
    path = tmp_path / "noted"
    with Runtime(state_dir, node_types=POOL, durability="os") as rt:
        assert rt.submit(handlers.plan, ["x"], str(path)).result(timeout=30) == 1
        until(lambda: words(path) == {"x": 1, "join": 1}, "the added nodes")


@pytest.mark.parametrize("ending", ["close", "kill the engine", "kill everything"])
def test_added_nodes_survive_a_restart(state_dir: Path, tmp_path: Path, ending: str) -> None:
    path, gate = tmp_path / "noted", tmp_path / "gate"
    with Runtime(state_dir, node_types=POOL, durability="os") as rt:
        flow = Flow("growing")
        flow.add(handlers.add_and_hold, str(path), str(gate))
        run = rt.submit(flow, run_id="growing")
        until(lambda: run.status().counts.total == 5, "the added nodes")
        family = OwnFamily(rt)
        if ending == "kill the engine":
            kill(family.engine)
        elif ending == "kill everything":
            kill(family.spawner, *family.all)
        rt.close(drain=False)
    gate.touch()
    with Runtime(state_dir, node_types=POOL, durability="os") as rt:
        run = rt.handle("growing")
        assert run.wait(timeout=30) == "succeeded"
        assert run.results() == {"0": "added", **{f"child {number}": "held" for number in range(4)}}


def test_a_cancel_reaches_added_nodes(state_dir: Path, tmp_path: Path) -> None:
    path, gate = tmp_path / "noted", tmp_path / "never"
    with Runtime(state_dir, node_types=POOL, durability="os") as rt:
        flow = Flow("cancelled")
        flow.add(handlers.add_and_hold, str(path), str(gate))
        run = rt.submit(flow)
        until(lambda: sum(len(lines(tmp_path / f"noted-{number}")) for number in range(4)) == 2, "two to run")
        assert run.cancel()
        assert run.wait(timeout=30) == "cancelled"
        assert run.status().counts.cancelled == 4


def test_added_nodes_fail_like_others(state_dir: Path) -> None:
    with Runtime(state_dir, node_types=POOL, durability="os") as rt:
        flow = Flow("failing")
        flow.add(handlers.add_bad, id="parent")
        run = rt.submit(flow)
        assert run.wait(timeout=30) == "failed"
        states = {node.id: node.state for node in run.nodes()}
        assert states == {"parent": NodeState.SUCCEEDED, "bad": NodeState.FAILED, "behind": NodeState.SKIPPED}
        with pytest.raises(errors.TaskFailed, match="child"):
            run.result("bad")
