"""A cancel ends what the system started for a run: children, their children, those in sessions of their own."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Final

import pytest

from runtime import Flow, NodeType, Runtime, errors
from tests.integration import handlers
from tests.scenarios.waiting import alive, await_gone, until

pytestmark = pytest.mark.slow

POOLS: Final = [NodeType("cpu", workers=2, grace=0.2), NodeType("io", workers=1, mode="asyncio", grace=0.2)]
FOREVER_S: Final = 300.0
WAYS: Final = [
    ("cpu", handlers.shell),
    ("cpu", handlers.python_children),
    ("io", handlers.async_children),
    ("io", handlers.async_children_that_stay),
]


def pids_in(path: Path, count: int) -> list[int]:
    """Pids that tasks wrote, two in a line."""

    def found() -> list[int]:
        return [int(word) for word in path.read_text().split()] if path.exists() else []

    return until(lambda: numbers if len(numbers := found()) >= count else [], f"{count} pids")


@pytest.mark.parametrize(("node_type", "fn"), WAYS, ids=[fn.__name__ for _, fn in WAYS])
@pytest.mark.parametrize("what", ["task", "run", "timeout"])
def test_children_of_the_system_end_with_their_task(
    state_dir: Path, tmp_path: Path, node_type: str, fn: Any, what: str
) -> None:
    path = tmp_path / "pids"
    with Runtime(state_dir, node_types=POOLS, durability="os") as rt:
        pool = rt.options(node_type=node_type, **({"timeout": 1.0} if what == "timeout" else {}))  # type: ignore[arg-type]
        if what == "run":
            flow = Flow("children", node_type=node_type)
            first = flow.add(fn, str(path), FOREVER_S)
            flow.add(handlers.pid, after=[first])
            handle: Any = rt.submit(flow)
        else:
            handle = pool.submit(fn, str(path), FOREVER_S)
        pids = pids_in(path, 2)
        assert all(map(alive, pids))
        if what != "timeout":
            assert handle.cancel()
        failed = handle.exception(timeout=30)
        assert isinstance(failed, errors.TaskFailed)
        assert failed.kind == ("timeout" if what == "timeout" else "cancelled")
        await_gone(pids, timeout_s=5)
        assert pool.submit(handlers.pid).result(timeout=30)


def test_a_cancelled_crowd_frees_its_slots_at_once(state_dir: Path, tmp_path: Path) -> None:
    """Twenty tasks on two workers: two run, eighteen wait; after the cancel the next task starts without delay."""
    path = tmp_path / "pids"
    with Runtime(state_dir, node_types=POOLS[:1], durability="os") as rt:
        flow = Flow("crowd")
        for _ in range(20):
            flow.add(handlers.shell, str(path), FOREVER_S)
        run = rt.submit(flow)
        pids = pids_in(path, 4)
        started = time.monotonic()
        assert run.cancel()
        assert run.wait(timeout=30) == "cancelled"
        assert run.status().counts.cancelled == 20
        assert rt.submit(handlers.pid).result(timeout=30)
        assert time.monotonic() - started < 5
        await_gone(pids, timeout_s=5)
        assert len(pids_in(path, 4)) == 4, "those that waited never started"
