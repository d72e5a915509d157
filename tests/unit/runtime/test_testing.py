"""The helpers for users' tests."""

from __future__ import annotations

import os
import threading

import pytest

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


@pytest.mark.slow
def test_a_whole_runtime_in_a_folder_that_is_removed() -> None:
    with temporary_runtime(handlers.tasks, node_types=None) as rt:
        assert rt.submit(os.getpid).result(30) != os.getpid()
        folder = rt.state_dir
    assert not os.path.exists(os.path.dirname(folder))
