"""S02, S05, S06, S07, S13: everything is killed, and who may own the work afterwards."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from runtime import NodeState, NodeType, RunState, Runtime
from runtime.errors import EngineUnavailable, StateFolderInUse
from tests.scenarios import handlers
from tests.scenarios.processes import Family, OwnFamily, host_program, kill, send
from tests.scenarios.record import log_of
from tests.scenarios.waiting import await_gone, await_lines, lines, pause, stopped, until, words

pytestmark = pytest.mark.slow

GONE_S = 2.0
"""Rule R4 says within a second; the other one is for a busy machine."""
TASKS = 1_000
WORKERS = 3

VICTIMS: dict[str, Callable[[Family], list[int]]] = {
    "host": lambda f: [f.host],
    "host-first": lambda f: [f.host, f.spawner, f.engine, *f.workers],
    "children-first": lambda f: [*f.workers, f.engine, f.spawner, f.host],
    "host-and-engine": lambda f: [f.engine, f.host],
    "host-and-spawner": lambda f: [f.spawner, f.host],
}


@pytest.mark.parametrize("victims", VICTIMS)
def test_s02_kill_everything_and_go_on(state_dir: Path, tmp_path: Path, victims: str) -> None:
    runs = tmp_path / "runs"
    with host_program("crowd", state_dir, runs, TASKS, WORKERS) as host:
        assert host.read_line() == "acknowledged"
        await_lines(runs, TASKS // 4)
        chosen, everybody = VICTIMS[victims](host.family), [host.pid, *host.family.all]
        kill(*chosen)
        host.end()
        await_gone(everybody, GONE_S)
    before = words(runs)
    completed = {node for _, node in log_of(state_dir).completed}
    assert len(completed) < TASKS
    with Runtime(state_dir, node_types=[NodeType("default", workers=WORKERS)]) as rt:
        run = rt.handle("crowd")
        assert run.wait(timeout=60) == RunState.SUCCEEDED
        counts = run.status().counts
        assert rt.recovery["runs_open"] == 1
        assert rt.recovery["nodes_open"] == TASKS - len(completed)
    after = words(runs)
    assert (counts.succeeded, counts.total) == (TASKS, TASKS)
    assert set(after) == {str(i) for i in range(TASKS)}
    again = {int(word) for word in after if after[word] > before[word] > 0}
    assert not again & completed, "a completion that is in the log was run again"
    assert max(after.values()) <= 2
    assert set(log_of(state_dir).endings().values()) == {1}


@pytest.mark.parametrize("victims", ["host", "host-first", "host-and-spawner"])
def test_s02_what_handlers_had_started_is_gone_at_the_next_start_at_the_latest(
    state_dir: Path, tmp_path: Path, victims: str
) -> None:
    runs = tmp_path / "runs"
    with host_program("starting", state_dir, runs) as host:
        assert host.read_line() == "submitted"
        child = {line.word: line.pid for line in await_lines(runs, 2)}["child"]
        everybody = [host.pid, *host.family.all]
        kill(*VICTIMS[victims](host.family))
        host.end()
        await_gone([pid for pid in everybody if pid != child], GONE_S)
    with Runtime(state_dir, node_types=[NodeType("default", workers=1)]) as rt:
        await_gone([child], GONE_S)
        rt.close(drain=False)


# --- S05: one owner after the other -------------------------------------------------------------------------------


def test_s05_a_second_engine_gets_nothing_while_the_first_drains(state_dir: Path, tmp_path: Path) -> None:
    runs, gate = tmp_path / "runs", tmp_path / "gate"
    first = Runtime(state_dir, node_types=[NodeType("default", workers=1, prefetch=5)])
    held = first.submit(handlers.hold, str(runs), "held", str(gate))
    await_lines(runs, 1)
    behind = [first.submit(handlers.mark, str(runs), f"behind-{i}").run_id for i in range(4)]
    family = OwnFamily(first).all
    closing = threading.Thread(target=first.close, kwargs={"timeout": 30.0})
    closing.start()
    try:
        for _ in range(3):
            with pytest.raises(StateFolderInUse) as used:
                Runtime(state_dir)
            assert used.value.pid == os.getpid()
    finally:
        gate.touch()
        closing.join()
    await_gone(family, GONE_S)
    with Runtime(state_dir, node_types=[NodeType("default", workers=2)]) as second:
        assert second.handle(held.run_id).result(timeout=30) == "held"
        assert [second.handle(run_id).result(timeout=30) for run_id in behind] == [f"behind-{i}" for i in range(4)]
    assert words(runs) == {"held": 1, **{f"behind-{i}": 1 for i in range(4)}}
    assert set(log_of(state_dir).endings().values()) == {1}


@pytest.mark.parametrize("frozen", ["host", "engine"])
def test_s05_a_frozen_owner_is_still_the_owner(state_dir: Path, frozen: str) -> None:
    with host_program("holder", state_dir) as host:
        assert host.read_line() == "open"
        send(host.pid if frozen == "host" else host.family.engine, signal.SIGSTOP)
        with pytest.raises(StateFolderInUse) as used:
            Runtime(state_dir)
        assert used.value.pid == host.pid
        family = host.family.all
        kill(host.pid)
        Runtime(state_dir).close()
        await_gone(family, GONE_S)


def test_s05_whoever_starts_again_at_once_after_a_kill_is_not_refused(state_dir: Path) -> None:
    with host_program("holder", state_dir) as host:
        assert host.read_line() == "open"
        kill(host.pid)
        with host_program("holder", state_dir) as again:
            assert again.read_line() == "open"


# --- S06: a recovery that is recovered from -----------------------------------------------------------------------


def test_s06_recoveries_that_are_cut_short_give_nothing_out_twice(state_dir: Path, tmp_path: Path) -> None:
    runs, gate = tmp_path / "runs", tmp_path / "gate"
    kills = 4
    with Runtime(state_dir, node_types=[NodeType("default", workers=2)]) as rt:
        handles = [rt.submit(handlers.hold, str(runs), f"task-{i}", str(gate)) for i in range(6)]
        await_lines(runs, 2)
        family, seen = OwnFamily(rt), set()
        for _ in range(kills):  # the engine of the round before is killed while it recovers, or soon after
            engine = until(lambda: {family.engine} - seen, "a new engine").pop()
            seen.add(engine)
            workers = family.workers
            kill(engine)
            await_gone([engine, *workers], GONE_S)
        gate.touch()
        assert [h.result(timeout=30) for h in handles] == [f"task-{i}" for i in range(6)]
    assert set(log_of(state_dir).endings().values()) == {1}
    starts = lines(runs)
    assert len({line.word for line in starts}) == 6
    assert len(starts) <= 6 + 2 * kills
    of_one = [[line.pid for line in starts if line.word == f"task-{i}"] for i in range(6)]
    assert all(len(set(pids)) == len(pids) for pids in of_one), "a worker ran the same task twice"


def test_s06_an_engine_that_dies_all_the_time_is_given_up_and_nothing_is_lost(state_dir: Path, tmp_path: Path) -> None:
    runs, gate = tmp_path / "runs", tmp_path / "gate"
    with Runtime(state_dir, node_types=[NodeType("default", workers=1)]) as rt:
        handle = rt.submit(handlers.hold, str(runs), "task", str(gate))
        for _ in range(20):
            until(lambda: OwnFamily(rt).named("ms-engine") or handle.done(), "another engine, or the end")
            kill(*OwnFamily(rt).named("ms-engine"))
            if handle.done():
                break
        with pytest.raises(EngineUnavailable, match="too often"):
            handle.result(timeout=30)
        with pytest.raises(EngineUnavailable):
            rt.submit(handlers.mark, str(runs), "refused")
    gate.touch()
    with Runtime(state_dir, node_types=[NodeType("default", workers=1)]) as rt:
        assert rt.handle(handle.run_id).result(timeout=30) == "task"
    assert "refused" not in words(runs)


# --- S07: the dead come back --------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["process", "asyncio"])
def test_s07_a_frozen_worker_is_given_up_and_cannot_answer_later(state_dir: Path, tmp_path: Path, mode: Any) -> None:
    runs, gate = tmp_path / "runs", tmp_path / "gate"
    with Runtime(state_dir, node_types=[NodeType("default", workers=2, mode=mode)]) as rt:
        handle = rt.submit(handlers.hold, str(runs), "task", str(gate))
        (first,) = await_lines(runs, 1)
        send(first.pid, signal.SIGSTOP)
        _, second = await_lines(runs, 2)
        send(first.pid, signal.SIGCONT)
        gate.touch()
        assert handle.result(timeout=30) == "task"
        status, story = handle.status(), [event.text for event in handle.story()]
        await_gone([first.pid], GONE_S)
    assert (status.state, status.attempts) == (NodeState.SUCCEEDED, 2)
    assert second.pid != first.pid
    assert any("frozen" in text for text in story), story
    written = log_of(state_dir)
    assert written.outcomes() == [("retry", "crash")]
    assert set(written.endings().values()) == {1}
    assert words(runs) == {"task": 2}


def test_s07_a_moment_of_being_stopped_is_no_death(state_dir: Path, tmp_path: Path) -> None:
    runs, gate = tmp_path / "runs", tmp_path / "gate"
    with Runtime(state_dir, node_types=[NodeType("default", workers=1)]) as rt:
        handle = rt.submit(handlers.hold, str(runs), "task", str(gate))
        (line,) = await_lines(runs, 1)
        send(line.pid, signal.SIGSTOP)
        until(lambda: stopped(line.pid), "the worker to stop")
        pause(0.8)  # longer than an engine may take to look, shorter than two looks
        send(line.pid, signal.SIGCONT)
        gate.touch()
        assert handle.result(timeout=30) == "task"
        assert handle.status().attempts == 1
    assert words(runs) == {"task": 1}


@pytest.mark.parametrize("who", ["engine", "spawner"])
def test_s07_a_frozen_engine_goes_on_where_it_was(state_dir: Path, tmp_path: Path, who: str) -> None:
    runs = tmp_path / "runs"
    with Runtime(state_dir, node_types=[NodeType("default", workers=2)]) as rt:
        handles = [rt.submit_nowait(handlers.mark_slowly, str(runs), f"task-{i}", 0.01) for i in range(100)]
        await_lines(runs, 10)
        family = OwnFamily(rt)
        pid = family.engine if who == "engine" else family.spawner
        send(pid, signal.SIGSTOP)
        pause(1.5)
        send(pid, signal.SIGCONT)
        assert [h.result(timeout=30) for h in handles] == [f"task-{i}" for i in range(100)]
    assert words(runs) == {f"task-{i}": 1 for i in range(100)}


def test_s07_work_for_a_worker_that_froze_while_idle_goes_elsewhere_untouched(state_dir: Path, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    with Runtime(state_dir, node_types=[NodeType("default", workers=1)]) as rt:
        rt.submit(handlers.mark, str(runs), "before").result(timeout=30)
        (frozen,) = OwnFamily(rt).workers
        send(frozen, signal.SIGSTOP)
        handle = rt.submit(handlers.mark, str(runs), "after")
        assert handle.result(timeout=30) == "after"
        assert handle.status().attempts == 1
    assert words(runs) == {"before": 1, "after": 1}


# --- S13: two owners ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["same", "symbolic-link", "relative", "with-dots"])
def test_s13_a_second_opener_is_told_who_has_the_folder(
    state_dir: Path, tmp_path: Path, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to(state_dir)
    paths = {"same": state_dir, "symbolic-link": "link", "relative": "state", "with-dots": f"{state_dir}/../state"}
    with host_program("holder", state_dir) as host:
        assert host.read_line() == "open"
        begun_ns = time.monotonic_ns()
        with pytest.raises(StateFolderInUse, match=str(host.pid)) as used:
            Runtime(paths[path])
        assert time.monotonic_ns() - begun_ns < 500_000_000
        assert used.value.pid == host.pid
        assert used.value.retryable


def test_s13_the_same_program_is_no_exception(state_dir: Path, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    with Runtime(state_dir, node_types=[NodeType("default", workers=1)]) as rt:
        with pytest.raises(StateFolderInUse) as used:
            Runtime(state_dir)
        assert used.value.pid == os.getpid()
        assert rt.submit(handlers.mark, str(runs), "task").result(timeout=30) == "task"


def test_s13_of_many_that_open_at_once_one_wins(state_dir: Path) -> None:
    with ExitStack() as stack:
        hosts = [stack.enter_context(host_program("holder", state_dir)) for _ in range(4)]
        said = [host.read_line() for host in hosts]
        (winner,) = [host for host, words in zip(hosts, said, strict=True) if words == "open"]
        assert set(said) == {"open", f"MS202 {winner.pid}"}
