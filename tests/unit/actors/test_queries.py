"""Answers: states, counts, pages and the story."""

from __future__ import annotations

import pytest

from actors.archived import archived_run
from actors.core import EngineCore
from actors.persister import Persister
from actors.protocol import limits
from actors.protocol import messages as msg
from actors.protocol.errors import MissingNode
from actors.replay import Replay
from actors.scheduler import Scheduler
from tests.unit.actors.rig import Rig, node_type


def test_the_story_is_in_order_with_causes() -> None:
    rig = Rig()
    rig.submit(1, retry={"max_attempts": 2, "base_ns": 10, "jitter": False})
    ((worker, serial, node),) = rig.leases()
    rig.fail(worker, serial, node)
    rig.later(1000)
    ((worker, serial, node),) = rig.leases()
    rig.succeed(worker, serial, node)
    events = rig.ask("story", run="s-1")["events"]
    assert [event[2] for event in events] == ["submitted", "attempt 1 failed", "started", "succeeded"]
    assert events[0][3] == "1 node as s-1"
    assert events[1][3] == "ValueError: no; attempt 2 starts in 0.000 s"


def test_the_story_is_the_same_after_a_restart_with_its_end_and_who_asked() -> None:
    rig = Rig()
    rig.submit_graph([[], [0]])
    ((worker, serial, _),) = rig.leases()
    rig.say(msg.CancelAsked("s", 9, "s-1", None))
    rig.say(msg.LeasesRevoked(worker, (serial,), (serial,)))
    before = [event[2] for event in rig.ask("story", run="s-1")["events"]]
    assert before.count("run cancelled") == 1
    scheduler = Scheduler(["default"])
    replay = Replay(scheduler)
    for record in rig.records:
        replay.fold(record)
    core = EngineCore(scheduler, Persister("none"), [])
    question = msg.Queried("", 0, "story", {"run": "s-1"})
    (told,) = core.queries.answer(question, 1, 1)
    after = told.body[1]["events"]
    assert {"submitted", "cancel asked", "run cancelled"} <= {event[2] for event in after}
    assert ("cancel asked", "by s") in {(event[2], event[3]) for event in after}


def test_what_a_failed_attempt_printed_is_in_the_log_with_its_failure() -> None:
    rig = Rig()
    rig.submit(1)
    ((worker, serial, node),) = rig.leases()
    failure = {"kind": "error", "type": "X", "message": "no", "traceback": "", "output": "so far"}
    rig.say(msg.WorkerFailed(worker, [[serial, 1, node, rig.now_ns, rig.now_ns + 5, failure]]))
    assert rig.ask("output", run="s-1") == {"text": "so far", "truncated": False}


def test_a_task_has_the_name_of_what_it_executes_as_in_the_archive() -> None:
    rig = Rig()
    rig.submit(2)
    name = archived_run(next(iter(rig.core.scheduler.book.live.values())), None).name
    assert name
    assert [rig.ask("status", run=f"s-{n}")["name"] for n in (1, 2)] == [name, name]
    assert {row[1] for row in rig.ask("runs")["rows"]} == {name}


def test_the_only_node_of_a_graph_need_not_be_named() -> None:
    one, two = Rig(), Rig()
    one.submit_graph([[]])
    assert one.core.queries.place_of({"run": "s-1"})[1] == 0
    two.submit_graph([[], []])
    with pytest.raises(MissingNode, match=r"run\.node"):
        two.core.queries.place_of({"run": "s-1"})


def test_each_task_of_a_bundle_has_a_story_of_its_own() -> None:
    rig = Rig()
    rig.submit(3)
    assert [rig.ask("story", run=f"s-{n}")["events"][0][3] for n in (1, 3)] == ["1 node as s-1", "1 node as s-3"]


def test_what_was_cancelled_before_it_ran_had_no_attempt() -> None:
    rig = Rig(boot=False)
    rig.submit_graph([[], []])
    rig.say(msg.CancelAsked("s", 9, "s-1", 0))
    rig.say(msg.WorkerHello(rig.workers[0], 101))
    (worker, serial, node), *_ = rig.leases()
    rig.say(msg.CancelAsked("s", 10, "s-1", node), msg.LeasesRevoked(worker, (serial,), (serial,)))
    texts = [event[3] for event in rig.ask("story", run="s-1")["events"] if event[2] == "cancelled"]
    assert texts == ["cancelled before it started"] * 2, "one that waited, one that came back from its worker"


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
    rig.let_hold(7)
    rig.submit_graph([[] for _ in range(7)])
    by_node = {node: (worker, serial) for worker, serial, node in rig.leases()}
    rig.fail(*by_node[5], 5)
    pages = [rig.ask("result", run="s-1", which="failed", **{"from": first}) for first in (0, 3, 6)]
    assert [page["next"] for page in pages] == [3, 6, None]
    assert [[row[0] for row in page["rows"]] for page in pages] == [[], [5], []]


def test_what_a_worker_holds_ahead_does_not_run() -> None:
    rig = Rig()
    rig.submit_graph([[], [], [], [0]])
    (worker, serial, node), *_ = rig.leases()
    assert rig.ask("status", run="s-1")["counts"] == [1, 3, 0, 0, 0, 0, 0]
    rig.observe(worker, serial, rig.now_ns)
    assert rig.ask("status", run="s-1")["counts"] == [1, 2, 1, 0, 0, 0, 0]
    assert rig.ask("runs")["rows"][0][3] == [1, 2, 1, 0, 0, 0, 0]
    rig.succeed(worker, serial, node)
    assert rig.ask("status", run="s-1")["counts"] == [0, 3, 0, 1, 0, 0, 0], "what was seen to run has ended"


def test_a_single_task_that_is_held_ahead_does_not_run() -> None:
    rig = Rig()
    rig.submit(2)
    (worker, serial, _), *_ = rig.leases()
    rig.observe(worker, serial, rig.now_ns)
    assert rig.ask("status", run="s-1")["counts"] == [0, 0, 1, 0, 0, 0, 0]
    assert rig.ask("status", run="s-2")["counts"] == [0, 1, 0, 0, 0, 0, 0]


def test_all_that_an_asyncio_worker_runs_is_known() -> None:
    rig = Rig(node_type(mode="asyncio", slots=2))
    rig.submit(3)
    (worker, first, _), (_, second, _), *_ = rig.leases()
    rig.observe(worker, 0, 0, running=((first, rig.now_ns - 5), (second, 0)))
    counts = [rig.ask("status", run=f"s-{number}")["counts"][:3] for number in (1, 2, 3)]
    assert counts == [[0, 0, 1], [0, 0, 1], [0, 1, 0]]
    rows = [rig.ask("nodes", run=f"s-{number}")["rows"][0] for number in (1, 2, 3)]
    assert [row[5] is None for row in rows] == [False, False, True], "what runs has a start"


def test_an_attempt_counts_when_it_has_started() -> None:
    rig = Rig()
    rig.submit(1, retry={"max_attempts": 2, "base_ns": 10, "jitter": False})
    ((worker, serial, node),) = rig.leases()
    attempts = [rig.ask("nodes", run="s-1")["rows"][0][4]]
    rig.observe(worker, serial, rig.now_ns)
    attempts.append(rig.ask("nodes", run="s-1")["rows"][0][4])
    rig.fail(worker, serial, node)
    rig.later(1000)
    rig.leases()
    attempts.append(rig.ask("nodes", run="s-1")["rows"][0][4])
    assert attempts == [0, 1, 1]
