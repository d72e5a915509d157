"""Answers: states, pages, story and the reasons why something does not run."""

from __future__ import annotations

import pytest

from actors.protocol import limits
from actors.protocol import messages as msg
from tests.unit.actors.rig import Rig


def test_why_names_the_parents() -> None:
    rig = Rig()
    rig.submit_graph([[], [0]])
    assert rig.ask("why", run="s-1", node=1)["text"] == "it waits for 1 parents: 0 (leased)"


def test_why_names_the_retry() -> None:
    rig = Rig()
    rig.submit(1, retry={"max_attempts": 2, "base_ns": 10**9, "jitter": False})
    ((worker, serial, node),) = rig.leases()
    rig.fail(worker, serial, node)
    assert rig.ask("why", run="s-1")["text"].startswith("attempt 1 failed; the next starts in 1.000 s")


def test_why_names_a_pool_that_cannot_start() -> None:
    rig = Rig(boot=False)
    rig.submit(1)
    rig.say(msg.WorkerCannotBoot(rig.workers[0], "ModuleNotFoundError: x"))
    assert "ModuleNotFoundError: x" in rig.ask("why", run="s-1")["text"]


def test_why_of_what_ended() -> None:
    rig = Rig()
    rig.submit(1)
    ((worker, serial, node),) = rig.leases()
    rig.fail(worker, serial, node)
    assert rig.ask("why", run="s-1")["text"] == "it ended: failed: no"


def test_the_story_is_in_order_with_causes() -> None:
    rig = Rig()
    rig.submit(1, retry={"max_attempts": 2, "base_ns": 10, "jitter": False})
    ((worker, serial, node),) = rig.leases()
    rig.fail(worker, serial, node)
    rig.later(1000)
    ((worker, serial, node),) = rig.leases()
    rig.succeed(worker, serial, node)
    events = rig.ask("story", run="s-1")["events"]
    assert [event[2] for event in events] == ["submitted", "attempt 1 error", "started", "succeeded"]


def test_each_task_of_a_bundle_is_a_run_of_its_own() -> None:
    rig = Rig()
    rig.submit(2)
    leases = rig.leases()
    rig.succeed(leases[1][0], leases[1][1], leases[1][2], value=9)
    assert rig.ask("status", run="s-2")["state"] == "succeeded"
    assert rig.ask("status", run="s-1")["state"] == "running"
    assert rig.ask("result", run="s-2")["rows"] == [[1, None, 3, 9, None]]


def test_unknown_runs_nodes_and_questions_are_refused() -> None:
    rig = Rig()
    assert rig.ask("status", run="s-9")["code"] == "MS121"
    rig.submit(1)
    assert rig.ask("nodes", run="s-1", node=5)["code"] == "MS113"
    assert rig.ask("nodes", run="s-1", node="x")["code"] == "MS113"
    assert rig.ask("weather")["code"] == "MS100"


def test_long_tables_come_in_pages() -> None:
    rig = Rig()
    rig.submit_graph([[] for _ in range(limits.QUERY_ROWS_MAX + 3)])
    first = rig.ask("nodes", run="s-1")
    assert len(first["rows"]) == limits.QUERY_ROWS_MAX
    second = rig.ask("nodes", run="s-1", **{"from": first["next"]})
    assert [row[0] for row in second["rows"]] == [limits.QUERY_ROWS_MAX + i for i in range(3)]
    assert second["next"] is None


def test_final_results_are_those_nobody_depends_on() -> None:
    rig = Rig()
    rig.submit_graph([[], [0], [0]])
    assert [row[0] for row in rig.ask("result", run="s-1", which="final")["rows"]] == [1, 2]


def test_runs_are_listed_latest_first() -> None:
    rig = Rig()
    rig.submit(1)
    rows = [[2, 1, 0]]
    rig.say(msg.TasksSubmitted("s", rows, b"[[2,1,0]]"))
    assert [row[0] for row in rig.ask("runs")["rows"]] == ["s-2", "s-1"]


def test_times_are_wall_clock_and_include_failed_attempts() -> None:
    rig = Rig()
    rig.submit(1)
    ((worker, serial, node),) = rig.leases()
    rig.fail(worker, serial, node)
    (row,) = rig.ask("nodes", run="s-1")["rows"]
    assert row[3:5] == [4, 1]
    assert row[6] - row[5] == 5
    assert row[7] == 100 + worker


def test_a_page_of_what_matches_looks_at_so_many_nodes_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "QUERY_NODES_MAX", 3)
    rig = Rig()
    rig.submit_graph([[] for _ in range(7)])
    by_node = {node: (worker, serial) for worker, serial, node in rig.leases()}
    rig.fail(*by_node[5], 5)
    pages = [rig.ask("result", run="s-1", which="failed", **{"from": first}) for first in (0, 3, 6)]
    assert [page["next"] for page in pages] == [3, 6, None]
    assert [[row[0] for row in page["rows"]] for page in pages] == [[], [5], []]
