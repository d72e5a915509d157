"""The helpers for users' tests."""

from __future__ import annotations

import os
import threading

import pytest

from actors.protocol import limits
from runtime import Flow
from runtime.errors import WaitTimeout
from runtime.testing import inline_runtime, temporary_runtime
from tests.unit.runtime import handlers
from tests.unit.runtime.handlers import add_one


def test_tasks_run_in_this_process() -> None:
    with inline_runtime() as rt:
        assert rt.submit(os.getpid).result(10) == os.getpid()
        assert rt.submit(threading.get_ident).result(10) != threading.get_ident()
        folder = rt.state_dir
    assert not os.path.exists(folder)


def test_a_handler_that_is_missing_is_parked_and_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    with inline_runtime() as rt:
        flow = Flow()
        flow.add(add_one, 1)
        flow._kinds[0]["handler"] = "no.such.module:fn"
        run = rt.submit(flow)
        with pytest.raises(WaitTimeout):
            run.wait(0.1)
        assert "no handler" in run.node(0).why()
    assert caplog.text.count("cannot import the handler no.such.module:fn") == 1


def test_more_is_skipped_than_fits_into_a_turn() -> None:
    with inline_runtime() as rt:
        flow = Flow()
        root = flow.add(add_one, "no number")
        for _ in range(3 * limits.WAVE_EDGES_MAX):
            flow.add(add_one, root)
        run = rt.submit(flow)
        run.wait(10)
        assert run.status().counts.skipped == 3 * limits.WAVE_EDGES_MAX


def test_tasks_call_tasks() -> None:
    with inline_runtime() as rt:
        assert rt.submit(handlers.fib, 8).result(10) == 21
        flow = Flow()
        flow.add(handlers.fib, 2)
        assert [node.parents for node in rt.run(flow, timeout=10).nodes()] == [(1, 2), (), ()]
        assert rt.submit(handlers.asks_in_vain).result(10) == "ValueError: no number"


@pytest.mark.slow
def test_a_whole_runtime_in_a_folder_that_is_removed() -> None:
    with temporary_runtime(handlers.tasks, node_types=None) as rt:
        assert rt.submit(os.getpid).result(30) != os.getpid()
        folder = rt.state_dir
    assert not os.path.exists(os.path.dirname(folder))
