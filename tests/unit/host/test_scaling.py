"""A step in the size of a pool: a line in the log, and a call of the program's function that can do no harm."""

from __future__ import annotations

import logging
from queue import SimpleQueue

import pytest

from runtime.host.client import EngineClient
from runtime.host.pending import Pending
from runtime.host.reader import call_hooks
from runtime.host.scaling import announce_scaled
from tests.unit.runtime.fake_engine import FakeEngine


def test_it_is_logged_as_no_trouble(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "mainspring")
    woken: list[Pending] = []
    announce_scaled("2 tasks wait and there is no worker", ("cpu", 0, 1), None, woken)
    (record,) = caplog.records
    assert record.levelno == logging.INFO
    assert record.getMessage() == "node type cpu: 0 -> 1 worker: 2 tasks wait and there is no worker"
    assert woken == []


def test_the_function_is_called_with_the_step_and_not_before_the_hooks_are() -> None:
    steps: list[tuple[str, int, int, str]] = []
    woken: list[Pending] = []
    announce_scaled("why", ("cpu", 3, 1), lambda *step: steps.append(step), woken)
    assert steps == []
    call_hooks(*woken)
    assert steps == [("cpu", 3, 1, "why")]


def test_what_the_function_raises_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def refuse(*step: object) -> None:
        raise ValueError("not now")

    woken: list[Pending] = []
    announce_scaled("why", ("cpu", 3, 1), refuse, woken)
    call_hooks(*woken)
    assert "not now" in caplog.text


def test_a_client_hears_of_steps_and_is_in_no_trouble() -> None:
    engine = FakeEngine()
    client = EngineClient(engine, "s", None)
    steps: SimpleQueue[tuple[str, int, int, str]] = SimpleQueue()
    client.on_scale = lambda *step: steps.put(step)
    client.start()
    client.attach_thread()
    engine.say("Y", ["why", "scaled", ["cpu", 1, 2]], control=True)
    assert steps.get(timeout=10) == ("cpu", 1, 2, "why")
    assert client.trouble is None
    engine.end(client)
