"""S34: a graph that is none is refused when it is built or submitted, with the path; a graph that is one never is."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from runtime import Flow, Node, NodeType, Runtime, errors
from tests.scenarios import handlers_graphs as graphs
from tests.scenarios.processes import ROOT

SIZES: Final = [3, 200, 10_000]


@pytest.fixture(scope="module")
def rt(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runtime]:
    pool = [NodeType("cpu", workers=1)]
    with Runtime(tmp_path_factory.mktemp("graphs") / "state", node_types=pool, durability="os") as opened:
        opened.submit(graphs.same, 1).result(timeout=60)
        yield opened


def chain(size: int) -> tuple[Flow, list[Node[Any]]]:
    """Nodes one after the other, with ids."""
    flow = Flow("chain")
    nodes: list[Node[Any]] = []
    for number in range(size):
        nodes.append(flow.add(graphs.same, nodes[-1] if nodes else 0, id=f"n{number}"))
    return flow, nodes


def refused_without_a_trace(rt: Runtime, flow: Flow, error: type[errors.GraphError]) -> errors.GraphError:
    """Every way to submit refuses, and the engine never hears of it."""
    before = sum(1 for _ in rt.runs())
    for way in (rt.submit, rt.submit_nowait, rt.run):
        with pytest.raises(error) as caught:
            way(flow)
    assert sum(1 for _ in rt.runs()) == before
    return caught.value


def check_unharmed(rt: Runtime, flow: Flow, size: int) -> None:
    """What was refused changed nothing: the flow is still the chain that it was, and can be submitted."""
    assert len(flow) == size
    run = rt.submit(flow)
    if size > 1000:
        run.cancel()
    else:
        assert run.result(timeout=60) == 0


@pytest.mark.parametrize("size", SIZES)
def test_s34_a_cycle_of_all_nodes(rt: Runtime, size: int) -> None:
    flow, nodes = chain(size)
    flow.link(nodes[-1], nodes[0])
    error = refused_without_a_trace(rt, flow, errors.CycleError)
    assert isinstance(error, errors.CycleError)
    path = list(error.path)
    assert path[0] == path[-1]
    assert len(path) == size + 1
    turned = path[path.index("n0") : -1] + path[: path.index("n0")]
    assert turned == [f"n{number}" for number in range(size)]
    shown = " -> ".join(path) if size <= 11 else " -> ... -> "
    assert shown in str(error)
    assert len(str(error)) < 1000


@pytest.mark.parametrize("size", SIZES)
def test_s34_a_short_cycle_among_many_nodes(rt: Runtime, size: int) -> None:
    """The error names the two nodes, not the whole graph; what is before and behind the cycle is not in the path."""
    flow, nodes = chain(size)
    flow.link(nodes[size // 2 + 1], nodes[size // 2])
    error = refused_without_a_trace(rt, flow, errors.CycleError)
    assert isinstance(error, errors.CycleError)
    assert set(error.path) == {f"n{size // 2}", f"n{size // 2 + 1}"}
    assert len(error.path) == 3


@pytest.mark.parametrize("size", SIZES)
def test_s34_a_self_edge(rt: Runtime, size: int) -> None:
    flow, nodes = chain(size)
    with pytest.raises(errors.GraphError, match=f"'n{size - 1}' cannot depend on itself"):
        flow.link(nodes[-1], nodes[-1])
    check_unharmed(rt, flow, size)


@pytest.mark.parametrize("size", SIZES)
def test_s34_a_missing_dependency(rt: Runtime, size: int) -> None:
    """A node of another flow, in every place where a node can stand."""
    flow, nodes = chain(size)
    other = Flow("other").add(graphs.same, 1, id="stranger")
    for args, kwargs in (
        ((other,), {}),
        (([1, {"deep": (other,)}],), {}),
        ((nodes[0], other), {}),
        ((1,), {"after": [nodes[0], other]}),
        ((), {"values": other}),
    ):
        with pytest.raises(errors.MissingNode, match=r"stranger of other.*'chain'"):
            flow.add(graphs.step, *args, **kwargs)
    for before, after in ((other, nodes[0]), (nodes[0], other)):
        with pytest.raises(errors.MissingNode, match="stranger"):
            flow.link(before, after)
    with pytest.raises(errors.MissingNode, match="'absent'"):
        flow.node("absent")
    check_unharmed(rt, flow, size)


@pytest.mark.parametrize("size", SIZES)
def test_s34_a_duplicate_id(rt: Runtime, size: int) -> None:
    """The later definition does not win, and the flow is as it was."""
    flow, nodes = chain(size)
    with pytest.raises(errors.DuplicateNode, match=rf"'n{size - 1}' is used twice \(nodes {size - 1} and {size}\)"):
        flow.add(graphs.fail, nodes[-1], id=f"n{size - 1}")
    check_unharmed(rt, flow, size)


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES)
def test_s34_no_false_alarm(rt: Runtime, size: int) -> None:
    """Edges against the order of the nodes, repeated edges, diamonds, parts that do not hang together."""
    flow = Flow("backwards")
    nodes = [flow.add(graphs.same, number, id=f"n{number}") for number in range(size)]
    for number in range(1, size):
        flow.link(nodes[number], nodes[number - 1])
        if number > 1:
            flow.link(nodes[number], nodes[number - 2])
        flow.link(nodes[number], nodes[number - 1])
    flow.add(graphs.same, 1)
    run = rt.submit(flow)
    assert run.wait(timeout=60) == "succeeded"
    assert run.status().counts.succeeded == size + 1


def test_s34_ids_that_look_like_numbers_are_ids(rt: Runtime) -> None:
    flow = Flow("numbers")
    for name in ("2", "0", "1"):
        flow.add(graphs.same, name, id=name)
    run = rt.run(flow)
    assert run.results() == {"2": "2", "0": "0", "1": "1"}
    assert [run.result(name) for name in ("0", "1", "2")] == ["0", "1", "2"]
    assert [run.result(number) for number in (0, 1, 2)] == ["2", "0", "1"]
    with pytest.raises(errors.MissingNode):
        run.result(3)
    with pytest.raises(errors.MissingNode):
        run.result("3")


# --- files -----------------------------------------------------------------------------------------------------------


def workflow_file(path: Path, tasks: list[dict[str, Any]]) -> Path:
    """A WfFormat file with these tasks."""
    rows = [{"name": task["id"], "parents": [], "children": [], **task} for task in tasks]
    runs = [{"id": identity, "runtimeInSeconds": 0.001} for identity in dict.fromkeys(task["id"] for task in tasks)]
    workflow = {"specification": {"tasks": rows, "files": []}, "execution": {"tasks": runs}}
    path.write_text(json.dumps({"name": "made", "schemaVersion": "1.5", "workflow": workflow}))
    return path


def run_command(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """`python -m runtime` in a process of its own."""
    command = [sys.executable, "-m", "runtime", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)


def linked(size: int) -> list[dict[str, Any]]:
    """A chain as a file has it."""
    return [
        {
            "id": f"t{number}",
            "parents": [f"t{number - 1}"] if number else [],
            "children": [f"t{number + 1}"] if number + 1 < size else [],
        }
        for number in range(size)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("cycle", ["cycle", "t0", " -> "]),
        ("self edge", ["t1"]),
        ("missing dependency", ['"nobody"', "tasks[1].parents[1]"]),
        ("duplicate id", ['"t1" is used twice', "tasks[1]"]),
    ],
)
def test_s34_a_file_is_refused_before_anything_runs(tmp_path: Path, size: int, fault: str, said: list[str]) -> None:
    """With the place in the file, exit code 2, and no traceback."""
    tasks = linked(size)
    if fault == "cycle":
        tasks[0]["parents"] = [f"t{size - 1}"]
        tasks[-1]["children"] = ["t0"]
    elif fault == "self edge":
        tasks[1]["parents"].append("t1")
        tasks[1]["children"].append("t1")
    elif fault == "missing dependency":
        tasks[1]["parents"].append("nobody")
    else:
        tasks.append(dict(tasks[1]))
    done = run_command("run", workflow_file(tmp_path / "made.json", tasks), "--state", tmp_path / "state")
    assert done.returncode == 2, done.stderr
    for word in said:
        assert word in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr) < 2000
    assert not (tmp_path / "state").exists()
