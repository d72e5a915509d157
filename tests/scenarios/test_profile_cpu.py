"""Where CPU time goes in a runtime: all processes in one profile, by workflow, node type and tenant; and its end.

Acceptance test 12 (exit, exec, fork and SIGKILL under profiling), and those of 8 and 14 that need no tool from outside.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from runtime import Batch, Flow, NodeType, Runtime, TaskRegistry
from runtime.host import kernel
from runtime.profile.model import CPU, Frame, Profile
from runtime.profile.presence.control import Answers, ask
from runtime.profile.sampling.ticks import SELF
from tests.scenarios import handlers_sampling as handlers
from tests.scenarios.waiting import await_lines, until

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not kernel.LINUX, reason="needs /proc")]
PATIENCE_S = 60.0


def captured(rt: Runtime, what: str = "cpu", seconds: float = 1.0, **options: Any) -> Profile:
    return merged(ask(rt.state_dir, what, seconds=seconds, timeout=PATIENCE_S, **options), what)


def merged(answers: Answers, kind: str = CPU) -> Profile:
    # Signals of the program are its own, and a trimmer ends when it has trimmed.
    assert {process.role for process, _ in answers.failed} <= {"face", "trimmer"}
    return Profile(kind).merge(*(Profile.from_json(content) for _, content in answers.rows))


def profiled(rt: Runtime, handle: Any, path: Path, gate: Path, *what: str, **options: Any) -> Profile:
    """A profile of the worker while it runs this, which ends behind it."""
    await_lines(path, 1)
    found = of_worker(captured(rt, *what, **options))
    gate.touch()
    handle.result(timeout=PATIENCE_S)
    return found


@contextmanager
def capturing(rt: Runtime, what: str = "cpu") -> Iterator[list[Answers]]:
    """A capture of three seconds, which begins in the block and ends behind it."""
    found: list[Answers] = []

    def capture() -> None:
        found.append(ask(rt.state_dir, what, seconds=3.0, timeout=PATIENCE_S, hz=200))

    thread = threading.Thread(target=capture)
    thread.start()
    try:
        yield found
    finally:
        thread.join()


def of_worker(profile: Profile) -> Profile:
    """Of workers, what is not the sampler itself."""
    return profile.filter(
        lambda sample: sample.process is not None and sample.process.role == "worker" and sample.stack[-1].name != SELF
    )


def part_of(profile: Profile, whole: Profile) -> float:
    return profile.total().value / max(whole.total().value, 1)


def under_node(profile: Profile) -> Profile:
    return profile.filter(lambda sample: sample.stack[0] == Frame("node:cpu"))


def test_a_busy_worker_is_seen_under_its_node_type_with_labels(state_dir: Path, tmp_path: Path) -> None:
    """Acceptance test 14 in part: nearly all of a busy worker is under a frame of its node type."""
    path, gate = tmp_path / "runs", tmp_path / "gate"
    tasks = TaskRegistry()
    task = tasks.task(handlers.compute).options(tenant="acme")
    with Runtime(state_dir, tasks=tasks, node_types=[NodeType("cpu", workers=1)]) as rt:
        flow = Flow("checkout")
        flow.add(task, str(path), str(gate))
        profile = profiled(rt, rt.submit(flow), path, gate)
    assert part_of(under_node(profile), profile) >= 0.95
    labelled = profile.filter(workflow="checkout", tenant="acme", node_type="cpu", actor="compute", attempt="1")
    assert part_of(labelled, profile) >= 0.95
    deepest = {sample.stack[-1].name for sample, _ in labelled}
    assert "count" in deepest
    stacks = {tuple(frame.name for frame in sample.stack) for sample, _ in labelled}
    assert ("node:cpu", "compute", "count") in stacks


def test_tasks_of_the_hot_loop_are_seen_too(state_dir: Path) -> None:
    with Runtime(state_dir, node_types=[NodeType("cpu", workers=1)]) as rt, capturing(rt) as found:
        assert sum(1 for _ in rt.map(handlers.short, range(60_000))) == 60_000
    profile = of_worker(merged(found[0]))
    assert any(sample.stack[:2][-1].name == "short" for sample, _ in under_node(profile))
    assert part_of(profile.filter(workflow="short"), profile) > 0.5


def test_tasks_and_threads_of_a_handler_keep_its_labels(state_dir: Path, tmp_path: Path) -> None:
    path, gate = tmp_path / "runs", tmp_path / "gate"
    with Runtime(state_dir, node_types=[NodeType("cpu", workers=1, mode="asyncio")]) as rt:
        profile = profiled(
            rt, rt.submit(handlers.compute_in_tasks, str(path), str(gate)), path, gate, seconds=2.0, hz=200
        )
    mine = profile.filter(customer="acme", workflow="compute_in_tasks")
    stacks = {tuple(frame.name for frame in sample.stack) for sample, _ in mine}
    assert ("node:cpu", "compute_in_tasks", "<task>", "part", "count") in stacks
    assert any(sample.thread != "MainThread" and sample.stack[-1].name == "pack" for sample, _ in mine)


def test_batches_and_the_threads_of_the_loop_are_under_their_node_type(state_dir: Path, tmp_path: Path) -> None:
    """Acceptance test 14: mode "asyncio", and plain `loop.run_in_executor`."""
    path, gate = tmp_path / "runs", tmp_path / "gate"
    tasks = TaskRegistry()
    task = tasks.task(batch=Batch(max_size=2, max_wait=0.01))(handlers.compute_batches)
    with Runtime(state_dir, tasks=tasks, node_types=[NodeType("cpu", workers=1, mode="asyncio")]) as rt:
        profile = profiled(rt, rt.submit(task, f"{path}|{gate}"), path, gate, seconds=2.0, hz=200)
    on_loop = profile.filter(lambda sample: sample.stack[-1].name == "count")
    assert on_loop.total().value > 0
    assert part_of(under_node(on_loop), on_loop) == 1.0
    assert all("compute_batches" in [frame.name for frame in sample.stack] for sample in on_loop.samples)
    in_threads = profile.filter(lambda sample: sample.stack[-1].name == "pack")
    assert in_threads.total().value > 0
    assert part_of(in_threads.filter(workflow="compute_batches", node_type="cpu"), in_threads) > 0.95


def test_what_waits_is_weighted_by_time(state_dir: Path, tmp_path: Path) -> None:
    path, gate = tmp_path / "runs", tmp_path / "gate"
    with Runtime(state_dir, node_types=[NodeType("cpu", workers=1, mode="asyncio")]) as rt:
        profile = profiled(
            rt, rt.submit(handlers.wait_for_gate, str(path), str(gate)), path, gate, "await", seconds=2.0, hz=10
        )
    expected = ("node:cpu", "wait_for_gate", "<task look #>", "look_for")
    found = profile.filter(lambda sample: tuple(frame.name for frame in sample.stack[:4]) == expected)
    assert found.total().seen > 3
    assert part_of(profile.filter(workflow="wait_for_gate"), profile) > 0.9


def test_forks_and_programs_of_a_handler_are_not_ended_by_ticks(state_dir: Path, tmp_path: Path) -> None:
    """Acceptance test 12: fork."""
    path, gate = tmp_path / "runs", tmp_path / "gate"
    with Runtime(state_dir, node_types=[NodeType("cpu", workers=1)]) as rt:
        handle = rt.submit(handlers.fork_and_compute, str(path), str(gate))
        await_lines(path, 1)
        with capturing(rt):
            pass
        gate.touch()
        assert handle.result(timeout=PATIENCE_S) == 0


def test_a_program_that_takes_the_workers_place_is_not_ended_by_ticks(state_dir: Path, tmp_path: Path) -> None:
    """Acceptance test 12: exec."""
    path, gate = tmp_path / "runs", tmp_path / "gate"
    with Runtime(state_dir, node_types=[NodeType("cpu", workers=1)]) as rt:
        rt.submit(handlers.become_another, str(path), str(gate))
        await_lines(path, 1)
        with capturing(rt):
            until(lambda: rt.state_dir is not None, "the capture to begin")
            gate.touch()
        until(lambda: "computed" in path.read_text(), "the other program to end")


def test_a_worker_that_is_killed_loses_little(state_dir: Path, tmp_path: Path) -> None:
    """Acceptance tests 8 and 12: SIGKILL in the middle of a capture."""
    path, gate = tmp_path / "runs", tmp_path / "gate"
    with Runtime(state_dir, node_types=[NodeType("cpu", workers=1)]) as rt:
        handle = rt.submit(handlers.compute, str(path), str(gate))
        await_lines(path, 1)
        with capturing(rt) as found:
            folder = Path(rt.state_dir, "profile")
            pid = int(path.read_text().split()[0])
            until(lambda: any(folder.glob(f"ask-*/{pid}-*.0")), "the first second to be there")
            os.kill(pid, signal.SIGKILL)
        gate.touch()
        handle.result(timeout=PATIENCE_S)
    rows = [(process, Profile.from_json(content)) for process, content in found[0].rows]
    killed = Profile().merge(*(profile for process, profile in rows if process.pid == pid))
    assert killed.total().value > 0
    assert any("ticks took" in note for note in killed.notes)


def test_a_node_type_whose_libraries_cannot_stand_the_signal_has_none(state_dir: Path, tmp_path: Path) -> None:
    types = [NodeType("on", workers=1), NodeType("off", workers=1, profile_signal=False)]
    tasks = TaskRegistry()
    task = tasks.task(handlers.has_ticks)
    with Runtime(state_dir, tasks=tasks, node_types=types) as rt:
        assert rt.submit(task.options(node_type="on"), str(tmp_path / "a")).result(timeout=PATIENCE_S) is True
        assert rt.submit(task.options(node_type="off"), str(tmp_path / "b")).result(timeout=PATIENCE_S) is False
