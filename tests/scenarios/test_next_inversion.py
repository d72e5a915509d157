"""Priority inversion: low work that does not run has what urgent work waits for, and gives it back."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from runtime import NodeType, Runtime, Scheduling, TaskHandle
from runtime.submitter import Submitter
from tests.scenarios import handlers_next
from tests.scenarios.processes import OwnFamily, kill
from tests.scenarios.waiting import await_lines, lines, until

pytestmark = pytest.mark.slow

PRINTER: Final = "printer"


def open_runtime(state_dir: Path) -> Runtime:
    scheduling = Scheduling(quotas={f"key:{PRINTER}": 1})
    return Runtime(
        state_dir, node_types=[NodeType("cpu", workers=1, prefetch=4)], durability="os", scheduling=scheduling
    )


def begun(path: Path) -> list[str]:
    return [line.word.removesuffix(":begin") for line in lines(path) if line.word.endswith(":begin")]


def await_at_worker(handle: TaskHandle[Any], what: str) -> None:
    """Wait until the worker has it: a second answer comes from a later turn, when the lease of the first was sent."""
    until(lambda: "at worker" in handle.why(), what)
    handle.why()


def of_class(rt: Runtime, priority: str) -> Submitter:
    return rt.options(priority=priority, concurrency_key=PRINTER)


def test_low_work_that_has_the_key_and_does_not_run_gives_it_to_urgent_work(state_dir: Path, tmp_path: Path) -> None:
    path, gate = tmp_path / "runs", tmp_path / "gate"
    with open_runtime(state_dir) as rt:
        rt.submit(handlers_next.around, str(path), "long", str(gate))
        await_lines(path, 1)
        low = of_class(rt, "low").submit(handlers_next.around, str(path), "low")
        await_at_worker(low, "the low one at the worker")
        others = [rt.submit(handlers_next.around, str(path), f"other-{number}") for number in range(8)]
        high = of_class(rt, "high").submit(handlers_next.around, str(path), "high")
        await_at_worker(high, "the urgent one at the worker, while the long one runs")
        gate.touch()
        for handle in (low, high, *others):
            handle.result(timeout=30)
        assert any("gives way to class high, which waits for key:printer" in event.text for event in low.story())
    assert begun(path)[:2] == ["long", "high"]
    assert begun(path).index("low") > 2


def test_a_killed_worker_leaves_the_key_to_the_best_that_waits(state_dir: Path, tmp_path: Path) -> None:
    path, gate = tmp_path / "runs", tmp_path / "gate"
    with open_runtime(state_dir) as rt:
        family = OwnFamily(rt)
        low = of_class(rt, "low").submit(handlers_next.around, str(path), "low", str(gate))
        await_lines(path, 1)
        high = of_class(rt, "high").submit(handlers_next.around, str(path), "high")
        until(
            lambda: "1 of 1 places of key:printer are taken, by node 0 of run" in high.why(), "the urgent one held back"
        )
        kill(family.workers[0])
        assert high.result(timeout=30) == "high"
        gate.touch()
        assert low.result(timeout=30) == "low"
    assert begun(path) == ["low", "high", "low"]
