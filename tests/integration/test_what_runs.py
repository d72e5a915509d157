"""What is said to run does run: the words of real workers, beside what they only hold ahead."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime import Flow, NodeType, Runtime
from tests.integration import handlers
from tests.scenarios.waiting import until

pytestmark = pytest.mark.slow

TASKS = 6


@pytest.mark.parametrize(
    ("pool", "slots"),
    [(NodeType("pool", workers=1), 1), (NodeType("pool", workers=1, mode="asyncio", concurrency=2), 2)],
    ids=["process", "asyncio"],
)
def test_what_a_worker_holds_ahead_is_not_said_to_run(
    state_dir: Path, tmp_path: Path, pool: NodeType, slots: int
) -> None:
    path, gate = tmp_path / "held", tmp_path / "gate"
    with Runtime(state_dir, node_types=[pool], durability="none") as rt:
        flow = Flow("held", node_type="pool")
        nodes = [flow.add(handlers.hold, str(path), str(gate)) for _ in range(TASKS)]
        flow.add(handlers.pid, after=nodes)
        run = rt.submit(flow)
        until(lambda: path.exists() and len(path.read_text().splitlines()) == slots, "full slots")
        counts = run.status().counts
        assert (counts.running, counts.ready, counts.pending) == (slots, TASKS - slots, 1)
        started = [status.started_ns is not None for status in run.nodes()]
        assert started == [True] * slots + [False] * (TASKS + 1 - slots)
        assert run.node(0).why().startswith("it runs at worker ")
        assert not run.node(TASKS - 1).why().startswith("it runs")
        gate.touch()
        assert run.wait(30) == "succeeded"
        assert run.status().counts == (0, 0, 0, TASKS + 1, 0, 0, 0)
