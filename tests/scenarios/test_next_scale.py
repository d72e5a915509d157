"""Pools of no to four workers, with real processes: empty when idle, back when work comes, whoever is killed meanwhile;
and a program that decides about them itself."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from runtime import NodeType, Runtime, ScaleStep
from tests.scenarios import handlers
from tests.scenarios.processes import send
from tests.scenarios.waiting import await_gone, await_lines, lines, until

pytestmark = pytest.mark.slow

POOL = NodeType("cpu", workers=(0, 4), cooldown=0.5)
WAIT_S = 60


def row(rt: Runtime) -> dict[str, Any]:
    found: dict[str, Any] = rt.statistics()["pools"][0]
    return found


def pid_of(rt: Runtime, role: str) -> int:
    pid: int = next(process["pid"] for process in rt.processes() if process["role"] == role)
    return pid


def fill(rt: Runtime, runs: str, word: str) -> list[Any]:
    return [rt.submit(handlers.mark_slowly, runs, word, 0.1) for _ in range(24)]


def test_it_is_empty_when_idle_and_comes_back_though_workers_and_the_engine_are_killed(
    state_dir: Path, tmp_path: Path
) -> None:
    runs = str(tmp_path / "runs")
    with Runtime(state_dir, node_types=[POOL], durability="os") as rt:
        assert row(rt)["workers"] == []
        first = fill(rt, runs, "first")
        await_lines(Path(runs), 3)
        send(pid_of(rt, "worker"), signal.SIGKILL)
        assert [handle.result(timeout=WAIT_S) for handle in first] == ["first"] * 24
        until(lambda: row(rt)["workers"] == [], "an empty pool")
        steps = row(rt)["steps"]
        assert max(step["to"] for step in steps) == 4
        assert steps[-1]["reason"].startswith("idle: not needed for ")

        engine = pid_of(rt, "engine")
        send(engine, signal.SIGKILL)  # while the pool is empty
        second = fill(rt, runs, "second")
        await_lines(Path(runs), 27)
        send(pid_of(rt, "engine"), signal.SIGKILL)  # while it works
        assert [handle.result(timeout=WAIT_S) for handle in second] == ["second"] * 24
        assert pid_of(rt, "engine") != engine
        pids = {line.pid for line in lines(Path(runs))}
        until(lambda: row(rt)["workers"] == [], "an empty pool once more")
        await_gone(pids)
        assert rt.submit(handlers.mark, runs, "third").result(timeout=WAIT_S) == "third"


def test_a_program_decides_about_its_pool(state_dir: Path, tmp_path: Path) -> None:
    """It lets nothing start until it wants to, and then two workers, whatever the engine thinks."""
    runs = str(tmp_path / "runs")
    steps: list[ScaleStep] = []
    open_ = tmp_path / "open"

    def on_scale(step: ScaleStep) -> int:
        steps.append(step)
        if step.after < step.before:
            return step.after
        return 2 if open_.exists() else 0

    with Runtime(state_dir, node_types=[POOL], durability="none", on_scale=on_scale) as rt:
        handles = fill(rt, runs, "task")
        kept = "no worker is added: on_scale keeps it at 0 workers instead of"
        until(lambda: kept in handles[0].why(), "a reason")
        assert lines(Path(runs)) == []
        open_.touch()
        assert [handle.result(timeout=WAIT_S) for handle in handles] == ["task"] * 24
        assert len({line.pid for line in lines(Path(runs))}) == 2
        assert "on_scale asks for 2 instead of" in row(rt)["steps"][0]["reason"]
        assert max(step.figures.waiting for step in steps) == 24
        assert (steps[0].figures.smallest, steps[0].figures.largest) == (0, 4)
