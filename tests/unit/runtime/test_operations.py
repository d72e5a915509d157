"""Dead letters, reruns and draining, as a program asks for them."""

from __future__ import annotations

import itertools
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from actors.protocol import limits
from runtime import Flow, RunState, Runtime
from runtime.errors import CallerError, ConfigurationError, MissingNode, TaskFailed, UnknownRun, WaitTimeout
from tests.unit.runtime import handlers
from tests.unit.runtime.handlers import add_one, echo, fail, gather, mendable, through_gate


def failed(rt: Runtime, *texts: str) -> list[str]:
    """Submit tasks that fail; their run ids."""
    handles = [rt.submit(fail, text) for text in texts]
    assert all(isinstance(handle.exception(30), TaskFailed) for handle in handles)
    return [handle.run_id for handle in handles]


def test_what_failed_for_good_is_listed_and_looked_at(rt: Runtime) -> None:
    before = time.time_ns()
    (run_id,) = failed(rt, "no – \udc80")
    (letter,) = rt.dead()
    assert (letter.id, letter.run_id, letter.node, letter.kind, letter.attempts) == (run_id, run_id, 0, "error", 1)
    assert (letter.handler, letter.name) == ("tests.unit.runtime.handlers:fail", "fail")
    assert letter.error_type == "ValueError"
    assert letter.message == "no – \\udc80"
    assert letter.failed_ns is not None
    assert before <= letter.failed_ns <= time.time_ns()
    details = rt.dead_letter(letter)
    assert (details.letter, details.args, details.kwargs) == (letter, ("no – \udc80",), {})
    assert "in fail" in details.error.traceback_text
    assert isinstance(details.error.__cause__, ValueError)


def test_a_question_that_is_too_long_is_refused_and_holds_up_no_other(rt: Runtime) -> None:
    with pytest.raises(CallerError, match="too long"):
        rt.pause(*(f"key:{number}" for number in range(20_000)))
    with pytest.raises(CallerError, match="too long"):
        rt.dead_letter("x" * 100_000)
    with pytest.raises(CallerError, match="cannot be asked"):
        rt.unschedule("\udcff")
    assert rt.scheduling().paused == ()
    assert rt.submit(add_one, 1).result(10) == 2


def test_arguments_of_every_shape_are_shown(rt: Runtime) -> None:
    flow = Flow("shapes")
    one = flow.add(echo, 1)
    flow.add(gather, one, 2, bad=None, id="template")
    flow.add(handlers.fail_with, 5, {1, 2}, id="args")
    flow.add(handlers.fail_with, one, 7, id="mixed")
    flow.add(handlers.fail_with, one, one, id="parents")
    flow.add(handlers.fail_with, [one], named=one, id="nested")
    flow.add(handlers.fail_with, 3, named=(4,), id="call")
    run = rt.submit(flow)
    assert run.wait(30) == RunState.FAILED
    found = {letter.node_id: rt.dead_letter(letter) for letter in rt.dead(run=run)}
    assert {name: (details.args, details.kwargs) for name, details in found.items()} == {
        "args": ((5, {1, 2}), {}),
        "mixed": ((1, 7), {}),
        "parents": ((1, 1), {}),
        "nested": (([1],), {"named": 1}),
        "call": ((3,), {"named": (4,)}),
    }


def test_a_replayed_task_gives_its_result_to_a_new_handle(rt: Runtime) -> None:
    handle = rt.submit(mendable, 4)
    assert isinstance(handle.exception(30), TaskFailed)
    handlers.MENDED.set()
    assert rt.replay(handle.run_id) == 1
    assert rt.handle(handle.run_id).result(timeout=30) == 4
    assert list(rt.dead()) == []
    with pytest.raises(TaskFailed):
        handle.result()


def test_the_failed_part_of_a_flow_runs_again(rt: Runtime) -> None:
    flow = Flow("parts")
    done = flow.add(handlers.count_calls, 1)
    broken = flow.add(mendable, done)
    last = flow.add(add_one, broken)
    run = rt.submit(flow)
    assert run.wait(30) == RunState.FAILED
    handlers.MENDED.set()
    again = run.rerun()
    assert again.wait(30) == RunState.SUCCEEDED
    assert again.result(last) == 2
    assert handlers.CALLS == [1], "what succeeded did not run again"
    assert again.rerun().wait(30) == RunState.SUCCEEDED, "there is nothing to do"


def test_a_task_is_rerun_by_its_handle(rt: Runtime) -> None:
    handle = rt.submit(mendable, 4)
    assert isinstance(handle.exception(30), TaskFailed)
    assert isinstance(handle.rerun().exception(30), TaskFailed)
    handlers.MENDED.set()
    assert rt.rerun(handle.run_id).result(timeout=30) == 4
    wrong: Any = 3
    with pytest.raises(ConfigurationError, match="a run is named by its handle or its id, not by 3"):
        rt.rerun(wrong)


def test_many_letters_come_and_go_in_pages(rt: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LETTERS_PER_TURN", 3)
    monkeypatch.setattr(limits, "QUERY_ROWS_MAX", 2)
    ids = failed(rt, *map(str, range(8)))
    assert sorted(letter.id for letter in rt.dead()) == sorted(ids)
    assert [letter.id for letter in itertools.islice(rt.dead(run=ids[5]), 5)] == [ids[5]]
    assert rt.discard(*ids[:4]) == 4
    assert sorted(letter.id for letter in rt.dead()) == sorted(ids[4:])
    assert rt.discard(*rt.dead(run=ids[4])) == 1
    assert rt.replay(handler="*:fail", kind="error") == 3
    assert rt.discard(everything=True) <= 3


def test_filters_are_judged_before_anything_is_asked(rt: Runtime) -> None:
    (old,) = failed(rt, "old")
    since = datetime.now(UTC) + timedelta(hours=1)
    assert [letter.id for letter in rt.dead(since=time.time() - 60)] == [old]
    assert list(rt.dead(since=since)) == []
    with pytest.raises(ConfigurationError, match="kind must be one of") as refused:
        rt.dead(kind="bad", handler="", since=float("nan"))
    assert "handler" in refused.value.message
    assert "since" in refused.value.message
    for far in (1e300, 10**400):
        with pytest.raises(ConfigurationError, match="since must be"):
            rt.dead(since=far)
    with pytest.raises(ConfigurationError, match="kind must be one of"):
        rt.dead(kind="waits")  # who waits for its calls has not failed
    with pytest.raises(ConfigurationError, match="time zone"):
        rt.dead(since=datetime.now())
    with pytest.raises(UnknownRun):
        list(rt.dead(run="nobody"))


@pytest.mark.parametrize("what", ["replay", "discard"])
def test_what_is_meant_must_be_said(rt: Runtime, what: str) -> None:
    (run_id,) = failed(rt, "no")
    for letters, options in (
        ((), {}),
        ((run_id,), {"everything": True}),
        ((run_id,), {"kind": "error"}),
        ((), {"kind": "error", "everything": True}),
    ):
        with pytest.raises(ConfigurationError, match="one of the three"):
            getattr(rt, what)(*letters, **options)
    assert len(list(rt.dead())) == 1


def test_names_of_nothing_are_refused(rt: Runtime) -> None:
    with pytest.raises(UnknownRun):
        rt.replay("nobody/3")
    with pytest.raises(UnknownRun):
        rt.rerun("nobody")
    handle = rt.submit(add_one, 1)
    assert handle.result(30) == 2
    with pytest.raises(MissingNode):
        rt.dead_letter(handle.run_id)
    assert rt.replay(handle.run_id) == 0


@pytest.mark.parametrize("name", [None, True, 7, b"x", [], ["x"], {}, object()])
def test_what_is_no_name_is_refused_and_the_engine_goes_on(rt: Runtime, name: Any) -> None:
    for ask in (rt.forget, rt.progress, rt.rerun, rt.dead_letter, rt.replay, rt.discard, rt.unschedule):
        with pytest.raises(CallerError):
            ask(name)
    assert rt.submit(add_one, 1).result(30) == 2


def test_a_drained_scope_is_quiet_and_stays_paused(rt: Runtime) -> None:
    assert rt.drain("tenant:a").paused == ("tenant:a",)
    running = rt.submit(through_gate, 1, tenant="b")
    with pytest.raises(WaitTimeout, match="1 task of tenant:b still ran"):
        rt.drain("tenant:b", timeout=0.05)
    assert rt.scheduling().paused == ("tenant:a", "tenant:b")
    waiting = rt.submit(add_one, 1, tenant="a")
    handlers.GATE.set()
    rt.drain("tenant:b", timeout=30)
    assert running.result(30) == 1
    assert rt.submit(add_one, 2, tenant="c").result(30) == 3
    assert not waiting.done(), "its tenant is paused"
    rt.resume("tenant:a", "tenant:b")
    assert waiting.result(30) == 2
