"""S16, S17, S18, S21: what is cancelled never runs or ends with all it started; what is drained goes back untouched."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import psutil
import pytest

from runtime import Flow, NodeState, NodeType, Retry, RunState, Runtime
from runtime.errors import TaskCancelled, TaskFailed
from tests.scenarios import handlers
from tests.scenarios.processes import OwnFamily, host_program, kill, send
from tests.scenarios.record import log_of
from tests.scenarios.waiting import alive, await_gone, await_lines, lines, pause, until, words

pytestmark = pytest.mark.slow

ONE: Final = [NodeType("default", workers=1, prefetch=5, grace=0.2)]
GONE_S: Final = 2.0


# --- S16 ----------------------------------------------------------------------------------------------------------


def engine_killed(rt: Runtime) -> None:
    """SIGKILL of the engine; the face starts another."""
    engine = OwnFamily(rt).engine
    kill(engine)
    await_gone([engine])
    until(lambda: OwnFamily(rt).engine, "a new engine")


def spawner_killed(rt: Runtime) -> None:
    """SIGKILL of the spawner, and with it of all others."""
    family = OwnFamily(rt)
    before = [family.spawner, *family.all]
    kill(family.spawner)
    await_gone(before)


@pytest.mark.parametrize("restart", [engine_killed, spawner_killed])
def test_s16_what_was_cancelled_while_it_waited_never_runs(
    state_dir: Path, tmp_path: Path, restart: Callable[[Runtime], None]
) -> None:
    runs, gate = tmp_path / "runs", tmp_path / "gate"
    with Runtime(state_dir, node_types=ONE) as rt:
        a = rt.submit(handlers.hold, str(runs), "a", str(gate))
        await_lines(runs, 1)
        leased, queued = (rt.submit(handlers.mark, str(runs), word) for word in ("leased", "queued"))
        assert leased.cancel()
        assert queued.cancel()
        restart(rt)
        await_lines(runs, 2)
        gate.touch()
        assert a.result(timeout=30) == "a"
        for handle in (leased, queued):
            with pytest.raises(TaskCancelled):
                handle.result(timeout=30)
            assert handle.status().state == NodeState.CANCELLED
            assert not handle.cancel()
        assert rt.submit(handlers.mark, str(runs), "after").result(timeout=30) == "after"
    assert words(runs) == {"a": 2, "after": 1}
    assert len(log_of(state_dir).cancels) == 2


def test_s16_a_cancel_outlives_the_program(state_dir: Path, tmp_path: Path) -> None:
    runs, gate = tmp_path / "runs", tmp_path / "gate"
    with Runtime(state_dir, node_types=ONE) as rt:
        a = rt.submit(handlers.hold, str(runs), "a", str(gate)).run_id
        await_lines(runs, 1)
        b = rt.submit(handlers.mark, str(runs), "b")
        assert b.cancel()
        rt.close(drain=False)
    gate.touch()
    with Runtime(state_dir, node_types=ONE) as rt:
        assert rt.handle(a).result(timeout=30) == "a"
        with pytest.raises(TaskCancelled):
            rt.handle(b.run_id).result(timeout=30)
    assert words(runs) == {"a": 2}


def test_s16_a_cancel_while_it_waits_for_its_next_attempt(state_dir: Path, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    with Runtime(state_dir, node_types=ONE) as rt:
        handle = rt.options(retry=3).submit(handlers.fail, str(runs), "task")
        slow = rt.options(retry=Retry(base=60.0, jitter=False)).submit(handlers.fail, str(runs), "slow")
        until(lambda: slow.status().state == NodeState.BACKOFF, "the retry to be planned")
        assert slow.cancel()
        with pytest.raises(TaskCancelled):
            slow.result(timeout=30)
        with pytest.raises(TaskFailed):
            handle.result(timeout=30)
    assert words(runs) == {"task": 3, "slow": 1}


# --- S17 ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("start", ["plain", "session", "daemon", "pool"])
@pytest.mark.parametrize("end", ["cancel", "timeout", "kill"])
def test_s17_what_an_attempt_started_ends_with_it(state_dir: Path, tmp_path: Path, start: str, end: str) -> None:
    runs = tmp_path / "runs"
    pools = [NodeType("default", workers=1, grace=0.2)]
    with Runtime(state_dir, node_types=pools) as rt:
        submitter = rt.options(timeout=0.7 if end == "timeout" else None, poison=1)
        handle = submitter.submit(handlers.start_others, str(runs), start)
        noted = {line.word: line for line in await_lines(runs, 2)}
        child = int(noted["child"].pid)
        assert alive(child)
        if end == "cancel":
            assert handle.cancel()
        elif end == "kill":
            kill(noted["task"].pid)
        with pytest.raises(TaskCancelled if end == "cancel" else TaskFailed) as failed:
            handle.result(timeout=30)
        assert failed.value.kind == {"cancel": "cancelled", "timeout": "timeout", "kill": "crash"}[end]
        await_gone([child], GONE_S)
        until(lambda: not zombies(rt), "no zombie")
        ticks = len(lines(tmp_path / "runs.thread"))
        assert rt.submit(handlers.mark, str(runs), "after").result(timeout=30) == "after"
        assert len(lines(tmp_path / "runs.thread")) <= ticks + 1, "the thread goes on"


def zombies(rt: Runtime) -> list[int]:
    """Dead processes under the spawner that nobody has collected."""
    found = []
    for pid in OwnFamily(rt).all:
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                found.append(pid)
        except psutil.NoSuchProcess:
            continue
    return found


# --- S18 ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("grown", [False, True])
def test_s18_cancelling_a_tree_cancels_what_is_left_of_it(state_dir: Path, tmp_path: Path, grown: bool) -> None:
    runs, gate = tmp_path / "runs", tmp_path / "gate"
    with Runtime(state_dir, node_types=ONE) as rt:
        flow = Flow("tree")
        if grown:
            flow.add(handlers.grow, str(runs), str(gate))
        else:
            parent = flow.add(handlers.mark, str(runs), "parent")
            done = flow.add(handlers.mark, str(runs), "done", after=[parent])
            running = flow.add(handlers.hold, str(runs), "running", str(gate), after=[done])
            flow.add(handlers.mark, str(runs), "queued", after=[parent, done])
            flow.add(handlers.mark, str(runs), "pending", after=[running])
        run = rt.submit(flow)
        until(lambda: words(runs)["running"], "the child to run")
        assert run.cancel()
        assert run.wait(timeout=30) == RunState.CANCELLED
        by_word = {"parent": 0, "done": 1, "running": 2, "pending": 4}
        states = {word: run.node(number).status().state for word, number in by_word.items()}
        assert states["parent"] == states["done"] == NodeState.SUCCEEDED
        assert states["running"] == NodeState.CANCELLED
        assert states["pending"] in (NodeState.CANCELLED, NodeState.SKIPPED)
        until(lambda: held(rt) == 0, "the slots to be free")
        assert rt.submit(handlers.mark, str(runs), "after").result(timeout=30) == "after"
    counted = words(runs)
    assert counted["pending"] == 0
    assert all(counted[word] == 1 for word in ("parent", "done", "running", "after"))


def test_s18_cancelling_one_node_skips_what_needs_it_and_nothing_else(state_dir: Path, tmp_path: Path) -> None:
    runs, gate = tmp_path / "runs", tmp_path / "gate"
    with Runtime(state_dir, node_types=[NodeType("default", workers=2)]) as rt:
        flow = Flow("tree")
        left = flow.add(handlers.hold, str(runs), "left", str(tmp_path / "never"))
        right = flow.add(handlers.hold, str(runs), "right", str(gate))
        below = flow.add(handlers.mark, str(runs), "below-left", after=[left])
        flow.add(handlers.mark, str(runs), "below-right", after=[right])
        run = rt.submit(flow)
        await_lines(runs, 2)
        assert run.node(left).cancel()
        gate.touch()
        assert run.wait(timeout=30) == RunState.CANCELLED
        assert run.node(below).status().state == NodeState.SKIPPED
    assert words(runs) == {"left": 1, "right": 1, "below-right": 1}


def held(rt: Runtime) -> int:
    """Leases at the workers."""
    return sum(worker["held"] for pool in rt.statistics()["pools"] for worker in pool["workers"])


# --- S21 ----------------------------------------------------------------------------------------------------------


def test_s21_a_drain_finishes_what_runs_and_gives_the_rest_back(state_dir: Path, tmp_path: Path) -> None:
    runs, gate = tmp_path / "runs", tmp_path / "gate"
    with host_program("draining", state_dir, runs, gate, 5) as host:
        assert host.read_line() == "held"
        family = host.family.all
        send(host.pid, signal.SIGTERM)
        assert host.read_line() == "draining"
        pause(0.2)  # the engine is told after that
        gate.touch()
        begun_ns = time.monotonic_ns()
        assert host.end() == 128 + signal.SIGTERM
        assert time.monotonic_ns() - begun_ns < GONE_S * 1e9
        await_gone(family, GONE_S)
    assert words(runs) == {"task-0": 1}
    written = log_of(state_dir)
    assert sum(written.completed.values()) == 1
    assert written.attempts == []
    with Runtime(state_dir, node_types=ONE) as rt:
        for status in list(rt.runs()):
            rt.handle(status.run_id).wait(timeout=30)
    assert words(runs) == {f"task-{i}": 1 for i in range(5)}


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_s21_a_signal_to_all_processes_at_once_loses_nothing(
    state_dir: Path, tmp_path: Path, signum: signal.Signals
) -> None:
    """As systemd stops a service, or a closed terminal its jobs: host, spawner, engine and workers are all told."""
    runs, gate = tmp_path / "runs", tmp_path / "gate"
    with host_program("draining", state_dir, runs, gate, 5) as host:
        assert host.read_line() == "held"
        everybody = [host.pid, *host.family.all]
        for pid in reversed(everybody):
            send(pid, signum)
        if signum == signal.SIGHUP:
            host.end()  # which it does not survive
        else:
            assert host.read_line() == "draining"
        pause(0.2)  # the engine is told after that
        gate.touch()
        assert host.end() != 0
        await_gone(everybody, GONE_S)
    before = words(runs)
    with Runtime(state_dir, node_types=ONE) as rt:
        for status in list(rt.runs()):
            assert rt.handle(status.run_id).wait(timeout=30) == RunState.SUCCEEDED
    assert set(words(runs)) == {f"task-{i}" for i in range(5)}
    assert {outcome for outcome, _ in log_of(state_dir).outcomes()} <= {"retry"}
    assert set(before) <= {"task-0", "task-1"}, "what waits behind what runs is untouched"
