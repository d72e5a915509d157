"""S35: a task that needs tasks. A Runtime inside a worker is refused, with the way that works: `TaskContext.spawn`."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from runtime import Flow, NodeType, Runtime, errors
from tests.scenarios import handlers_graphs as graphs
from tests.scenarios.processes import OwnFamily, kill
from tests.scenarios.waiting import await_lines, lines, until, words

pytestmark = pytest.mark.slow

POOLS: Final = [NodeType("cpu", workers=2), NodeType("io", workers=1, mode="asyncio", concurrency=10)]


@pytest.mark.parametrize("way", ["process", "asyncio", "coroutine in a process", "other folder"])
def test_s35_a_runtime_inside_a_task_is_refused_with_the_way_that_works(
    state_dir: Path, tmp_path: Path, way: str
) -> None:
    with Runtime(state_dir, node_types=POOLS, durability="os") as rt:
        family = OwnFamily(rt)
        pool = rt.options(node_type="io" if way == "asyncio" else "cpu")
        folder = str(tmp_path / "other") if way == "other folder" else str(state_dir)
        fn = graphs.open_runtime_async if "oroutine" in way or way == "asyncio" else graphs.open_runtime
        failed = pool.submit(fn, folder).exception(timeout=30)
        assert failed is not None
        assert failed.kind == "error"
        assert isinstance(failed.__cause__, errors.NestedRuntime)
        assert "cannot be opened inside a worker" in failed.message
        assert "TaskContext.spawn" in failed.message
        assert not (tmp_path / "other").exists()
        until(lambda: len(family.all) == 1 + 3, "the engine and its workers, and nobody else")
        assert pool.submit(graphs.same, 1).result(timeout=30) == 1


def test_s35_a_fork_of_a_worker_is_refused_too(state_dir: Path) -> None:
    with Runtime(state_dir, node_types=POOLS, durability="os") as rt:
        assert rt.submit(graphs.open_runtime_in_fork, str(state_dir)).result(timeout=30) == 10


def test_s35_two_parents_with_two_children_each_on_a_pool_of_two(state_dir: Path, tmp_path: Path) -> None:
    """No deadlock, because nobody waits in a slot; and never more workers than the pool may have."""
    path = tmp_path / "runs"
    with Runtime(state_dir, node_types=POOLS[:1], durability="os") as rt:
        family = OwnFamily(rt)
        flow = Flow("parents")
        for name in ("left", "right"):
            flow.add(graphs.ask_children, str(path), name, id=name)
        run = rt.run(flow, timeout=30)
        found = run.results()
        assert {name for name in found if name.endswith("sum")} == {"left sum", "right sum"}
        pids = set(family.workers)
        assert len(pids) == 2
        assert set(found["left sum"] + found["right sum"]) <= pids
    assert words(path) == {"ran": 4, "collect-2": 2}


def test_s35_hundreds_of_parents_on_a_pool_of_two(state_dir: Path, tmp_path: Path) -> None:
    path = tmp_path / "runs"
    with Runtime(state_dir, node_types=POOLS[:1], durability="os") as rt:
        family = OwnFamily(rt)
        flow = Flow("many parents")
        for number in range(300):
            flow.add(graphs.ask_children, str(path), f"p{number}")
        run = rt.run(flow, timeout=60)
        assert run.status().counts.succeeded == 300 * 4
        assert len(family.workers) == 2
    assert words(path) == {"ran": 600, "collect-2": 300}


def test_s35_what_an_attempt_added_before_it_died_never_was(state_dir: Path, tmp_path: Path) -> None:
    path, gate = tmp_path / "runs", tmp_path / "never"
    with Runtime(state_dir, node_types=POOLS[:1], durability="os") as rt:
        flow = Flow("dying parent")
        flow.add(graphs.grow_twice_and_die, str(path), str(gate), id="parent")
        run = rt.submit(flow)
        kill(await_lines(path, 1)[0].pid)
        run.raise_if_failed(timeout=30)
        assert run.status().counts.succeeded == 2
    assert [line.word for line in lines(path)] == ["parent", "parent", "child"]
