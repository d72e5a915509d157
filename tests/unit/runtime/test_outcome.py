"""From the engine's word to a value or an exception."""

from __future__ import annotations

from typing import Any

import pytest

from actors.protocol.states import NodeState, RunState
from runtime import outcome
from runtime.errors import (
    InternalError,
    PayloadUnreadable,
    RuntimeClosed,
    TaskCancelled,
    TaskFailed,
    TaskSkipped,
)
from runtime.handle import TaskHandle
from runtime.host.client import EngineClient
from runtime.host.pending import ENDED, ERROR, FAILED, OPEN, VALUE, WIRE
from runtime.mail.codec import Codec
from runtime.views import ResultRow
from tests.unit.runtime.fake_engine import FakeEngine

CODEC = Codec()
FAILURE = {"kind": "error", "type": "ValueError", "message": "bad", "traceback": "Traceback"}


@pytest.fixture
def client() -> EngineClient:
    engine = FakeEngine()
    engine.stop()
    return EngineClient(engine, "s", None)


def settled(client: EngineClient, state: int, value: Any) -> TaskHandle[Any]:
    handle: TaskHandle[Any] = TaskHandle(client)
    handle.seq = 1
    handle.settle(state, value, [])
    return handle


def test_values(client: EngineClient) -> None:
    assert outcome.value_of(settled(client, VALUE, {"!": 1}), client, "r") == {"!": 1}
    import orjson  # lazy: only to make a wire value

    handle = settled(client, WIRE, orjson.loads(CODEC.encode((1, 2))))
    assert outcome.value_of(handle, client, "r") == (1, 2)
    assert handle._state == VALUE
    assert outcome.value_of(handle, client, "r") is outcome.value_of(handle, client, "r")


def test_a_value_that_cannot_be_read(client: EngineClient) -> None:
    handle = settled(client, WIRE, {"!": ["from the future"]})
    with pytest.raises(PayloadUnreadable):
        outcome.value_of(handle, client, "r")


@pytest.mark.parametrize(
    ("state", "error"), [("failed", TaskFailed), ("cancelled", TaskCancelled), ("skipped", TaskSkipped)]
)
def test_failures(client: EngineClient, state: str, error: type[TaskFailed]) -> None:
    with pytest.raises(error, match="bad") as failed:
        outcome.value_of(settled(client, FAILED, [state, FAILURE]), client, "r-1")
    assert type(failed.value) is error
    assert "run r-1" in failed.value.__notes__


@pytest.mark.parametrize(
    ("state", "value", "end"),
    [
        (VALUE, 1, "succeeded"),
        (WIRE, 1, "succeeded"),
        (FAILED, ["failed", FAILURE], "failed"),
        (FAILED, ["cancelled", FAILURE], "cancelled"),
        (FAILED, ["skipped", FAILURE], "succeeded"),
        (ENDED, [1, "r", "failed", []], "failed"),
    ],
)
def test_how_a_task_ended_is_said_without_raising(client: EngineClient, state: int, value: Any, end: str) -> None:
    assert outcome.end_of(settled(client, state, value), client, "r") == RunState(end)


def test_what_did_not_end_is_raised(client: EngineClient) -> None:
    with pytest.raises(RuntimeClosed):
        outcome.end_of(settled(client, ERROR, RuntimeClosed("closed")), client, "r")


def test_an_error_is_raised_anew_each_time(client: EngineClient) -> None:
    error = RuntimeClosed("over")
    handle = settled(client, ERROR, error)
    for _ in range(2):
        with pytest.raises(RuntimeClosed, match="over") as raised:
            outcome.value_of(handle, client, "r")
        assert raised.value is not error


def test_a_cell_without_an_outcome_is_a_bug(client: EngineClient) -> None:
    assert isinstance(outcome.error_of_cell(settled(client, OPEN, None), client, "r"), InternalError)
    assert isinstance(outcome.error_of_cell(settled(client, ENDED, []), client, "r"), InternalError)


def row(state: NodeState, value: Any = None, failure: dict[str, Any] | None = None, name: str = "n") -> ResultRow:
    return ResultRow(0, name, state, value, failure)


def test_rows() -> None:
    good, bad = row(NodeState.SUCCEEDED, 5), row(NodeState.FAILED, None, FAILURE, "bad")
    assert outcome.settle_from_row(good) == (WIRE, 5)
    assert outcome.settle_from_row(bad) == (FAILED, ["failed", FAILURE])
    assert outcome.value_of_row(good, CODEC, "r") == 5
    with pytest.raises(TaskFailed, match="bad") as failed:
        outcome.value_of_row(bad, CODEC, "r")
    assert "node bad of run r" in failed.value.__notes__
    with pytest.raises(TaskSkipped, match="was skipped"):
        outcome.value_of_row(row(NodeState.SKIPPED), CODEC, "r")
    assert outcome.values_of_rows([good, bad], CODEC) == {"n": 5}


def test_the_result_of_a_run() -> None:
    good, other = row(NodeState.SUCCEEDED, 5), row(NodeState.SUCCEEDED, 6, name="m")
    assert outcome.final_value([good], CODEC, "r") == 5
    assert outcome.final_value([good, other], CODEC, "r") == {"n": 5, "m": 6}
    assert outcome.final_value([], CODEC, "r") == {}
    with pytest.raises(TaskFailed):
        outcome.final_value([good, row(NodeState.FAILED, None, FAILURE)], CODEC, "r")


def test_the_error_of_a_run() -> None:
    counts = [0, 0, 0, 2, 1, 0, 3]
    assert outcome.run_error([1, "r", "succeeded", counts], CODEC) is None
    error = outcome.run_error([1, "r", "failed", counts, [4, "load", FAILURE]], CODEC)
    assert type(error) is TaskFailed
    notes = " ".join(error.__notes__)
    assert "1 of 6 nodes failed" in notes
    assert "first: node load" in notes
    assert type(outcome.run_error([1, "r", "cancelled", counts, None], CODEC)) is TaskCancelled
    assert "the run is over: failed" in str(outcome.run_error([1, "r", "failed", counts], CODEC))
