"""S14, S15, S19, S20: attempts that run too long, in C, against their will, or only seem to."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from runtime import NodeState, NodeType, Retry, Runtime
from runtime.errors import TaskCancelled, TaskFailed
from tests.scenarios import handlers
from tests.scenarios.record import log_of
from tests.scenarios.waiting import await_gone, await_lines, lines, words

pytestmark = pytest.mark.slow

TIMEOUT_S: Final = 0.5
GRACE_S: Final = 0.2
SLACK_S: Final = 1.0
"""The scenario grants the slot a second to come back."""


class Overrun(NamedTuple):
    """How a task that takes too long has ended, and when the task behind it started, in seconds."""

    failure: TaskFailed
    after_submit_s: float
    """Since before the attempt can have started: not less than its timeout."""
    after_note_s: float
    """Since the handler has started to work: not much more than its timeout."""


def run_over(state_dir: Path, runs: Path, handler: Any, mode: Any = "process") -> Overrun:
    """Run a task that takes too long on one worker, with another task behind it."""
    with Runtime(state_dir, node_types=[NodeType("default", workers=1, mode=mode, grace=GRACE_S)]) as rt:
        rt.submit(handlers.mark, str(runs), "warm").result(timeout=30)
        submitted_ns = time.monotonic_ns()
        handle = rt.options(timeout=TIMEOUT_S).submit(handler, str(runs), "long")
        behind = rt.submit(handlers.mark, str(runs), "behind")
        with pytest.raises(TaskFailed) as failed:
            handle.result(timeout=30)
        assert behind.result(timeout=30) == "behind"
        assert behind.status().attempts == 1
        assert handle.status().state == NodeState.FAILED
    noted = {line.word: line.at_ns for line in lines(runs)}
    assert words(runs) == {"warm": 1, "long": 1, "behind": 1}
    assert log_of(state_dir).outcomes() == [("failed", "timeout")]
    since = [(noted["behind"] - begun_ns) / 1e9 for begun_ns in (submitted_ns, noted["long"])]
    return Overrun(failed.value, *since)


@pytest.mark.parametrize(
    ("handler", "escalates"),
    [
        (handlers.sleep_in_c, False),
        (handlers.backtrack, False),
        (handlers.read_socket, False),
        (handlers.wait_lock, False),
        (handlers.wait_process, False),
        (handlers.sum_forever, True),
        (handlers.hold_interpreter, True),
    ],
)
def test_s14_a_timeout_ends_a_call_in_c(state_dir: Path, tmp_path: Path, handler: Any, escalates: bool) -> None:
    overrun = run_over(state_dir, tmp_path / "runs", handler)
    assert overrun.failure.kind == "timeout"
    assert overrun.after_submit_s > TIMEOUT_S
    assert overrun.after_note_s < TIMEOUT_S + escalates * GRACE_S + SLACK_S


@pytest.mark.parametrize("handler", [handlers.sleep_async, handlers.sleep_in_c, handlers.block_loop])
def test_s14_a_timeout_in_a_worker_of_many(state_dir: Path, tmp_path: Path, handler: Any) -> None:
    overrun = run_over(state_dir, tmp_path / "runs", handler, mode="asyncio")
    assert overrun.failure.kind == "timeout"


def test_s14_in_a_worker_of_many_only_the_one_that_is_too_long_is_stopped(state_dir: Path, tmp_path: Path) -> None:
    runs, gate = tmp_path / "runs", tmp_path / "gate"
    pools = [NodeType("default", workers=1, mode="asyncio", concurrency=10, grace=GRACE_S)]
    with Runtime(state_dir, node_types=pools) as rt:
        others = [rt.options(timeout=20.0).submit(handlers.hold_async, str(runs), str(i), str(gate)) for i in range(5)]
        long = rt.options(timeout=TIMEOUT_S).submit(handlers.sleep_async, str(runs), "long")
        with pytest.raises(TaskFailed, match="AttemptTimeout"):
            long.result(timeout=30)
        gate.touch()
        assert [h.result(timeout=30) for h in others] == [str(i) for i in range(5)]
        assert [h.status().attempts for h in others] == [1] * 5
    assert len({line.pid for line in lines(runs)}) == 1


@pytest.mark.parametrize(
    ("handler", "steps"),
    [
        (handlers.swallow_always, 1),
        (handlers.swallow_in_finally, 1),
        (handlers.swallow_and_block_signals, 1),
        (handlers.swallow_and_ignore_sigterm, 2),
    ],
)
def test_s15_a_task_that_swallows_its_timeout_is_ended_step_by_step(
    state_dir: Path, tmp_path: Path, handler: Any, steps: int
) -> None:
    overrun = run_over(state_dir, tmp_path / "runs", handler)
    assert overrun.failure.kind == "timeout"
    assert overrun.after_submit_s > TIMEOUT_S + steps * GRACE_S
    assert overrun.after_note_s < TIMEOUT_S + steps * GRACE_S + SLACK_S
    assert {1: "SIGTERM", 2: "SIGKILL"}[steps] in str(overrun.failure)


def test_s15_a_task_that_catches_its_timeout_and_returns_has_returned(state_dir: Path, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    with Runtime(state_dir, node_types=[NodeType("default", workers=1)]) as rt:
        handle = rt.options(timeout=0.4).submit(handlers.swallow_once, str(runs), "task")
        assert handle.result(timeout=30) == "task"
        assert handle.status().attempts == 1
    assert log_of(state_dir).attempts == []


def test_s15_a_worker_whose_task_ends_at_the_last_moment_leaves_no_gap_in_the_pool(
    state_dir: Path, tmp_path: Path
) -> None:
    runs = tmp_path / "runs"
    with Runtime(state_dir, node_types=[NodeType("default", workers=1, grace=GRACE_S)]) as rt:
        handle = rt.options(timeout=0.4).submit(handlers.end_on_sigterm, str(runs), "task")
        assert handle.result(timeout=30) == "task"
        assert rt.submit(handlers.mark, str(runs), "after").result(timeout=30) == "after"
    assert words(runs) == {"task": 1, "after": 1}


@pytest.mark.parametrize("handler", [handlers.swallow_always, handlers.swallow_and_ignore_sigterm])
def test_s15_a_task_that_swallows_its_cancel_is_ended_step_by_step(
    state_dir: Path, tmp_path: Path, handler: Any
) -> None:
    runs = tmp_path / "runs"
    with Runtime(state_dir, node_types=[NodeType("default", workers=1, grace=GRACE_S)]) as rt:
        handle = rt.submit(handler, str(runs), "task")
        (line,) = await_lines(runs, 1)
        assert handle.cancel()
        with pytest.raises(TaskCancelled):
            handle.result(timeout=30)
        await_gone([line.pid], 2.0)
        assert rt.submit(handlers.mark, str(runs), "after").result(timeout=30) == "after"


# --- S19 ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("handler", "retry", "attempts"),
    [
        (handlers.sleep_in_c, None, 1),
        (handlers.sleep_in_c, Retry(on=["error", "crash"]), 1),
        (handlers.sleep_in_c, Retry(on="timeout"), 3),
        (handlers.sleep_in_c, Retry(max_attempts=3, base=0.05, jitter=False), 3),
        (handlers.sum_forever, None, 1),
        (handlers.sum_forever, Retry(max_attempts=2), 2),
    ],
)
def test_s19_a_timeout_is_retried_by_its_own_policy_and_is_no_cancel(
    state_dir: Path, tmp_path: Path, handler: Any, retry: Retry | None, attempts: int
) -> None:
    runs = tmp_path / "runs"
    with Runtime(state_dir, node_types=[NodeType("default", workers=1, grace=0.05)]) as rt:
        handle = rt.options(timeout=0.4, retry=retry).submit(handler, str(runs), "task")
        with pytest.raises(TaskFailed) as failed:
            handle.result(timeout=30)
        assert not isinstance(failed.value, TaskCancelled)
        assert failed.value.kind == "timeout"
        status = handle.status()
        assert (status.state, status.attempts) == (NodeState.FAILED, attempts)
    assert words(runs) == {"task": attempts}
    assert log_of(state_dir).outcomes() == [("retry", "timeout")] * (attempts - 1) + [("failed", "timeout")]
    starts = [line.at_ns for line in lines(runs)]
    if retry is not None and not retry.jitter:
        waits = [(after - before) / 1e9 - 0.4 for before, after in zip(starts, starts[1:], strict=False)]
        assert waits[0] >= 0.05
        assert waits[1] >= 0.1


def test_s19_an_attempt_that_ends_in_time_after_one_that_did_not_succeeds(state_dir: Path, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    with Runtime(state_dir, node_types=[NodeType("default", workers=1)]) as rt:
        handle = rt.options(timeout=0.3, retry=2).submit(handlers.first_holds, str(runs), "task")
        handle.result(timeout=30)
        assert handle.status().attempts == 2
    assert log_of(state_dir).outcomes() == [("retry", "timeout")]


# --- S20 ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("starving_s", [2.2, pytest.param(30.0, marks=pytest.mark.soak)])
@pytest.mark.parametrize("mode", ["process", "asyncio"])
def test_s20_a_worker_that_holds_the_interpreter_is_busy_and_not_dead(
    state_dir: Path, tmp_path: Path, mode: Any, starving_s: float
) -> None:
    """The engine looks at busy workers every second; the scenario itself is half a minute long."""
    runs = tmp_path / "runs"
    with Runtime(state_dir, node_types=[NodeType("default", workers=2, mode=mode)]) as rt:
        starved = rt.submit(handlers.hold_interpreter, str(runs), "starved", starving_s)
        await_lines(runs, 1)
        others = [rt.submit(handlers.mark, str(runs), str(i)) for i in range(50)]
        assert [h.result(timeout=30) for h in others] == [str(i) for i in range(50)]
        assert starved.result(timeout=60) == "starved"
        assert starved.status().attempts == 1
    noted = {line.word: line for line in lines(runs)}
    assert words(runs) == {"starved": 1, **{str(i): 1 for i in range(50)}}
    if mode == "process":  # what the starved worker held ahead was taken back for the other one
        assert max(noted[str(i)].at_ns for i in range(50)) - noted["starved"].at_ns < 2_000_000_000
    assert log_of(state_dir).attempts == []


def test_s20_a_program_that_holds_its_interpreter_is_busy_and_not_dead(state_dir: Path, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    with Runtime(state_dir, node_types=[NodeType("default", workers=2)]) as rt:
        handles = [rt.submit_nowait(handlers.mark, str(runs), str(i)) for i in range(50)]
        handlers.starve(1.2)
        assert [h.result(timeout=30) for h in handles] == [str(i) for i in range(50)]
    assert words(runs) == {str(i): 1 for i in range(50)}
