"""Leaks of real workers are found from outside, with line, node type and worker; a clean load has none.

Acceptance tests 1 (in real processes), 2 (the soak, shortened; at full length behind the mark `soak`) and 4.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runtime import NodeType, Retry, Runtime
from runtime.errors import LeaksFound
from runtime.host import kernel
from runtime.profile.leak_check.clean import assert_clean, left_in
from runtime.profile.leak_check.grading import LEAK, SUSPECT, Finding
from runtime.profile.leak_check.survey import Report, survey
from runtime.profile.ledger.books import LEDGER
from tests.scenarios import handlers as handlers_base
from tests.scenarios import handlers_profile_leaks as handlers
from tests.scenarios.processes import OwnFamily, kill
from tests.scenarios.test_log_progress import stopped
from tests.scenarios.waiting import await_lines, until

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not kernel.LINUX, reason="needs /proc")]
PATIENCE_S = 60.0
IO = NodeType("io", workers=1, mode="asyncio", concurrency=200)


def line_of(function: Callable[..., Any]) -> tuple[str, int]:
    return function.__code__.co_filename, function.__code__.co_firstlineno


def test_handlers_that_nobody_wakes_are_proved(state_dir: Path, tmp_path: Path) -> None:
    """Acceptance test 1: proved, with the handler's creation line and the line where it waits."""
    path = tmp_path / "runs"
    with Runtime(state_dir, node_types=[IO]) as rt:
        for _ in range(3):
            rt.submit(handlers.wait_for_nobody, str(path))
        await_lines(path, 3)
        report = survey(state_dir, seconds=0.0, min_grade=LEAK, timeout=PATIENCE_S)
        (found,) = report.findings
        assert (found.grade, found.kind, found.count, found.proved) == (LEAK, "task", 3, True)
        assert found.site[-1][1:] == line_of(handlers.wait_for_nobody)
        assert [frame.name for frame in found.wait][-2:] == ["node:io", "wait_for_nobody"]
        assert dict(found.labels)["node_type"] == "io"
        assert found.process is not None
        assert found.process.title == "worker 1 [io]"
        rt.close(drain=False)


def test_an_await_that_was_forgotten_is_found(state_dir: Path) -> None:
    """Acceptance test 1: the event is the proof."""
    with Runtime(state_dir, node_types=[IO]) as rt:
        rt.submit(handlers.forget_an_await).result(timeout=PATIENCE_S)
        (found,) = survey(state_dir, seconds=0.0, prove=False, min_grade=LEAK, timeout=PATIENCE_S).findings
        assert (found.kind, found.count, found.proved) == ("unawaited", 1, True)
        lacking = line_of(handlers.forget_an_await)[1] + 2
        assert found.site[-1][1:] in {
            line_of(handlers.waits),
            (handlers.__file__, lacking),
        }  # where it began, or was made


def made(kind: str) -> int:
    """The line of the handlers that says so."""
    lines = Path(handlers.__file__).read_text(encoding="utf-8").splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.endswith(f"# made: {kind}"))


def test_what_handlers_leave_has_their_lines(state_dir: Path, tmp_path: Path) -> None:
    """Acceptance test 1: a lock whose task ended, an executor that was dropped; workers of both modes."""
    gate = tmp_path / "gate"
    with Runtime(state_dir, node_types=[IO, NodeType("cpu", workers=1)]) as rt:
        rt.options(node_type="io").submit(handlers.leave_a_lock).result(timeout=PATIENCE_S)
        rt.options(node_type="cpu").submit(handlers.drop_an_executor, str(gate)).result(timeout=PATIENCE_S)
        found = survey(state_dir, seconds=0.5, prove=False, min_grade=LEAK, timeout=PATIENCE_S).findings
        gate.touch()
        assert {one.kind: one.site[-1][1:] for one in found} == {
            kind: (handlers.__file__, made(kind)) for kind in ("lock", "executor")
        }
        assert all(one.proved and one.process is not None and one.process.role == "worker" for one in found)


def test_work_of_a_dead_worker_is_found_until_it_is_taken_back(state_dir: Path, tmp_path: Path) -> None:
    """Acceptance test 1: leases that it claimed, messages that it never took; nobody tells the engine of its death."""
    path, gate = tmp_path / "runs", tmp_path / "gate"
    with Runtime(state_dir, node_types=[NodeType("cpu", workers=1, prefetch=3)]) as rt:
        handles = [rt.submit(handlers_base.hold, str(path), "held", str(gate)) for _ in range(3)]
        await_lines(path, 1)
        pids = {process["role"]: process["pid"] for process in rt.processes()}
        with stopped(pids["spawner"]):
            kill(pids["worker"])
            kinds, engine = ["lease", "message"], frozenset({pids["engine"]})
            report = survey(state_dir, seconds=0.0, min_grade=LEAK, kinds=kinds, pids=engine, timeout=PATIENCE_S)
        gate.touch()
        assert sum(one.count for one in report.findings) == 3
        assert "lease" in {one.kind for one in report.findings}
        for one in report.findings:
            assert one.owner == f"worker 1 [cpu] (pid {pids['worker']})"
            assert one.site[-1][1:] == line_of(handlers_base.hold)
            assert one.proved
        assert [handle.result(timeout=PATIENCE_S) for handle in handles] == ["held"] * 3


def asks(rt: Runtime, answers: list[Any]) -> None:
    answers.append(rt.statistics())


def test_a_question_to_a_dead_engine_is_found_until_another_one_comes(state_dir: Path) -> None:
    """Acceptance test 1: a folder that no engine has for a while is looked into as before, from inside and outside."""
    answers: list[Any] = []
    with Runtime(state_dir, node_types=[NodeType("cpu", workers=1)]) as rt:
        rt.submit(abs, -1).result(timeout=PATIENCE_S)
        pids = {process["role"]: process["pid"] for process in rt.processes()}

        def found() -> list[Finding]:
            here = frozenset({os.getpid()})
            report = survey(state_dir, seconds=0.0, min_grade=LEAK, kinds=["ask"], pids=here, timeout=PATIENCE_S)
            return list(report.findings)

        assert not found()
        with stopped(pids["spawner"]):
            kill(pids["engine"])
            asking = threading.Thread(target=asks, args=(rt, answers))
            asking.start()
            until(found, "the question without an engine")
            (one,) = found()
            command = [sys.executable, "-m", "runtime.profile", "ps", str(state_dir)]
            shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        asking.join()
        assert (one.count, one.proved, one.owner) == (1, True, f"engine (pid {pids['engine']})")
        assert one.site[-1] == (asks.__name__, asks.__code__.co_filename, asks.__code__.co_firstlineno + 1)
        assert str(pids["spawner"]) in shown
        assert len(answers) == 1
        assert not found()


def looked_at_while(rt: Runtime, plant: Callable[[], Any]) -> list[Finding]:
    """What a survey of some seconds finds while something is planted again and again."""
    reports: list[Report] = []

    def look() -> None:
        reports.append(survey(rt.state_dir, seconds=4.0, prove=False, min_grade=LEAK, ttl=0.5, timeout=PATIENCE_S))

    for _ in range(20):
        plant()
    thread = threading.Thread(target=look)
    thread.start()
    while thread.is_alive():
        plant()
        thread.join(0.1)
    return reports[0].findings


def test_what_grows_in_a_worker_is_found(state_dir: Path) -> None:
    """Acceptance test 1: by growth and age, two kinds at the same time, and nothing else."""
    with Runtime(state_dir, node_types=[IO]) as rt:

        def plant() -> None:
            rt.submit(handlers.leave_a_task).result(timeout=PATIENCE_S)
            rt.submit(handlers.forget_to_release, 1).result(timeout=PATIENCE_S)

        findings = looked_at_while(rt, plant)
        assert {found.kind: found.site[-1].name for found in findings} == {
            "task": "leave_a_task",
            "checkout": "forget_to_release",
        }
        task = next(found for found in findings if found.kind == "task")
        assert task.wait[-1].name == "waits"
        assert not task.proved
        assert task.slope_per_min > 0
        with pytest.raises(LeaksFound, match=r"checkout"):
            assert_clean(0.0, state_dir=state_dir)
        assert {found.kind for found in left_in(state_dir)} == {"task", "checkout"}


def test_pipes_and_sockets_of_the_engine_are_no_leaks(state_dir: Path) -> None:
    """Where work is done, and in the program, which has seen workers come and go."""
    budget = LEDGER.book("descriptor").budget
    try:
        with Runtime(state_dir, node_types=[IO, NodeType("cpu", workers=2)]) as rt:
            family = OwnFamily(rt)
            kill(*family.workers[:1])
            for name in ("cpu", "io"):
                assert rt.options(node_type=name).submit(handlers.ends_without_another).result(PATIENCE_S) == []
            assert handlers.ends_without_another() == []
    finally:
        LEDGER.book("descriptor").budget = budget


def mixed_load(rt: Runtime, number: int, folder: Path) -> None:
    """One round: tasks of both modes, a cancel, a worker that dies, something that starts later."""
    io, cpu = rt.options(node_type="io"), rt.options(node_type="cpu", retry=Retry(max_attempts=3, base=0.0))
    long = io.submit(handlers.takes_long)
    later = io.submit(handlers.ends, number, delay=0.05)
    many = [io.submit(handlers.ends, n) for n in range(20)] + [cpu.submit(handlers.computes, n) for n in range(20)]
    died = cpu.submit(handlers.dies, number, str(folder))
    long.cancel()
    assert [handle.result(timeout=PATIENCE_S) for handle in (*many[:20], died, later)] == [*range(20), number, number]
    long.wait(timeout=PATIENCE_S)


def soak(state_dir: Path, seconds: float) -> None:
    """Mixed load, looked at all the while: no leak, at most one suspect; nothing left when it has drained."""
    types = [IO, NodeType("cpu", workers=2)]
    reports: list[Report] = []
    with Runtime(state_dir, node_types=types) as rt:
        ends_s, number = time.monotonic() + seconds, 1
        while time.monotonic() < ends_s:
            thread = threading.Thread(
                target=lambda: reports.append(survey(state_dir, seconds=5.0, min_grade=SUSPECT, timeout=PATIENCE_S))
            )
            thread.start()
            while thread.is_alive():
                mixed_load(rt, number, state_dir.parent)
                number += 1
            thread.join()
        found = [one for report in reports for one in report.findings]
        assert not [one.line() for one in found if one.grade == LEAK]
        assert len({one.signature for one in found}) <= 1, [one.line() for one in found]
        until(lambda: not left_in(state_dir), "everything to be released")
        assert_clean(PATIENCE_S, state_dir=state_dir)


def test_a_clean_load_has_no_leak(state_dir: Path) -> None:
    """Acceptance test 2, shortened."""
    soak(state_dir, 4.0)


@pytest.mark.soak
def test_a_clean_soak_has_no_leak(state_dir: Path) -> None:
    """Acceptance test 2."""
    soak(state_dir, 1800.0)
