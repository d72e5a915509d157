"""Workers are replaced after a number of tasks and at a size, in both modes, and it can be seen."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from runtime import NodeType, Runtime
from tests.integration import handlers
from tests.scenarios import handlers_hygiene as hygiene
from tests.scenarios.processes import OwnFamily
from tests.scenarios.waiting import await_gone, until

pytestmark = pytest.mark.slow

MODES: Final = ("process", "asyncio")
LIMIT_BYTES: Final = 256 << 20
"""Far more than a worker needs, whatever it imports."""


def ready(rt: Runtime) -> list[dict[str, Any]]:
    """Workers that serve, as the engine tells of them."""
    return [worker for worker in rt.statistics()["pools"][0]["workers"] if worker["state"] == "ready"]


@pytest.mark.parametrize("mode", MODES)
def test_after_a_number_of_tasks(state_dir: Path, mode: Any) -> None:
    """One by one: the worker is another one after each third task, and the one before is gone."""
    pool = NodeType("cpu", workers=1, mode=mode, recycle_tasks=3)
    with Runtime(state_dir, node_types=[pool], durability="none") as rt:
        pids = [rt.submit(handlers.pid).result(timeout=30) for _ in range(12)]
        runs = [pids.count(pid) for pid in dict.fromkeys(pids)]
        assert len(runs) >= 3
        assert max(runs) <= (3 if mode == "process" else 6)
        until(lambda: len(ready(rt)) == 1, "one worker")
        await_gone(set(pids) - set(OwnFamily(rt).workers))


@pytest.mark.parametrize("mode", MODES)
def test_at_a_size(state_dir: Path, mode: Any) -> None:
    pool = NodeType("cpu", workers=1, mode=mode, recycle_rss_bytes=LIMIT_BYTES)
    with Runtime(state_dir, node_types=[pool], durability="none") as rt:
        small = [rt.submit(handlers.pid).result(timeout=30) for _ in range(20)]
        assert len(set(small)) == 1
        large = rt.submit(hygiene.leak, LIMIT_BYTES).result(timeout=30)
        assert large == small[0]
        until(lambda: [worker["pid"] for worker in ready(rt)] not in ([], [large]), "another worker")
        await_gone([large])
        assert rt.submit(handlers.pid).result(timeout=30) != large


@pytest.mark.parametrize("mode", MODES)
def test_nothing_is_lost_when_all_are_replaced_at_once(state_dir: Path, mode: Any) -> None:
    """Four workers reach their number at the same time, with work waiting for all of them."""
    pool = NodeType("cpu", workers=4, mode=mode, recycle_tasks=25)
    with Runtime(state_dir, node_types=[pool], durability="none") as rt:
        assert list(rt.map(handlers.square, range(400))) == [number * number for number in range(400)]
        until(lambda: len(ready(rt)) == 4, "four workers")
