"""A pool that may be empty, with real processes: it starts when work comes, grows with it, and is empty again."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest

from runtime import AsyncRuntime, NodeType, Runtime, ScaleStep
from tests.scenarios import handlers
from tests.scenarios.waiting import await_gone, await_lines, lines, until

pytestmark = pytest.mark.slow

COOLDOWN_S = 0.5


def workers(rt: Runtime) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = rt.statistics()["pools"][0]["workers"]
    return found


def test_a_pool_grows_under_load_and_goes_back_to_nothing(
    state_dir: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    runs = str(tmp_path / "runs")
    caplog.set_level(logging.INFO, "mainspring")
    asked: list[ScaleStep] = []
    pool = NodeType("cpu", workers=(0, 3), cooldown=COOLDOWN_S)
    with Runtime(state_dir, node_types=[pool], durability="none", on_scale=asked.append) as rt:
        assert workers(rt) == []
        handles = [rt.submit(handlers.mark_slowly, runs, "many", 0.1) for _ in range(30)]
        assert [handle.result(timeout=30) for handle in handles] == ["many"] * 30
        pids = {line.pid for line in lines(Path(runs))}
        assert len(pids) == 3
        until(lambda: workers(rt) == [], "an empty pool")
        await_gone(pids)
        row = rt.statistics()["pools"][0]
        assert (row["scaled"]["to"], row["workers_range"], row["trouble"]) == (0, [0, 3], "")
        assert rt.submit(handlers.mark, runs, "again").result(timeout=30) == "again"
        assert lines(Path(runs))[-1].pid not in pids
        steps = rt.statistics()["pools"][0]["steps"]
    sizes = [0, *(step["to"] for step in steps)]
    assert [step["from"] for step in steps] == sizes[:-1]
    assert max(sizes) == 3
    assert sizes.count(0) == 2
    assert steps[0]["reason"].endswith("and there is no worker")
    assert {step.node_type for step in asked} == {"cpu"}
    assert {step["reason"] for step in steps} <= {step.reason for step in asked}
    logged = [record.getMessage() for record in caplog.records if record.name == "mainspring"]
    assert f"node type cpu: 0 -> 1 worker: {steps[0]['reason']}" in logged
    assert not [record for record in caplog.records if record.levelno > logging.INFO]


def test_work_that_was_left_starts_an_empty_pool(state_dir: Path, tmp_path: Path) -> None:
    """What a closed folder holds is work that arrives, too."""
    pool = NodeType("cpu", workers=(0, 1), cooldown=COOLDOWN_S)
    with Runtime(state_dir, node_types=[pool], durability="os") as rt:
        handle = rt.submit(handlers.hold, str(tmp_path / "runs"), "left", str(tmp_path / "gate"))
        await_lines(tmp_path / "runs", 1)
        rt.close(drain=False)
    (tmp_path / "gate").touch()
    with Runtime(state_dir, node_types=[pool], durability="os") as rt:
        found = rt.handle(handle.run_id)
        until(lambda: found.status().ended_ns, "the task to end")
    assert [line.word for line in lines(tmp_path / "runs")] == ["left", "left"]


def test_an_async_runtime_tells_of_steps_too(state_dir: Path, tmp_path: Path) -> None:
    async def main() -> None:
        options: dict[str, Any] = {"node_types": [pool], "durability": "none"}
        async with AsyncRuntime(state_dir, **options, on_scale=steps.append) as rt:
            assert await (await rt.submit(handlers.mark, str(tmp_path / "runs"), "task")) == "task"

    steps: list[ScaleStep] = []
    pool = NodeType("cpu", workers=(0, 1))
    asyncio.run(main())
    (step,) = steps
    assert (step.node_type, step.before, step.after) == ("cpu", 0, 1)
    assert step.reason == "1 task waits and there is no worker"
    assert (step.figures.waiting, step.figures.largest) == (1, 1)
