"""Urgent work and workers that are full: it starts before what they hold ahead. Judged by order, not by time."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from runtime import NodeType, Runtime
from tests.scenarios import handlers
from tests.scenarios.waiting import Line, await_lines, lines, until

pytestmark = pytest.mark.slow

TASK_S: Final = 0.001
BATCH: Final = 1000


def at_workers(rt: Runtime) -> tuple[list[int], int]:
    """Tasks that each worker holds, and those that wait in the engine."""
    (pool,) = rt.statistics()["pools"]
    return [worker["held"] for worker in pool["workers"]], pool["ready"]


@pytest.mark.parametrize("mode", ["process", "asyncio"])
def test_urgent_tasks_start_before_what_full_workers_hold_ahead(state_dir: Path, tmp_path: Path, mode: Any) -> None:
    """Both workers are in a task, and hold as many others as they may, when the urgent ones come."""
    runs, gate = tmp_path / "runs", tmp_path / "gate"
    hold: Any = handlers.hold if mode == "process" else handlers.hold_async
    with Runtime(state_dir, node_types=[NodeType("default", workers=2, mode=mode, concurrency=1)]) as rt:
        for warm in [rt.submit(handlers.mark_slowly, str(runs), "warm", TASK_S) for _ in range(50)]:
            warm.result(timeout=30)
        before = len(lines(runs))
        for number in (1, 2):
            rt.submit(hold, str(runs), "hold", str(gate))
            await_lines(runs, before + number)
        batch = [rt.submit(handlers.mark_slowly, str(runs), "batch", TASK_S) for _ in range(BATCH)]
        full, waiting = until(
            lambda: found if sum((found := at_workers(rt))[0]) + found[1] == BATCH + 2 else None,
            "the batch in the engine",
        )
        assert min(full) > 1, "each worker holds something ahead of what it runs"
        assert waiting > 0, "and no more goes to it"
        urgent = [rt.options(priority="realtime").submit(handlers.mark, str(runs), "urgent") for _ in full]
        until(lambda: at_workers(rt) == ([count + 1 for count in full], waiting), "an urgent task at each full worker")
        gate.touch()
        for handle in (*urgent, *batch):
            handle.result(timeout=30)
    by_worker: dict[int, list[Line]] = {}
    for line in lines(runs)[before:]:
        by_worker.setdefault(line.pid, []).append(line)
    assert len(by_worker) == 2
    for noted in by_worker.values():
        words = [line.word for line in noted]
        assert words[:2] == ["hold", "urgent"], words[:20]
        assert set(words[2:]) == {"batch"}
