"""Snapshots are read from the engine's rows."""

from __future__ import annotations

import pickle

from actors.protocol.states import NodeState, RunState
from runtime import views
from runtime.views import Counts, NodeStatus, Progress, RunProgress, StoryEvent


def test_counts_add_up() -> None:
    counts = Counts(1, 2, 3, 4, 5, 6, 7)
    assert (counts.done, counts.total) == (22, 28)


def test_progress_has_a_fraction() -> None:
    assert Progress(1, 4).fraction == 0.25
    assert Progress(5, 4).fraction == 1.0
    assert Progress(0, 0).fraction == 0.0


def test_the_progress_of_a_run_is_one_with_counts() -> None:
    counts = Counts(pending=1, succeeded=2, failed=1)
    found = RunProgress(counts, "half")
    assert found == Progress(3, 4, "half")
    assert (found.counts, found.fraction) == (counts, 0.75)
    again = pickle.loads(pickle.dumps(found))
    assert (type(again), again, again.counts) == (RunProgress, found, counts)


def test_a_row_of_the_table() -> None:
    row = [3, None, [1, 2], int(NodeState.LEASED), 2, 10, None, 77, "work", [1.0, 4.0, "half"]]
    found = NodeStatus.from_row(row)
    assert found == NodeStatus(3, "3", (1, 2), NodeState.LEASED, 2, 10, None, 77, "work", Progress(1.0, 4.0, "half"))
    assert not found.done
    assert NodeStatus.from_row([*row[:9]]).progress is None
    assert NodeStatus.from_row([0, "a", [], int(NodeState.SKIPPED), 0, None, None, None, "w", None]).done


def test_a_status_and_a_list_of_runs() -> None:
    status = views.read_status(
        {"run": "r", "name": None, "state": "failed", "counts": [0] * 7, "created_ns": 1, "ended_ns": 2}
    )
    assert (status.run_id, status.name, status.state, status.ended_ns) == ("r", "", RunState.FAILED, 2)
    assert views.read_runs({"rows": [["r", "n", "running", [0] * 7, 1, None]]})[0].state == RunState.RUNNING


def test_results_and_story() -> None:
    rows = views.read_results({"rows": [[0, None, int(NodeState.SUCCEEDED), 5, None]]})
    assert (rows[0].number, rows[0].id, rows[0].value) == (0, "0", 5)
    assert views.read_story({"events": [[1, -1, "submitted", ""], [2, 0, "started", "x"]]}) == [
        StoryEvent(1, None, "submitted", ""),
        StoryEvent(2, 0, "started", "x"),
    ]


def test_questions_name_what_they_ask_for() -> None:
    assert views.ask_status("r", watch=True) == ("status", {"run": "r", "watch": True})
    assert views.ask_results("r", 5, which="final")[1]["which"] == "final"
    assert views.ask_nodes("r", node="x")[1]["node"] == "x"
    assert views.ask_why("r") == ("why", {"run": "r", "node": None})
    assert views.ask_story("r", 1) == ("story", {"run": "r", "node": 1})
    assert views.ask_runs(7)[1]["from"] == 7
