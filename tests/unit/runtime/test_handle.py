"""Handles: waiting, asking, cancelling, and finding runs again."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, NoReturn

import pytest

from runtime import Flow, NodeState, Priority, Retry, RunState, Runtime
from runtime.errors import (
    ConfigurationError,
    MissingNode,
    TaskCancelled,
    TaskFailed,
    TaskSkipped,
    UnknownRun,
    WaitTimeout,
)
from runtime.mail.board import BoardReader, BoardRow, BoardWriter, create_board, run_key, task_key
from runtime.views import Counts, Progress, RunProgress
from tests.unit.runtime import handlers
from tests.unit.runtime.handlers import add_one, fail, gather, skip, through_gate, total


def diamond() -> Flow:
    flow = Flow("diamond")
    top = flow.add(add_one, 0, id="top")
    sides = [flow.add(add_one, top, id=side) for side in ("left", "right")]
    flow.add(total, *sides, id="bottom")
    return flow


# --- single tasks -----------------------------------------------------------------------------------------------------


def test_a_result_is_waited_for(rt: Runtime) -> None:
    handle = rt.submit(through_gate, 5)
    assert not handle.done()
    with pytest.raises(WaitTimeout, match=handle.run_id):
        handle.result(0.01)
    assert "open" in repr(handle)
    handlers.GATE.set()
    assert handle.result(10) == 5
    assert handle.done()
    assert handle.exception() is None
    assert "succeeded" in repr(handle)


def test_the_end_of_a_task_is_waited_for_whatever_it_is(rt: Runtime) -> None:
    """As that of a run: how it ended is said, and only what is not an end is raised."""
    handle = rt.submit(through_gate, 5)
    with pytest.raises(WaitTimeout, match=handle.run_id):
        handle.wait(0)
    handlers.GATE.set()
    assert handle.wait() == handle.wait(10) == RunState.SUCCEEDED
    assert rt.submit(fail, "no").wait(10) == RunState.FAILED
    skipped = rt.submit(skip)
    assert skipped.wait(10) == rt.handle(skipped.run_id).wait(10) == RunState.SUCCEEDED
    named = rt.submit(fail, "no", run_id="named")
    assert named.wait(10) == RunState.FAILED
    with pytest.raises(TaskFailed):
        named.result()


def test_what_can_be_asked_about_a_task(rt: Runtime) -> None:
    handle = rt.submit(add_one, 1)
    handle.result(10)
    status = handle.status()
    assert (status.state, status.attempts, status.name, status.done) == (NodeState.SUCCEEDED, 1, "add_one", True)
    assert handle.progress() == Progress(1, 1)
    assert handle.story()[0].event == "submitted"
    assert "succeeded" in handle.why()


def test_cancelling_what_has_ended_is_said(rt: Runtime) -> None:
    handle = rt.submit(add_one, 1)
    handle.result(10)
    assert handle.cancel() is False


def test_a_task_that_waits_is_cancelled(rt: Runtime) -> None:
    first = rt.submit(through_gate, 1)
    waiting = [rt.submit(add_one, i) for i in range(100)]
    last = waiting[-1]
    handlers.GATE.set()
    if last.cancel():
        with pytest.raises(TaskCancelled):
            last.result(10)
        assert isinstance(last.exception(), TaskCancelled)
    assert first.result(10) == 1


def test_a_skip_is_its_own_end(rt: Runtime) -> None:
    with pytest.raises(TaskSkipped, match="not today"):
        rt.submit(skip).result(10)


def test_retries_are_counted(rt: Runtime) -> None:
    handle = rt.options(retry=Retry(max_attempts=3, base=0.0)).submit(handlers.flaky, 4)
    assert handle.result(10) == 4
    assert handle.status().attempts == 3
    assert any("attempt 2" in event.event for event in handle.story())


# --- runs -------------------------------------------------------------------------------------------------------------


def test_results_of_a_run(rt: Runtime) -> None:
    flow = diamond()
    run = rt.submit(flow)
    assert run.wait(10) == RunState.SUCCEEDED
    assert run.result() == 4
    assert run.result("left") == run.result(1) == run.result(flow.node("right")) == 2
    assert run.results() == {"top": 1, "left": 2, "right": 2, "bottom": 4}
    assert run.exception() is None
    assert run.raise_if_failed() is run
    with pytest.raises(MissingNode):
        run.result("nowhere")


def test_several_final_nodes_are_a_dictionary(rt: Runtime) -> None:
    flow = Flow()
    top = flow.add(add_one, 0)
    flow.add(add_one, top, id="a")
    flow.add(add_one, top)
    assert rt.run(flow).result() == {"a": 2, "2": 2}


def test_tables_and_counts(rt: Runtime) -> None:
    run = rt.run(diamond())
    rows = run.nodes()
    assert [row.id for row in rows] == ["top", "left", "right", "bottom"]
    assert rows[3].parents == (1, 2)
    assert all(row.state == NodeState.SUCCEEDED for row in rows)
    status = run.status()
    assert (status.name, status.state, status.counts.total) == ("diamond", RunState.SUCCEEDED, 4)
    assert run.progress() == Progress(4, 4)
    assert "run succeeded" in [event.event for event in run.story()]
    assert run.why() == "it ended: succeeded"


@pytest.fixture
def board(rt: Runtime) -> Iterator[BoardWriter]:
    """What an engine would show to the runtime."""
    fd = create_board("uuid")
    writer, rt._client.board = BoardWriter(os.dup(fd)), BoardReader(fd)
    writer.sweep()
    writer.begin()
    yield writer
    rt._client.board.close()
    writer.close()
    os.close(fd)


def unasked(rt: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(*_: object) -> NoReturn:
        raise AssertionError("the engine was asked")

    monkeypatch.setattr(rt._client, "ask", asked)


def test_progress_of_a_run_is_read_where_the_engine_shows_it(
    rt: Runtime, board: BoardWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = Flow("gated")
    flow.add(through_gate, 1)
    run = rt.submit(flow)
    assert run.progress() == Progress(0, 1), "it is not shown, so it is asked for"
    slot = board.place(run_key(run.run_id), BoardRow(1, (1, 0, 2, 3, 0, 0, 0), 1, 1, 0, 1.0, 2.0, "half"))
    unasked(rt, monkeypatch)
    for found in (run.progress(), rt.progress(run), rt.progress(run.run_id)):
        assert found == Progress(3, 6, "half")
        assert isinstance(found, RunProgress)
        assert found.counts == Counts(pending=1, running=2, succeeded=3)
    board.release(slot)
    with pytest.raises(AssertionError, match="was asked"):
        run.progress()
    monkeypatch.undo()
    handlers.GATE.set()
    run.wait(10)
    unasked(rt, monkeypatch)
    assert run.progress() == Progress(1, 1), "the end says it"


def test_progress_of_a_task_is_read_where_the_engine_shows_it(
    rt: Runtime, board: BoardWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = rt.submit(through_gate, 1)
    unasked(rt, monkeypatch)
    assert rt.progress(task) == Progress(0, 1), "it would be shown if it had reported something"
    board.place(task_key(task.run_id), BoardRow(1, (0,) * 7, 1, 1, 0, 1.0, 4.0, "quarter"))
    assert task.progress() == Progress(1, 4, "quarter")
    monkeypatch.undo()
    other = rt.submit(through_gate, 1)
    board.lost()
    assert other.progress() == Progress(0, 1)
    unasked(rt, monkeypatch)
    with pytest.raises(AssertionError, match="was asked"):
        other.progress()


def test_a_board_that_shows_nothing_is_not_believed(rt: Runtime, board: BoardWriter) -> None:
    task = rt.submit(through_gate, 1)
    run = rt.submit(diamond())
    board.sweep()
    assert (task.progress(), run.progress().total) == (Progress(0, 1), 4)


def test_a_node_by_itself(rt: Runtime) -> None:
    run = rt.run(diamond())
    node = run.node("left")
    assert node.result() == 2
    assert node.status().index == 1
    assert "succeeded" in node.why()
    assert node.story()
    assert node.cancel() is False
    assert run.node(0).status().id == "top"
    assert "left" in repr(node)


def test_a_failed_run_says_what_failed_first(rt: Runtime) -> None:
    flow = Flow("sad")
    bad = flow.add(fail, "broken", id="bad")
    flow.add(add_one, bad, id="behind")
    fine = flow.add(add_one, 1, id="fine")
    with pytest.raises(TaskFailed, match="broken") as failed:
        rt.run(flow)
    notes = "\n".join(failed.value.__notes__)
    assert "1 of 3 nodes failed" in notes
    assert "1 skipped" in notes
    assert "node bad" in notes
    assert type(failed.value.__cause__) is ValueError
    run = rt.handle(next(rt.runs()).run_id)
    assert run.wait(10) == RunState.FAILED
    assert run.result("fine") == run.result(fine) == 2
    assert run.results() == {"fine": 2}
    with pytest.raises(TaskSkipped):
        run.result("behind")
    with pytest.raises(TaskFailed, match="broken"):
        run.result("bad")
    with pytest.raises(TaskFailed):
        run.result()


def test_trigger_rules(rt: Runtime) -> None:
    flow = Flow()
    bad, good, skipped = flow.add(fail, "x"), flow.add(add_one, 1), flow.add(skip)
    flow.add(gather, bad, good, trigger="all_done", id="all_done")
    flow.add(gather, bad, good, trigger="any_succeeded", id="any")
    flow.add(gather, bad, good, trigger="none_failed", id="none_failed")
    flow.add(gather, skipped, good, trigger="none_failed", id="skipped_is_fine")
    run = rt.submit(flow)
    run.wait(10)
    assert run.result("all_done") == [[None, 2], {}]
    assert run.result("any") == [[None, 2], {}]
    assert run.result("skipped_is_fine") == [[None, 2], {}]
    with pytest.raises(TaskSkipped):
        run.result("none_failed")


def test_nodes_that_a_task_adds(rt: Runtime) -> None:
    flow = Flow()
    flow.add(handlers.spawner, 3)
    run = rt.run(flow)
    assert sorted(run.results().values()) == [1, 2, 3, 3]


def test_an_empty_flow_succeeds(rt: Runtime) -> None:
    run = rt.run(Flow("empty"))
    assert run.results() == {}


def test_more_rows_than_fit_into_a_page(rt: Runtime) -> None:
    flow = Flow()
    for i in range(1300):
        flow.add(add_one, i)
    run = rt.run(flow)
    assert len(run.nodes()) == 1300
    assert sum(run.results().values()) == sum(range(1, 1301))


def test_callbacks(rt: Runtime) -> None:
    seen: list[Any] = []
    run = rt.run(diamond())
    run.add_done_callback(seen.append)
    handle = rt.submit(add_one, 1)
    handle.result(10)
    handle.add_done_callback(seen.append)
    assert seen == [run, handle]


# --- found again ------------------------------------------------------------------------------------------------------


def test_a_run_is_found_by_its_id(rt: Runtime) -> None:
    run = rt.run(diamond(), run_id="etl")
    assert run.run_id == "etl"
    found = rt.handle("etl")
    assert found.done()
    assert found.result() == 4
    assert found.exception() is None
    task = rt.submit(add_one, 1)
    task.result(10)
    assert rt.handle(task.run_id).result() == 2


def test_a_run_that_is_going_on_is_found_and_waited_for(rt: Runtime) -> None:
    flow = Flow("slow")
    flow.add(through_gate, 3)
    run = rt.submit(flow)
    task = rt.submit(through_gate, 4)
    found, found_task = rt.handle(run.run_id), rt.handle(task.run_id)
    with pytest.raises(WaitTimeout):
        found.wait(0.01)
    handlers.GATE.set()
    assert found.result(timeout=10) == 3
    assert found_task.result(timeout=10) == 4


def test_an_unknown_run(rt: Runtime) -> None:
    with pytest.raises(UnknownRun):
        rt.handle("nobody")


def test_runs_are_listed(rt: Runtime) -> None:
    rt.run(diamond(), run_id="one")
    rt.submit(add_one, 1).result(10)
    rt.run(diamond(), run_id="two")
    two, single, one = rt.runs()
    assert (two.run_id, one.run_id) == ("two", "one")
    assert single.name.endswith("add_one")


def test_a_task_and_a_run_get_another_class(rt: Runtime) -> None:
    first = rt.submit(through_gate, 1)
    rt.pause("type:default", "type:cpu")
    task, run = rt.submit(add_one, 1), rt.submit(diamond())
    assert rt.set_priority(task, "high")
    assert rt.set_priority(run.run_id, Priority.LOW)
    assert task.set_priority("realtime")
    waiting = rt.scheduling().waiting
    assert (waiting["realtime"], waiting["high"], waiting["low"]) == (1, 0, 1)
    assert [event.event for event in task.story()][-2:] == ["priority set", "priority set"]
    assert run.why().endswith("; its priority was set to low")
    for wrong in (lambda: task.set_priority("urgent"), lambda: rt.set_priority(run, "")):
        with pytest.raises(ConfigurationError, match="realtime, high, normal, low"):
            wrong()
    with pytest.raises(UnknownRun):
        rt.set_priority("nowhere", "low")
    rt.resume("type:default", "type:cpu")
    handlers.GATE.set()
    assert (first.result(10), task.result(10), run.wait(10)) == (1, 2, RunState.SUCCEEDED)
    assert rt.set_priority(task, "low") is run.set_priority("low") is False
