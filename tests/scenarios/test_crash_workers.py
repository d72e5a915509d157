"""S01, S03, S04: workers that are killed, or whose tasks kill them, with real signals and real memory."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runtime import NodeState, NodeType, Retry, Runtime
from runtime.errors import TaskFailed
from tests.scenarios import handlers
from tests.scenarios.memory_group import memory_group
from tests.scenarios.processes import OwnFamily, kill, send
from tests.scenarios.record import log_of
from tests.scenarios.waiting import await_lines, lines, until, words

pytestmark = pytest.mark.slow

DETECTED_NS = 2_000_000_000
"""From the death of a worker to the start of the next attempt; the retry's own wait, up to 0.1 s, is in it."""


def workers_ready(rt: Runtime) -> int:
    """Workers that serve now."""
    return sum(w["state"] == "ready" for pool in rt.statistics()["pools"] for w in pool["workers"])


@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM])
@pytest.mark.parametrize("mode", ["process", "asyncio"])
def test_s01_a_task_whose_worker_is_killed_runs_again_elsewhere(
    state_dir: Path, tmp_path: Path, mode: Any, signum: signal.Signals
) -> None:
    runs = tmp_path / "runs"
    with Runtime(state_dir, node_types=[NodeType("default", workers=2, mode=mode)]) as rt:
        task = handlers.first_holds if mode == "process" else handlers.first_holds_async
        handle = rt.submit(task, str(runs), "task")
        (first,) = await_lines(runs, 1)
        killed_ns = time.monotonic_ns()
        send(first.pid, signum)
        second_pid = handle.result(timeout=30)
        story = [f"{event.event}: {event.text}" for event in handle.story()]
        status = handle.status()
        until(lambda: workers_ready(rt) == 2, "the pool to be whole again")
    noted = lines(runs)
    assert [line.word for line in noted] == ["task", "task"]
    assert second_pid == noted[1].pid != first.pid
    assert noted[1].at_ns - killed_ns < DETECTED_NS
    assert (status.state, status.attempts) == (NodeState.SUCCEEDED, 2)
    assert any("attempt 1 failed" in line and signum.name in line for line in story), story
    written = log_of(state_dir)
    assert written.outcomes() == [("retry", "crash")]
    assert sum(written.completed.values()) == 1


def test_s01_tasks_behind_the_one_that_was_killed_go_back_untouched(state_dir: Path, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    with Runtime(state_dir, node_types=[NodeType("default", workers=1, prefetch=20)]) as rt:
        held = rt.submit(handlers.first_holds, str(runs), "held")
        (first,) = await_lines(runs, 1)
        behind = [rt.submit(handlers.mark, str(runs), f"behind-{i}") for i in range(10)]
        kill(first.pid)
        assert held.result(timeout=30) != first.pid
        assert [h.result(timeout=30) for h in behind] == [f"behind-{i}" for i in range(10)]
        assert [h.status().attempts for h in behind] == [1] * 10
    assert words(runs) == {"held": 2, **{f"behind-{i}": 1 for i in range(10)}}


def test_s01_an_idle_worker_that_is_killed_costs_nobody_anything(state_dir: Path, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    with Runtime(state_dir, node_types=[NodeType("default", workers=2)]) as rt:
        family = OwnFamily(rt)
        until(lambda: workers_ready(rt) == 2, "both workers")
        before = family.workers
        kill(*before)
        assert rt.submit(handlers.mark, str(runs), "after").result(timeout=30) == "after"
        until(lambda: workers_ready(rt) == 2, "two new workers")
        assert not set(before) & set(family.workers)
    assert log_of(state_dir).attempts == []


@pytest.mark.parametrize(("retry", "attempts"), [(None, 3), (Retry(max_attempts=2), 2), (Retry(on=["error"]), 1)])
def test_s01_a_task_that_is_killed_each_time_ends_by_its_own_policy(
    state_dir: Path, tmp_path: Path, retry: Retry | None, attempts: int
) -> None:
    runs = tmp_path / "runs"
    with Runtime(state_dir, node_types=[NodeType("default", workers=2)]) as rt:
        handle = rt.options(retry=retry).submit(handlers.hold, str(runs), "task", str(tmp_path / "never"))
        for count in range(1, attempts + 1):
            kill(await_lines(runs, count)[-1].pid)
        with pytest.raises(TaskFailed, match="SIGKILL") as failed:
            handle.result(timeout=30)
        assert failed.value.kind == "crash"
        assert handle.status().attempts == attempts
    assert words(runs) == {"task": attempts}


@pytest.fixture
def small_memory() -> Iterator[str]:
    """File of a memory group of 64 MB; see `memory_group`."""
    with memory_group(64_000_000) as file:
        yield file


def test_s03_a_task_that_is_killed_for_its_memory_does_not_take_the_pool_with_it(
    state_dir: Path, tmp_path: Path, small_memory: str
) -> None:
    poison_among_good(state_dir, tmp_path, handlers.eat_memory, small_memory)


def test_s03_a_task_that_kills_itself_does_not_take_the_pool_with_it(state_dir: Path, tmp_path: Path) -> None:
    poison_among_good(state_dir, tmp_path, handlers.kill_self)


def poison_among_good(state_dir: Path, tmp_path: Path, poison: Any, *args: Any) -> None:
    """One poison task among 50 good ones, on two workers."""
    runs = tmp_path / "runs"
    with Runtime(state_dir, node_types=[NodeType("default", workers=2)]) as rt:
        before = [rt.submit_nowait(handlers.mark, str(runs), f"good-{i}") for i in range(25)]
        poisoned = rt.submit_nowait(poison, str(runs), "poison", *args)
        after = [rt.submit_nowait(handlers.mark, str(runs), f"good-{i}") for i in range(25, 50)]
        assert [h.result(timeout=30) for h in (*before, *after)] == [f"good-{i}" for i in range(50)]
        with pytest.raises(TaskFailed) as failed:
            poisoned.result(timeout=30)
        until(lambda: workers_ready(rt) == 2, "the pool to be whole again")
    assert failed.value.kind == "crash"
    assert "SIGKILL" in str(failed.value)
    assert "out of memory" in str(failed.value)
    assert words(runs) == {"poison": 3, **{f"good-{i}": 1 for i in range(50)}}
    assert log_of(state_dir).outcomes() == [("retry", "crash"), ("retry", "crash"), ("failed", "crash")]


def test_s03_a_task_that_gets_no_more_memory_fails_and_its_worker_lives(state_dir: Path, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    with Runtime(state_dir, node_types=[NodeType("default", workers=1)]) as rt:
        hungry = rt.submit(handlers.eat_address_space, str(runs), "hungry")
        with pytest.raises(TaskFailed) as failed:
            hungry.result(timeout=30)
        assert rt.submit(handlers.mark, str(runs), "good").result(timeout=30) == "good"
    assert failed.value.kind == "memory"
    assert isinstance(failed.value.__cause__, MemoryError)
    assert len({line.pid for line in lines(runs)}) == 1


@pytest.mark.parametrize(
    ("harm", "args", "shown"),
    [
        (handlers.abort, (), "SIGABRT"),
        (handlers.read_null, (), "SIGSEGV"),
        (handlers.overflow_stack, (), "SIGSEGV|RecursionError"),  # newer interpreters see it coming
        (handlers.exit_at_once, (3,), "exit code 3"),
        (handlers.exit_at_once, (0,), "exit code 0"),
        (handlers.raise_exit, (), "SystemExit"),
    ],
)
def test_s04_one_crash_fails_one_task_and_the_pool_refills(
    state_dir: Path, tmp_path: Path, harm: Any, args: tuple[Any, ...], shown: str
) -> None:
    runs = tmp_path / "runs"
    with Runtime(state_dir, node_types=[NodeType("default", workers=4)]) as rt:
        until(lambda: workers_ready(rt) == 4, "four workers")
        harmful = rt.options(poison=1).submit_nowait(harm, str(runs), "harm", *args)
        others = [rt.submit_nowait(handlers.mark_slowly, str(runs), f"good-{i}", 0.005) for i in range(20)]
        assert [h.result(timeout=30) for h in others] == [f"good-{i}" for i in range(20)]
        with pytest.raises(TaskFailed, match=shown):
            harmful.result(timeout=30)
        until(lambda: workers_ready(rt) == 4, "the pool to be whole again")
    assert words(runs) == {"harm": 1, **{f"good-{i}": 1 for i in range(20)}}


def test_s04_a_task_that_closes_all_descriptors_harms_its_own_worker_only(state_dir: Path, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    with Runtime(state_dir, node_types=[NodeType("default", workers=2)]) as rt:
        until(lambda: workers_ready(rt) == 2, "both workers")
        before = OwnFamily(rt).workers
        harmful = rt.options(poison=1).submit_nowait(handlers.close_everything, str(runs), "harm")
        others = [rt.submit_nowait(handlers.mark_slowly, str(runs), f"good-{i}", 0.005) for i in range(20)]
        assert [h.result(timeout=30) for h in others] == [f"good-{i}" for i in range(20)]
        failure = harmful.exception(timeout=30)  # what it did, it did: its result may have come through shared memory
        assert failure is None or failure.kind == "crash"
        until(lambda: workers_ready(rt) == 2, "the pool to be whole again")
        assert set(OwnFamily(rt).workers) != set(before)
    assert words(runs) == {"harm": 1, **{f"good-{i}": 1 for i in range(20)}}
