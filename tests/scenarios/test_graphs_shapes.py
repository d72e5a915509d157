"""S31, S32: diamonds and fan-ins, while workers die and at every width: each node once, with its inputs in order."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from runtime import Flow, NodeType, Retry, Runtime, TaskRegistry
from tests.scenarios import handlers
from tests.scenarios import handlers_graphs as graphs
from tests.scenarios.processes import OwnFamily, kill
from tests.scenarios.record import log_of
from tests.scenarios.waiting import await_lines, lines, until, words

pytestmark = pytest.mark.slow

POOL: Final = [NodeType("cpu", workers=2)]


def diamond(path: Path, gate: Path, retry: Any = None) -> Flow:
    """A -> B, C -> D, whose B holds at its first attempt."""
    flow = Flow("diamond", retry=retry)
    noted = str(path)
    a = flow.add(graphs.step, noted, "A", id="A")
    b = flow.add(graphs.die_once, noted, "B", str(gate), a, id="B")
    c = flow.add(graphs.step, noted, "C", a, id="C")
    flow.add(graphs.collect_all, noted, b, c, id="D")
    return flow


@pytest.mark.parametrize("retry", [None, 3, Retry(max_attempts=2, base=0.01)])
def test_s31_diamond_whose_worker_of_b_is_killed(state_dir: Path, tmp_path: Path, retry: Any) -> None:
    path, gate = tmp_path / "runs", tmp_path / "never"
    with Runtime(state_dir, node_types=POOL, durability="os") as rt:
        run = rt.submit(diamond(path, gate, retry))
        until(lambda: words(path) == {"A": 1, "B": 1, "C": 1}, "A, B and C")
        until(lambda: run.status().counts.succeeded == 2, "the ends of A and C")
        (held,) = [line for line in lines(path) if line.word == "B"]
        kill(held.pid)
        assert run.result(timeout=30) == ["B", "C"]
        assert {node.id: node.attempts for node in run.nodes()} == {"A": 1, "B": 2, "C": 1, "D": 1}
    assert words(path) == {"A": 1, "B": 2, "C": 1, "collect-2": 1}
    assert set(log_of(state_dir).endings().values()) == {1}


def test_s31_diamond_whose_engine_is_killed_too(state_dir: Path, tmp_path: Path) -> None:
    """What had ended is in the log: A and C run once, whoever dies."""
    path, gate = tmp_path / "runs", tmp_path / "never"
    with Runtime(state_dir, node_types=POOL, durability="os") as rt:
        run = rt.submit(diamond(path, gate))
        until(lambda: run.status().counts.succeeded == 2, "the ends of A and C")
        await_lines(path, 3)
        kill(OwnFamily(rt).engine)
        assert run.result(timeout=30) == ["B", "C"]
    assert words(path) == {"A": 1, "B": 2, "C": 1, "collect-2": 1}


def test_s31_diamond_whose_d_dies(state_dir: Path, tmp_path: Path) -> None:
    """The parents' results are there for its second attempt."""
    path = tmp_path / "runs"
    with Runtime(state_dir, node_types=POOL, durability="os") as rt:
        flow = Flow("diamond")
        a = flow.add(graphs.step, str(path), "A")
        b, c = flow.add(graphs.step, str(path), "B", a), flow.add(graphs.step, str(path), "C", a)
        flow.add(graphs.die_once, str(path), "D", str(tmp_path / "never"), b, c)
        run = rt.submit(flow)
        kill(await_lines(path, 4)[-1].pid)
        assert run.result(timeout=30) == "D"
    assert words(path) == {"A": 1, "B": 1, "C": 1, "D": 2}


def test_s31_many_diamonds_while_workers_die(state_dir: Path, tmp_path: Path) -> None:
    """A hundred of them; three times the worker of a B is killed on the way."""
    gate, paths = tmp_path / "gate", [tmp_path / f"runs-{number}" for number in range(100)]
    with Runtime(state_dir, node_types=POOL, durability="os") as rt:
        runs = [rt.submit(diamond(path, gate)) for path in paths]
        killed: set[int] = set()
        for _ in range(3):
            held = until(lambda: {x.pid for path in paths for x in lines(path) if x.word == "B"} - killed, "a B")
            kill(min(held))
            killed.add(min(held))
        gate.touch()
        assert [run.result(timeout=60) for run in runs] == [["B", "C"]] * 100
    counted = [words(path) for path in paths]
    assert all((count["A"], count["C"], count["collect-2"]) == (1, 1, 1) for count in counted)
    assert sum(count["B"] for count in counted) == 103
    assert set(log_of(state_dir).endings().values()) == {1}


@pytest.mark.parametrize("count", [0, 1, 2, 1000])
@pytest.mark.parametrize("mode", ["process", "asyncio"])
def test_s32_fan_in_is_called_once_with_a_list(state_dir: Path, tmp_path: Path, count: int, mode: Any) -> None:
    """On eight workers. Also as arguments of their own, and with none at all."""
    path = tmp_path / "runs"
    workers = NodeType(
        "cpu", workers=8 if mode == "process" else 2, mode=mode, concurrency=4 if mode != "process" else 0
    )
    with Runtime(state_dir, node_types=[workers], durability="os") as rt:
        flow = Flow("fan-in")
        headers = [flow.add(graphs.same if mode == "process" else graphs.same_async, n) for n in range(count)]
        flow.add(graphs.collect, str(path), headers, id="list")
        flow.add(graphs.collect_all, str(path), *headers, id="arguments")
        flow.add(graphs.count_of, headers, id="count")
        run = rt.run(flow, timeout=60)
        assert run.result("list") == ["list", list(range(count))]
        assert run.result("arguments") == list(range(count))
        assert run.result("count") == count
    assert words(path) == {f"collect-{count}": 2}


def test_s32_a_thousand_headers_that_end_at_the_same_instant(state_dir: Path, tmp_path: Path) -> None:
    """Thirty fan-ins in a row, whose headers all wait for one gate on eight workers."""
    path, gate = tmp_path / "runs", tmp_path / "gate"
    with Runtime(state_dir, node_types=[NodeType("cpu", workers=8)], durability="os") as rt:
        flow = Flow("same instant")
        ready = [flow.add(handlers.hold, str(tmp_path / "held"), "held", str(gate)) for _ in range(8)]
        for number in range(30):
            headers = [flow.add(graphs.same, place, after=[ready[place % 8]]) for place in range(1000)]
            flow.add(graphs.in_order, headers, id=f"fan-in {number}")
            flow.add(graphs.step, str(path), f"after-{number}", *headers[:2], id=f"after {number}")
        run = rt.submit(flow)
        await_lines(tmp_path / "held", 8)
        gate.touch()
        run.raise_if_failed(timeout=60)
        assert [run.result(f"fan-in {number}") for number in range(30)] == [[1000, 1000]] * 30
    assert words(path) == {f"after-{number}": 1 for number in range(30)}


def test_s32_any_succeeded_starts_once_at_the_first_success(state_dir: Path, tmp_path: Path) -> None:
    """While one parent still runs; it is not called again for each of the others."""
    path, gate = tmp_path / "runs", tmp_path / "gate"
    with Runtime(state_dir, node_types=POOL, durability="os") as rt:
        flow = Flow("first of many")
        slow = flow.add(handlers.hold, str(tmp_path / "held"), "held", str(gate))
        quick = [flow.add(graphs.same, number) for number in range(50)]
        flow.add(graphs.step, str(path), "any", slow, *quick, id="any", trigger="any_succeeded")
        run = rt.submit(flow)
        await_lines(path, 1)
        until(lambda: run.node("any").status().done, "the end of what starts at the first success")
        assert not run.done()
        gate.touch()
        run.raise_if_failed(timeout=30)
    assert words(path) == {"any": 1}


def test_s32_the_same_parent_twice(state_dir: Path, tmp_path: Path) -> None:
    """As argument, inside containers, and as control edge: one node, one call, each place filled."""
    path = tmp_path / "runs"
    tasks = TaskRegistry()
    with Runtime(state_dir, tasks, node_types=POOL, durability="os") as rt:
        flow = Flow("repeats")
        one, two = flow.add(graphs.same, 1), flow.add(graphs.same, 2)
        flow.add(graphs.collect_all, str(path), one, [one, {"two": two}], (two, one), after=[one, one, two], id="all")
        run = rt.run(flow, timeout=30)
        assert run.result("all") == [1, [1, {"two": 2}], (2, 1)]
    assert words(path) == {"collect-3": 1}
