"""Batching handlers: single calls that are run together, with real processes that die, hang and answer wrongly."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from runtime import AsyncRuntime, Flow, NodeType, Runtime, Scheduling
from runtime.errors import TaskCancelled, TaskFailed, TaskSkipped
from tests.scenarios import handlers_batch as calls
from tests.scenarios.processes import OwnFamily, kill
from tests.scenarios.waiting import await_gone, await_lines, until, words

pytestmark = pytest.mark.slow

NODE_TYPES = (NodeType("default", workers=2), NodeType("io", mode="asyncio", workers=1, concurrency=4))


def runtime(state_dir: Path, **options: Any) -> Runtime:
    return Runtime(state_dir, calls.TASKS, node_types=NODE_TYPES, durability="os", **options)


def batches(path: Path) -> Counter[int]:
    """How many batches there were of each size."""
    found: Counter[int] = Counter()
    for word, count in words(path).items():
        found[int(word.removeprefix("batch-of-"))] += count
    return found


def failure(handle: Any) -> TaskFailed:
    found = handle.exception(timeout=30)
    assert isinstance(found, TaskFailed)
    return found


@pytest.mark.parametrize("handler", [calls.double, calls.double_async, calls.double_in_thread])
def test_single_calls_are_run_together(state_dir: Path, tmp_path: Path, handler: Any) -> None:
    runs = str(tmp_path / "runs")
    with runtime(state_dir) as rt:
        handles = [rt.submit(handler, [number, runs]) for number in range(12)]
        assert [handle.result(timeout=30) for handle in handles] == [2 * number for number in range(12)]
    sizes = batches(Path(runs))
    assert sum(size * count for size, count in sizes.items()) == 12
    assert sizes[5] == 2


def test_items_of_a_map_and_nodes_of_a_flow_are_run_together(state_dir: Path, tmp_path: Path) -> None:
    runs = str(tmp_path / "runs")
    with runtime(state_dir) as rt:
        assert list(rt.map(calls.double, calls.numbers_of(runs, 10))) == [2 * number for number in range(10)]
        flow = Flow("pairs")
        first = [flow.add(calls.double, [number, runs]) for number in range(5)]
        last = flow.add(sum_of, first)
        assert rt.submit(flow).result(last, timeout=30) == 20
    assert batches(Path(runs))[5] >= 2


def sum_of(numbers: list[int]) -> int:
    return sum(numbers)


def test_a_call_that_waits_says_for_what(state_dir: Path, tmp_path: Path) -> None:
    runs = str(tmp_path / "runs")
    with runtime(state_dir) as rt:
        handles = [rt.submit(calls.patient, [number, runs]) for number in range(3)]
        until(lambda: "3 of 4" in handles[0].why(), "three to wait")
        assert handles[2].why().startswith("it waits for its batch: 3 of 4, until 2")
        handles.append(rt.submit(calls.patient, [3, runs]))
        assert [handle.result(timeout=30) for handle in handles] == [0, 1, 2, 3]
    assert batches(Path(runs)) == {4: 1}


def test_a_call_that_waits_can_be_cancelled(state_dir: Path, tmp_path: Path) -> None:
    runs = str(tmp_path / "runs")
    with runtime(state_dir) as rt:
        handles = [rt.submit(calls.patient, [number, runs]) for number in range(3)]
        until(lambda: "3 of 4" in handles[0].why(), "three to wait")
        cancelled = handles.pop(1)
        assert cancelled.cancel()
        with pytest.raises(TaskCancelled):
            cancelled.result(timeout=30)
        handles += [rt.submit(calls.patient, [number, runs]) for number in (3, 4)]
        assert [handle.result(timeout=30) for handle in handles] == [0, 2, 3, 4]
    assert batches(Path(runs)) == {4: 1}


def test_calls_that_wait_outlive_the_engine(state_dir: Path, tmp_path: Path) -> None:
    runs = str(tmp_path / "runs")
    with runtime(state_dir) as rt:
        handles = [rt.submit(calls.patient, [number, runs]) for number in range(3)]
        until(lambda: "3 of 4" in handles[0].why(), "three to wait")
        family = OwnFamily(rt)
        engine, workers = family.engine, family.workers
        kill(engine)
        await_gone([engine, *workers])
        handles.append(rt.submit(calls.patient, [3, runs]))
        assert [handle.result(timeout=30) for handle in handles] == [0, 1, 2, 3]
    assert batches(Path(runs)) == {4: 1}


def test_a_batch_that_kills_its_worker_is_taken_apart(state_dir: Path, tmp_path: Path) -> None:
    """The innocent run once more, alone, and succeed; the culprit is given up as it would be without a batch."""
    runs = str(tmp_path / "runs")
    numbers = [10, 11, 12, calls.POISON, 14, 15, 16, 17]
    with runtime(state_dir) as rt:
        handles = [rt.submit(calls.dies_of_poison, [number, runs]) for number in numbers]
        guilty = handles.pop(3)
        assert [handle.result(timeout=60) for handle in handles] == [10, 11, 12, 14, 15, 16, 17]
        assert failure(guilty).kind == "crash"
        assert guilty.status().attempts == 4
    assert batches(Path(runs)) == {8: 1, 1: 7 + 3}


@pytest.mark.parametrize(
    "handler", [calls.slow_in_company, calls.slow_in_company_async, calls.slow_in_company_in_thread]
)
def test_a_batch_that_runs_over_its_timeout_is_taken_apart(state_dir: Path, tmp_path: Path, handler: Any) -> None:
    runs = str(tmp_path / "runs")
    with runtime(state_dir) as rt:
        several = rt.options(retry=2)
        handles = [several.submit(handler, [number, runs]) for number in (1, calls.POISON, 2)]
        assert [handles[0].result(timeout=30), handles[2].result(timeout=30)] == [1, 2]
        assert failure(handles[1]).kind == "timeout"
    assert batches(Path(runs)) == {3: 1, 1: 3}


def test_one_call_may_fail_alone(state_dir: Path, tmp_path: Path) -> None:
    runs = str(tmp_path / "runs")
    with runtime(state_dir) as rt:
        handles = [rt.submit(calls.refuses_poison, [number, runs]) for number in (1, calls.POISON, 2, 3)]
        assert [handle.result(timeout=30) for handle in (handles[0], *handles[2:])] == [1, 2, 3]
        assert failure(handles[1]).type_name == "ValueError"
        assert handles[1].status().attempts == 2
    assert batches(Path(runs)) == {4: 1, 1: 1}


def test_an_exception_is_that_of_all_calls_and_all_are_retried(state_dir: Path, tmp_path: Path) -> None:
    runs = str(tmp_path / "runs")
    with runtime(state_dir) as rt:
        handles = [rt.submit(calls.fails_once, [number, runs]) for number in range(4)]
        assert [handle.result(timeout=30) for handle in handles] == [0, 1, 2, 3]
        assert [handle.status().attempts for handle in handles] == [2] * 4


@pytest.mark.parametrize(
    ("what", "says"),
    [("short", "returned 1 result for 3 calls"), ("number", "type int for 3 calls"), ("generator", "a generator")],
)
def test_a_wrong_result_is_said_to_all(state_dir: Path, tmp_path: Path, what: str, says: str) -> None:
    with runtime(state_dir) as rt:
        handles = [rt.submit(calls.wrong_result, [what, ""]) for _ in range(3)]
        for handle in handles:
            assert says in str(failure(handle))
            assert "WrongBatchResult" in failure(handle).type_name


@pytest.mark.parametrize("handler", [calls.held, calls.held_async])
def test_a_running_batch_is_stopped_only_when_nobody_wants_it(state_dir: Path, tmp_path: Path, handler: Any) -> None:
    runs, gate = str(tmp_path / "runs"), tmp_path / "gate"
    with runtime(state_dir) as rt:
        handles = [rt.submit(handler, [word, runs, str(gate)]) for word in "abc"]
        await_lines(Path(runs), 1)
        assert handles[1].cancel()
        until(lambda: "ends with the batch" in handles[1].why(), "the cancel to be said")
        assert "in a batch of 3" in handles[0].why()
        gate.touch()
        assert [handle.result(timeout=30) for handle in handles] == ["a", "b", "c"]
        never = str(tmp_path / "never")
        handles = [rt.submit(handler, [word, runs, never]) for word in "def"]
        await_lines(Path(runs), 2)
        for handle in handles:
            assert handle.cancel()
        assert [type(handle.exception(timeout=30)) for handle in handles] == [TaskCancelled] * 3
    assert batches(Path(runs)) == {3: 2}


def test_quotas_count_calls(state_dir: Path, tmp_path: Path) -> None:
    runs = str(tmp_path / "runs")
    with runtime(state_dir, scheduling=Scheduling(quotas={"key:api": 2})) as rt:
        api = rt.options(concurrency_key="api")
        handles = [api.submit(calls.double, [number, runs]) for number in range(10)]
        assert [handle.result(timeout=30) for handle in handles] == [2 * number for number in range(10)]
    assert set(batches(Path(runs))) <= {1, 2}


def test_the_context_knows_the_batch(state_dir: Path, tmp_path: Path) -> None:
    with runtime(state_dir) as rt:
        handles = [rt.submit(calls.sizes, [number, ""]) for number in range(4)]
        found = [handle.result(timeout=30) for handle in handles]
        assert [size for size, _ in found] == [4] * 4
        assert len({key for _, key in found}) == 4
        refused = rt.submit(calls.adds_nodes, [1, str(tmp_path / "runs")])
        assert "batching handler" in str(failure(refused))


def test_batches_in_asyncio(state_dir: Path, tmp_path: Path) -> None:
    asyncio.run(submit_in_asyncio(state_dir, str(tmp_path / "runs")))
    assert batches(tmp_path / "runs") == {5: 1}


async def submit_in_asyncio(state_dir: Path, runs: str) -> None:
    async with AsyncRuntime(state_dir, calls.TASKS, node_types=NODE_TYPES, durability="os") as rt:
        handles = [await rt.submit(calls.double, [number, runs]) for number in range(5)]
        assert [await handle for handle in handles] == [0, 2, 4, 6, 8]


@pytest.mark.parametrize("handler", [calls.held, calls.held_async])
def test_a_batch_whose_worker_and_engine_are_killed_is_run_again(state_dir: Path, tmp_path: Path, handler: Any) -> None:
    runs, gate = tmp_path / "runs", tmp_path / "gate"
    with runtime(state_dir) as rt:
        handles = [rt.submit(handler, [word, str(runs), str(gate)]) for word in "abc"]
        (first,) = await_lines(runs, 1)
        kill(first.pid)
        until(lambda: rt.submit(calls.double, [1, str(tmp_path / "other")]).result(timeout=30) == 2, "the engine")
        await_lines(runs, 2)  # alone by now
        engine = OwnFamily(rt).engine
        kill(engine)
        await_gone([engine])
        gate.touch()
        assert [handle.result(timeout=60) for handle in handles] == ["a", "b", "c"]
    assert batches(runs)[3] == 1


def test_random_kills_of_workers_lose_and_repeat_nothing_that_was_told(state_dir: Path, tmp_path: Path) -> None:
    runs = str(tmp_path / "runs")
    with runtime(state_dir) as rt:
        steady = rt.options(poison=20, retry=20)
        handles = [steady.submit(calls.double, [number, runs]) for number in range(40)]
        for _ in range(4):
            count = len(await_lines(Path(runs), 1))
            kill(OwnFamily(rt).workers[0])
            handles += [steady.submit(calls.double, [number, runs]) for number in range(40, 46)]
            until(lambda count=count: len(await_lines(Path(runs), 1)) > count, "more batches")  # type: ignore[misc]
        numbers = [*range(40), *range(40, 46)] + 3 * [*range(40, 46)]
        assert [handle.result(timeout=60) for handle in handles] == [2 * number for number in numbers]


def test_large_and_pickled_values_are_those_of_their_call(state_dir: Path) -> None:
    large = bytes(range(256)) * 4_000
    with runtime(state_dir) as rt:
        handles = [rt.submit(calls.backwards, value) for value in (large, b"", b"xyz", large + b"x")]
        assert handles[0].result(timeout=30) == large[::-1]
        assert "generator" in str(failure(handles[1]))
        assert [handles[2].result(timeout=30), handles[3].result(timeout=30)] == [b"zyx", b"x" + large[::-1]]


def test_one_call_may_be_skipped(state_dir: Path, tmp_path: Path) -> None:
    runs = str(tmp_path / "runs")
    with runtime(state_dir) as rt:
        handles = [rt.submit(calls.skips, [number, runs]) for number in (1, calls.POISON, 2)]
        assert isinstance(failure(handles[1]), TaskSkipped)
        assert [handles[0].result(timeout=30), handles[2].result(timeout=30)] == [1, 2]


def test_results_of_parents_are_arguments(state_dir: Path) -> None:
    with runtime(state_dir) as rt:
        flow = Flow("chain")
        nodes = [flow.add(calls.increment, 0) for _ in range(3)]
        nodes = [flow.add(calls.increment, node) for node in nodes]
        last = flow.add(calls.increment, nodes[0])
        assert rt.submit(flow).result(last, timeout=30) == 3
