"""S22, S23: whatever an exception or a result is made of, the task fails with text, and nobody else is harmed."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from runtime import Flow, NodeType, Runtime, errors
from tests.scenarios import handlers_payloads as handlers

POOLS: Final = [NodeType("cpu", workers=1), NodeType("io", workers=1, mode="asyncio", concurrency=10)]
TEXT: Final = {
    "TwoArguments": "7: seven",
    "KeywordsOnly": "by keyword",
    "RefusesToReduce": "whole",
    "RefusesText": "failed with RuntimeError",
    "EndsWhoeverBuildsIt": "once only",
    "LiesAboutItsClass": "who am I",
    "OwnBase": "from the base",
    "SystemExit": "4",
    "KeyboardInterrupt": "typed by nobody",
    "StopIteration": "no more",
    "GeneratorExit": "closed",
    "Local": "defined in a function",
    "ExceptionGroup": "several (2 sub-exceptions)",
    "KeyError": "second",
    "ValueError": "one",
    "RecursionError": "recursion",
}
REBUILT: Final = {
    "SystemExit": SystemExit,
    "KeyboardInterrupt": KeyboardInterrupt,
    "StopIteration": StopIteration,
    "GeneratorExit": GeneratorExit,
    "KeyError": KeyError,
    "ValueError": ValueError,
    "RecursionError": RecursionError,
    "RefusesText": handlers.RefusesText,
    "OwnBase": handlers.OwnBase,
}
"""What can be rebuilt without code of the user's is the cause; all else arrives as text only."""
THINGS: Final = ("lock", "socket", "lambda", "file", "generator", "thread", "iterator", "object", "bound")


@pytest.fixture(scope="module")
def rt(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runtime]:
    with Runtime(tmp_path_factory.mktemp("exceptions") / "state", node_types=POOLS, durability="os") as opened:
        for pool in POOLS:
            opened.options(node_type=pool.name).submit(handlers.pid).result(timeout=60)
        yield opened


def check_failure(name: str, failed: errors.TaskFailed | None) -> None:
    """Type, message and traceback are there as text; the exception itself where it is safe."""
    assert failed is not None
    # An interrupt counts as a crash, which is tried again: whoever ends all processes with SIGINT means no task.
    assert failed.kind == ("crash" if name == "KeyboardInterrupt" else "error")
    assert failed.type_name.rpartition(".")[2] == name
    assert TEXT[name] in failed.message
    assert "handlers_payloads.py" in failed.traceback_text or name == "RecursionError"
    assert TEXT[name] in failed.traceback_text or name in ("RefusesText", "LiesAboutItsClass")
    assert type(failed.__cause__) is REBUILT.get(name, type(None))
    assert name in "".join(traceback.format_exception(failed)).replace("TaskFailed", "")


@pytest.mark.slow
@pytest.mark.parametrize("node_type", ["cpu", "io"])
def test_s22_exception_with_own_constructor(rt: Runtime, node_type: str) -> None:
    """Each fails alone, with type, message and traceback as text; the worker that met it goes on."""
    pool = rt.options(node_type=node_type)
    before = pool.submit(handlers.pid).result(timeout=30)
    for name, handler in handlers.RAISING.items():
        failing = pool.submit(handler)
        good = [pool.submit_nowait(handlers.echo, number) for number in range(5)]
        check_failure(name, failing.exception(timeout=30))
        assert [handle.result(timeout=30) for handle in good] == list(range(5))
    assert pool.submit(handlers.pid).result(timeout=30) == before


@pytest.mark.slow
def test_s22_with_pickle_it_is_tried_there_and_back_before_it_is_sent(rt: Runtime) -> None:
    """Code of the exception's class then runs in the worker, where its harm is the attempt's own."""
    for name, handler in handlers.RAISING.items():
        if name != "EndsWhoeverBuildsIt":
            failed = rt.options(payloads="pickle").submit(handler).exception(timeout=30)
            assert failed is not None, name
            assert failed.kind == ("crash" if name == "KeyboardInterrupt" else "error")
            assert TEXT[name] in failed.message
    assert rt.submit(handlers.echo, 1).result(timeout=30) == 1


@pytest.mark.slow
def test_s22_in_coroutines_and_flows(rt: Runtime) -> None:
    """The run says which node failed and why; what depends on it is skipped, the rest runs."""
    flow = Flow("failing", node_type="io")
    bad = flow.add(handlers.raise_in_coroutine, id="bad")
    child = flow.add(handlers.echo, bad, id="child")
    other = flow.add(handlers.echo, 5, id="other")
    run = rt.submit(flow)
    assert run.wait(timeout=30) == "failed"
    error = run.exception()
    assert error is not None
    assert error.type_name.endswith("TwoArguments")
    assert "8: awaited" in error.message
    assert "first: node bad" in error.__notes__
    assert run.result(other) == 5
    with pytest.raises(errors.TaskSkipped):
        run.result(child)


@pytest.mark.slow
def test_s22_texts_are_bounded(rt: Runtime) -> None:
    failed = rt.submit(handlers.raise_long).exception(timeout=30)
    assert failed is not None
    assert 1_000 < len(failed.message) < 10_000
    assert "characters cut" in failed.message
    assert len(failed.traceback_text) < 20_000


@pytest.mark.slow
def test_s22_the_same_after_a_restart(state_dir: Path) -> None:
    with Runtime(state_dir, node_types=POOLS, durability="os") as rt:
        for name, handler in handlers.RAISING.items():
            check_failure(name, rt.submit(handler, run_id=name).exception(timeout=30))
    with Runtime(state_dir, node_types=POOLS, durability="os") as rt:
        for name in handlers.RAISING:
            check_failure(name, rt.handle(name).exception(timeout=30))
        assert rt.submit(handlers.echo, 1).result(timeout=30) == 1


@pytest.mark.slow
@pytest.mark.parametrize("node_type", ["cpu", "io"])
def test_s23_result_that_cannot_be_stored(rt: Runtime, node_type: str) -> None:
    """The failure says so, and where in the result the value is."""
    pool = rt.options(node_type=node_type)
    for kind in THINGS:
        failed = pool.submit(handlers.return_thing, kind).exception(timeout=30)
        assert failed is not None
        assert failed.kind == "payload"
        assert "['rows'][1]['inner']" in failed.message, kind
        assert isinstance(failed.__cause__, errors.PayloadError)
        assert "['rows'][1]['inner']" in failed.__cause__.path
        assert pool.submit(handlers.echo, kind).result(timeout=30) == kind


@pytest.mark.slow
def test_s23_a_payload_failure_is_not_retried(rt: Runtime) -> None:
    """It would fail in the same way again."""
    handle = rt.options(retry=5).submit(handlers.return_thing, "lock")
    failed = handle.exception(timeout=30)
    assert failed is not None
    assert failed.kind == "payload"
    assert handle.status().attempts == 1


@pytest.mark.slow
@pytest.mark.parametrize("payloads", ["json", "pickle"])
def test_s23_exception_that_cannot_be_stored(rt: Runtime, payloads: Any) -> None:
    pool = rt.options(payloads=payloads)
    for kind in THINGS:
        failed = pool.submit(handlers.raise_thing, kind).exception(timeout=30)
        assert failed is not None
        assert failed.kind == "error"
        assert failed.type_name.endswith("Holder")
        assert "holds a thing" in failed.message
        assert failed.__cause__ is None
    assert rt.submit(handlers.echo, 1).result(timeout=30) == 1


@pytest.mark.slow
@pytest.mark.parametrize("payloads", ["json", "pickle"])
def test_s23_what_pickle_cannot_store_either(rt: Runtime, payloads: Any) -> None:
    pool = rt.options(payloads=payloads)
    for kind in ("lock", "socket", "lambda", "generator", "thread"):
        failed = pool.submit(handlers.return_thing, kind).exception(timeout=30)
        assert failed is not None
        assert failed.kind == "payload", kind
    assert pool.submit(handlers.echo, {1: (2, {3})}).result(timeout=30) == {1: (2, {3})}


@pytest.mark.slow
def test_s23_a_result_that_holds_itself(rt: Runtime) -> None:
    failed = rt.submit(handlers.return_cycle).exception(timeout=30)
    assert failed is not None
    assert failed.kind == "payload"
    assert sys.getrecursionlimit() < 10_000
    assert rt.submit(handlers.echo, 1).result(timeout=30) == 1
