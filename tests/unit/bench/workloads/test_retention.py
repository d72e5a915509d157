"""The archive that the scenario makes is one."""

from __future__ import annotations

from pathlib import Path

from runtime.bench.workloads.retention import RUN_TASKS, fill
from runtime.storage.past_runs import PastRuns
from runtime.storage.verify_archive import verify_archive


def test_the_folder_has_an_archive_of_so_many_tasks(tmp_path: Path) -> None:
    assert fill(tmp_path / "state", 3 * RUN_TASKS) > 0
    found = verify_archive(tmp_path / "state")
    assert (found.runs, found.nodes, found.problems) == (3, 3 * RUN_TASKS, ())
    answer = PastRuns(str(tmp_path / "state"), None).answer("status", {"run": "past-2"})
    assert answer is not None
    assert answer[0]["counts"][3] == RUN_TASKS
