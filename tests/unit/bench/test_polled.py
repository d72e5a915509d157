"""The polled table: every task runs once, in order, and what is paused waits."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime.bench import polled

pytestmark = pytest.mark.slow


def test_tasks_run_once_each_and_what_is_paused_waits(tmp_path: Path) -> None:
    with polled.open_table(tmp_path, 2, "os") as table:
        table.pause("held")
        table.submit("held", range(20))
        table.submit("free", range(50))
        assert table.wait("free", 50, 30.0)
        free = table.ended("free")
        assert [(task.value, task.result, task.starts) for task in free] == [(n, n + 1, 1) for n in range(50)]
        assert all(task.started_ns <= task.ended_ns for task in free)
        assert not table.ended("held")
        assert not table.wait("held", 1, 0.0)
        table.resume("held")
        assert table.wait("held", 20, 30.0)
        assert [task.result for task in table.ended("held")] == [*range(1, 21)]


def test_the_promise_of_durability_is_passed_on() -> None:
    assert dict(polled.SYNCHRONOUS) == {"fsync": "FULL", "os": "NORMAL", "none": "OFF"}
