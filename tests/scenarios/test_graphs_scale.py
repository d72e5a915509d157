"""S29, S30: a hundred thousand children and a chain of ten thousand, with what they cost, and a restart on the way."""

from __future__ import annotations

import gc
import time
from pathlib import Path
from typing import Final

import psutil
import pytest

from runtime import Flow, NodeState, NodeType, Runtime, errors
from tests.scenarios import handlers
from tests.scenarios import handlers_graphs as graphs
from tests.scenarios.processes import OwnFamily, kill
from tests.scenarios.record import log_of
from tests.scenarios.waiting import await_gone, await_lines, lines, until, words

pytestmark = pytest.mark.slow

CHILDREN: Final = 100_000
ENGINE_BYTES_PER_CHILD: Final = 400
FACE_BYTES_PER_CHILD: Final = 900
"""Both are about twice what was measured (CPython 3.11): 190 in the engine, 480 in the program that holds the flow."""
CHAIN: Final = 10_000
POOL: Final = [NodeType("cpu", workers=2)]


def rss(pid: int) -> int:
    """Resident bytes of a process."""
    return int(psutil.Process(pid).memory_info().rss)


def fan_out(count: int, gate: Path) -> Flow:
    """One root that holds, `count` children behind it, one node that takes all of their results."""
    flow = Flow("fan-out")
    root = flow.add(handlers.wait_for, str(gate))
    children = [flow.add(graphs.same, number, after=[root]) for number in range(count)]
    flow.add(graphs.in_order, children, id="all")
    return flow


def test_s29_a_hundred_thousand_children_and_a_fan_in(state_dir: Path, tmp_path: Path) -> None:
    """One call. Memory per child is bounded while they wait and when they have ended."""
    with Runtime(state_dir, node_types=POOL, durability="os") as rt:
        engine = OwnFamily(rt).engine
        gates = [tmp_path / "warm", tmp_path / "gate"]
        gates[0].touch()
        rt.run(fan_out(1000, gates[0]), timeout=60)
        gc.collect()
        face_before, engine_before = rss(psutil.Process().pid), rss(engine)
        flow = fan_out(CHILDREN, gates[1])
        run = rt.submit(flow)
        assert run.status().counts.pending == CHILDREN + 1
        waiting = (rss(engine) - engine_before) / CHILDREN
        face = (rss(psutil.Process().pid) - face_before) / CHILDREN
        gates[1].touch()
        assert run.result("all", timeout=60) == [CHILDREN, CHILDREN]
        ended = (rss(engine) - engine_before) / CHILDREN
        assert waiting < ENGINE_BYTES_PER_CHILD
        assert ended < ENGINE_BYTES_PER_CHILD
        assert face < FACE_BYTES_PER_CHILD
    assert sum(log_of(state_dir).completed.values()) == CHILDREN + 2 + 1002


def test_s29_children_that_a_task_adds(state_dir: Path) -> None:
    """A task adds a hundred nodes, each of them a thousand and one that collects them."""
    with Runtime(state_dir, node_types=POOL, durability="os") as rt:
        flow = Flow("tree")
        flow.add(graphs.grow_tree, 100, CHILDREN // 100)
        run = rt.run(flow, timeout=60)
        assert run.status().counts.succeeded == 1 + 100 + CHILDREN + 100


def test_s29_too_many_children_of_one_attempt_are_refused_with_advice(state_dir: Path) -> None:
    with Runtime(state_dir, node_types=POOL, durability="os") as rt:
        failed = rt.submit(graphs.grow_too_many, CHILDREN).exception(timeout=60)
        assert failed is not None
        assert failed.kind == "error"
        assert "let spawned tasks spawn the rest" in failed.message
        assert isinstance(failed.__cause__, errors.GraphError)


@pytest.mark.parametrize("node_type", ["cpu", "io"])
def test_s29_a_fan_in_that_is_larger_than_any_message(state_dir: Path, node_type: str) -> None:
    """A thousand results of eight KiB are twice what a queue holds; also with an argument beside them."""
    pools = [NodeType("cpu", workers=2), NodeType("io", workers=1, mode="asyncio", concurrency=10)]
    with Runtime(state_dir, node_types=pools, durability="os") as rt:
        flow = Flow("wide", node_type=node_type)
        texts = [flow.add(graphs.text_of, number, 8192) for number in range(1000)]
        flow.add(graphs.firsts, texts, id="list")
        flow.add(graphs.collect_all, str(state_dir / "noted"), *texts, id="arguments")
        run = rt.run(flow, timeout=60)
        assert run.result("list") == list(range(1000))
        assert [len(text) for text in run.result("arguments")] == [8192] * 1000


def test_s29_a_map_does_not_hold_what_it_has_given_out(state_dir: Path) -> None:
    """The same number of independent tasks, with the memory of a window and not of the whole."""
    with Runtime(state_dir, node_types=POOL, durability="os") as rt:
        for _ in rt.map(graphs.same, range(5_000)):
            pass
        gc.collect()
        before, most, expected = rss(psutil.Process().pid), 0, 0
        for number in rt.map(graphs.same, range(CHILDREN), window=5_000):
            assert number == expected
            expected += 1
            if not number % 10_000:
                most = max(most, rss(psutil.Process().pid))
        assert expected == CHILDREN
        assert most - before < 30_000_000


# --- S30 -------------------------------------------------------------------------------------------------------------


def chain(path: Path, length: int, hold_at: int, gate: Path) -> Flow:
    """Each node takes the number of the one before; at one place it waits for the gate."""
    flow = Flow("chain")
    node = flow.add(graphs.same, 0)
    for number in range(length):
        hold = [flow.add(handlers.wait_for, str(gate), after=[node])] if number == hold_at else []
        node = flow.add(graphs.add_one, str(path), node, after=hold)
    return flow


@pytest.mark.parametrize("ending", ["close", "kill the engine", "kill everything"])
def test_s30_a_chain_of_ten_thousand_resumes_where_it_was(state_dir: Path, tmp_path: Path, ending: str) -> None:
    """Half of it runs, the engine ends in one of three ways, the other half runs; nothing runs twice."""
    path, gate, half = tmp_path / "runs", tmp_path / "gate", CHAIN // 2
    with Runtime(state_dir, node_types=POOL, durability="os") as rt:
        family = OwnFamily(rt)
        run = rt.submit(chain(path, CHAIN, half, gate), run_id="chain")
        await_lines(path, half)
        until(lambda: run.status().counts.succeeded == half + 1, "half of the chain")
        if ending == "kill the engine":
            kill(family.engine)
            gate.touch()
            assert run.result(timeout=60) == CHAIN
        elif ending == "kill everything":
            everyone = family.all
            kill(family.spawner, *everyone)
            await_gone(everyone)
        rt.close(drain=False)
    gate.touch()
    with Runtime(state_dir, node_types=POOL, durability="os") as rt:
        run = rt.handle("chain")
        assert run.result(timeout=60) == CHAIN
        assert run.status().counts.succeeded == CHAIN + 2
    noted = [line.word for line in lines(path)]
    assert noted == [str(number) for number in range(CHAIN)]
    assert set(log_of(state_dir).endings().values()) == {1}


def test_s30_a_chain_that_fails_in_the_middle_is_skipped_to_its_end(state_dir: Path) -> None:
    """Ten thousand skips in a row are no recursion, neither in the engine nor in the replay."""
    with Runtime(state_dir, node_types=POOL, durability="os") as rt:
        flow = Flow("broken chain")
        node = flow.add(graphs.same, 0)
        for number in range(CHAIN):
            node = flow.add(graphs.fail if number == 10 else graphs.same, node)
        run = rt.submit(flow, run_id="broken")
        assert run.wait(timeout=60) == "failed"
        expected = run.status().counts
        assert (expected.succeeded, expected.failed, expected.skipped) == (11, 1, CHAIN - 11)
    with Runtime(state_dir, node_types=POOL, durability="os") as rt:
        assert rt.handle("broken").status().counts == expected
        assert rt.handle("broken").node(CHAIN).status().state == NodeState.SKIPPED


def test_s30_a_chain_of_spawned_nodes(state_dir: Path, tmp_path: Path) -> None:
    """Each link adds the next one."""
    path = tmp_path / "runs"
    with Runtime(state_dir, node_types=POOL, durability="none") as rt:
        flow = Flow("spawned chain")
        flow.add(graphs.grow_on, str(path), 2000)
        started = time.monotonic()
        run = rt.run(flow, timeout=60)
        assert run.status().counts.succeeded == 2001
        assert time.monotonic() - started < 30
    assert words(path)["link"] == 2001
