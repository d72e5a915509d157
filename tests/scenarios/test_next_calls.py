"""S35: tasks that call tasks and wait for them. Nobody who waits holds a slot, so nothing hangs."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any, Final

import pytest

from runtime import Flow, NodeType, Runtime, Scheduling, errors
from tests.scenarios import handlers_calls as calls
from tests.scenarios.processes import OwnFamily, kill
from tests.scenarios.waiting import await_lines, lines, until, words

pytestmark = pytest.mark.slow

ONE: Final = [NodeType("cpu", workers=1)]
MIXED: Final = [NodeType("cpu", workers=1), NodeType("io", workers=1, mode="asyncio", concurrency=2)]


def open_runtime(state_dir: Path, node_types: list[NodeType] = ONE, **more: Any) -> Runtime:
    return Runtime(state_dir, node_types=node_types, durability="os", **more)


def test_a_recursion_that_is_deeper_than_there_are_workers_ends(state_dir: Path) -> None:
    with open_runtime(state_dir) as rt:
        family = OwnFamily(rt)
        assert rt.submit(calls.deep, 40).result(timeout=60) == 40
        assert rt.submit(calls.fib, 11).result(timeout=60) == 89
        assert len(family.workers) == 1


def test_items_of_a_map_call_too(state_dir: Path) -> None:
    with open_runtime(state_dir, [NodeType("cpu", workers=2)]) as rt:
        assert list(rt.map(calls.fib, range(9))) == [0, 1, 1, 2, 3, 5, 8, 13, 21]


def test_a_recursion_without_an_end_is_refused_with_the_reason(state_dir: Path) -> None:
    with open_runtime(state_dir) as rt:
        failed = rt.submit(calls.endless, 0).exception(timeout=60)
        assert failed is not None
        assert "nested at most 256 deep" in failed.message


def test_a_hundred_parents_wait_for_three_children_each_while_workers_are_killed(
    state_dir: Path, tmp_path: Path
) -> None:
    path, dice = tmp_path / "runs", random.Random(7)
    with open_runtime(state_dir, [NodeType("cpu", workers=4)]) as rt:
        family = OwnFamily(rt)
        handles = [rt.submit(calls.parent, str(path), number) for number in range(100)]
        for noted in (40, 150, 300):
            await_lines(path, noted)
            kill(dice.choice(until(lambda: family.workers, "workers")))
        found = [handle.result(timeout=60) for handle in handles]
    assert found == [sum((3 * number + i) ** 2 for i in range(3)) for number in range(100)]
    seen = words(path)
    assert all(seen[f"leaf-{value}"] >= 1 for value in range(300))
    assert sum(count - 1 for word, count in seen.items() if word.startswith("leaf-")) <= 3 * 8


@pytest.mark.parametrize("how", ["parent_async", "parent_group"])
@pytest.mark.parametrize("pool", ["cpu", "io"])
def test_coroutines_wait_without_a_slot_too(state_dir: Path, tmp_path: Path, how: str, pool: str) -> None:
    path = tmp_path / "runs"
    with open_runtime(state_dir, MIXED) as rt:
        handles = [rt.options(node_type=pool).submit(getattr(calls, how), str(path), n) for n in range(6)]
        assert [handle.result(timeout=30) for handle in handles] == [
            sum((3 * n + i) ** 2 for i in range(3)) for n in range(6)
        ]
    assert {word: count for word, count in words(path).items() if count > 2} == {}


def test_calls_one_after_the_other_run_once_each_and_the_handler_begins_anew(state_dir: Path, tmp_path: Path) -> None:
    path = tmp_path / "runs"
    with open_runtime(state_dir) as rt:
        handle = rt.submit(calls.one_after_the_other, str(path), 5)
        assert handle.result(timeout=30) == 30
        assert [event.event for event in handle.story() if event.event in ("waits", "goes on")] == [
            "waits", "goes on"
        ] * 5  # fmt: skip
    assert words(path) == {"began": 6, **{f"leaf-{value}": 1 for value in range(5)}}


def test_a_failure_of_what_was_called_is_raised_in_the_caller_who_may_catch_it(state_dir: Path) -> None:
    with open_runtime(state_dir) as rt:
        assert rt.submit(calls.catches).result(timeout=30) == "ValueError: as planned"
        failed = rt.submit(calls.lets_it_pass).exception(timeout=30)
        assert failed is not None
        assert "as planned" in failed.message
        flow = Flow("catching")
        flow.add(calls.catches)
        run = rt.run(flow, timeout=30)
        assert run.result(timeout=30) == "ValueError: as planned"
        assert run.status().state == "succeeded"


def test_what_was_called_is_not_called_again_by_a_retry(state_dir: Path, tmp_path: Path) -> None:
    path = tmp_path / "runs"
    with open_runtime(state_dir) as rt:
        assert rt.submit(calls.fails_after_its_call, str(path)).result(timeout=30) == 49
    assert words(path) == {"leaf-7": 1, "attempt-1": 1, "attempt-2": 1, "attempt-3": 1}


def test_waiting_does_not_count_for_a_timeout(state_dir: Path, tmp_path: Path) -> None:
    path, gate = tmp_path / "runs", tmp_path / "gate"
    with open_runtime(state_dir) as rt:
        handle = rt.submit(calls.short_of_time, str(path), str(gate))
        begun = await_lines(path, 2)[0].at_ns
        until(lambda: lines_age(path, begun) > 0.8, "more than the timeout")
        gate.touch()
        assert handle.result(timeout=30) == 5


def lines_age(path: Path, since_ns: int) -> float:
    assert len(lines(path)) == 2
    return (time.monotonic_ns() - since_ns) / 1e9


def test_a_cancel_of_who_waits_cancels_what_it_called(state_dir: Path, tmp_path: Path) -> None:
    path, gate = tmp_path / "runs", tmp_path / "never"
    with open_runtime(state_dir) as rt:
        handle = rt.submit(calls.calls_calls_slow, str(path), str(gate))
        await_lines(path, 2)
        assert "it waits for 1 of the 1 task that it called" in handle.why()
        assert handle.cancel()
        with pytest.raises(errors.TaskCancelled):
            handle.result(timeout=30)
        assert rt.submit(calls.leaf, str(path), 2).result(timeout=30) == 4
    assert words(path) == {"calls": 1, "slow": 1, "leaf-2": 1}


def test_a_concurrency_key_is_free_while_its_holder_waits(state_dir: Path, tmp_path: Path) -> None:
    path = tmp_path / "runs"
    with open_runtime(state_dir, scheduling=Scheduling(quotas={"key:printer": 1})) as rt:
        assert rt.submit(calls.holds_key, str(path)).result(timeout=30) == 3


def test_what_is_spawned_and_what_is_called_do_not_mix(state_dir: Path, tmp_path: Path) -> None:
    path = tmp_path / "runs"
    with open_runtime(state_dir) as rt:
        flow = Flow("both")
        flow.add(calls.spawns_and_calls, str(path))
        run = rt.run(flow, timeout=30)
        assert run.status().counts.succeeded == 3
    assert words(path) == {"leaf-2": 1, "leaf-100": 1}


@pytest.mark.parametrize("handler", [calls.swallows, calls.never_waits])
def test_a_handler_that_returns_before_its_calls_ended_fails_with_the_reason(
    state_dir: Path, tmp_path: Path, handler: Any
) -> None:
    with open_runtime(state_dir) as rt:
        failed = rt.submit(handler, str(tmp_path / "runs")).exception(timeout=30)
        assert failed is not None
        assert "1 call that it asked for did not run" in failed.message


def test_a_handler_that_calls_something_else_each_time_is_stopped(state_dir: Path, tmp_path: Path) -> None:
    path = tmp_path / "runs"
    with open_runtime(state_dir) as rt:
        failed = rt.submit(calls.asks_anew, str(path)).exception(timeout=30)
        assert failed is not None
        assert "must make the same calls" in failed.message
    assert words(path)["again"] == 17


def test_calls_survive_the_death_of_the_engine(state_dir: Path, tmp_path: Path) -> None:
    path, gate = tmp_path / "runs", tmp_path / "gate"
    with open_runtime(state_dir) as rt:
        family = OwnFamily(rt)
        handles = [rt.submit(calls.parent, str(path), number) for number in range(10)]
        last = rt.submit(calls.calls_calls_slow, str(path), str(gate))
        await_lines(path, 20)
        kill(family.engine)
        gate.touch()
        assert [h.result(timeout=60) for h in handles] == [sum((3 * n + i) ** 2 for i in range(3)) for n in range(10)]
        assert last.result(timeout=60) == 5
