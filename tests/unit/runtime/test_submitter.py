"""Submitting: values and arguments arrive as they were given, options never mix with them, refusals come at once."""

from __future__ import annotations

import functools
import math
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from actors.protocol import limits
from runtime import Flow, Priority, Runtime
from runtime.errors import (
    CallerError,
    ConfigurationError,
    DuplicateRun,
    HandlerRefused,
    PayloadError,
    PayloadTooLarge,
    QueueFull,
    RuntimeClosed,
    TaskFailed,
    UnknownNodeType,
)
from tests.unit.runtime import handlers
from tests.unit.runtime.handlers import add_one, any_keyword, echo, gather, wait_for


def test_arguments_of_all_shapes(rt: Runtime) -> None:
    assert rt.submit(add_one, 1).result(10) == 2
    assert rt.submit(gather).result(10) == [[], {}]
    assert rt.submit(gather, 1, "two").result(10) == [[1, "two"], {}]
    assert rt.submit(gather, 1, key={"a": 1}).result(10) == [[1], {"key": {"a": 1}}]
    assert rt.submit(gather, key=[1]).result(10) == [[], {"key": [1]}]
    assert rt.submit(math.sqrt, 9.0).result(10) == 3.0


@pytest.mark.parametrize(
    "value",
    [
        None,
        float("inf"),
        (1, [2, (3,)]),
        {1: "one", (2,): {3}},
        b"bytes",
        Decimal("1.10"),
        datetime(2026, 10, 25, 2, 30, tzinfo=UTC, fold=1),
        2**80,
        "nul\0 lone \ud800 \\u0000",
        {"!": ["tree", 1]},
        "x" * 300_000,
        list(range(50_000)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_values_come_back_equal_and_of_the_same_types(rt: Runtime, value: Any) -> None:
    for found in (
        rt.submit(echo, value).result(10),
        rt.submit(gather, value, 1).result(10)[0][0],
        rt.submit(gather, key=value).result(10)[1]["key"],
        rt.submit_nowait(echo, value).result(10),
        next(iter(rt.map(echo, [value]))),
    ):
        assert repr(found) == repr(value)
        assert type(found) is type(value)


def test_arrays_come_back(rt: Runtime) -> None:
    for array in (np.arange(3, dtype="float32"), np.zeros((300, 300))):
        found = rt.submit(echo, array).result(10)
        assert found.dtype == array.dtype
        assert np.array_equal(found, array)


def test_a_value_that_cannot_be_stored_is_refused_with_its_path(rt: Runtime) -> None:
    with pytest.raises(PayloadError) as refused:
        rt.submit(echo, {"a": [object()]})
    assert "a" in refused.value.path
    with pytest.raises(PayloadError) as refused:
        rt.submit(gather, 1, key=object())
    assert "key" in refused.value.path
    with pytest.raises(PayloadTooLarge):
        rt.submit(gather, *["x" * 60_000] * 20)
    assert rt.submit(add_one, 1).result(10) == 2


def test_what_cannot_be_a_handler_is_refused(rt: Runtime) -> None:
    with pytest.raises(HandlerRefused):
        rt.submit(lambda: 1)
    with pytest.raises(HandlerRefused):
        rt.submit_nowait(handlers.generator, 1)
    with pytest.raises(HandlerRefused):
        rt.submit([1])  # type: ignore[call-overload]
    with pytest.raises(HandlerRefused):
        rt.submit(handlers.NoHash())
    with pytest.raises(UnknownNodeType, match="gpu"):
        rt.options(node_type="gpu").submit(add_one, 1)


def test_options_given_as_keywords(rt: Runtime) -> None:
    assert rt.submit(add_one, 1, priority=Priority.HIGH, timeout=5.0).result(10) == 2
    with pytest.raises(ConfigurationError, match="priority"):
        rt.submit(add_one, 1, priority="urgent")


def test_keywords_that_the_handler_takes_are_the_handlers(rt: Runtime) -> None:
    assert rt.submit(wait_for, timeout=1.5, priority="mine").result(10) == (1.5, "mine")
    assert rt.submit(any_keyword, timeout=2, run_id="x").result(10) == {"timeout": 2, "run_id": "x"}
    named = rt.submit(wait_for, 1.5, priority="mine", run_id="named-run")
    assert named.run_id == "named-run"
    assert named.result(10) == (1.5, "mine")


def test_options_never_mix_with_arguments(rt: Runtime) -> None:
    submitter = rt.options(priority="low", timeout=3.0)
    handle = submitter.submit(wait_for, timeout=1.0, priority="mine")
    assert handle.result(10) == (1.0, "mine")
    assert submitter.options(timeout=None).submit(add_one, 1).result(10) == 2
    assert list(submitter.map(add_one, range(3))) == [1, 2, 3]
    with pytest.raises(ConfigurationError, match="colour"):
        rt.options(colour="red")  # type: ignore[call-arg]


def test_a_registered_function_has_its_options(rt: Runtime) -> None:
    assert rt.submit(handlers.full_task, 2).result(10) == 6
    handle = rt.submit(handlers.full_task.fn, 2)
    assert handle.result(10) == 6
    assert handle.status().name == "named"


def test_a_partial_ships_its_arguments(rt: Runtime) -> None:
    assert rt.submit(functools.partial(gather, 1, a=2), 3, b=4).result(10) == [[1, 3], {"a": 2, "b": 4}]
    assert rt.submit(functools.partial(gather, 1)).result(10) == [[1], {}]
    assert rt.submit(functools.partial(add_one, 1), priority="high").result(10) == 2


def test_equal_functions_and_options_are_one_kind(rt: Runtime) -> None:
    for i in range(50):
        assert rt.submit(functools.partial(add_one, i)).result(10) == i + 1
        assert rt.submit(handlers.plain_task.options(timeout=5.0), i).result(10) == 2 * i
        assert next(rt.map(functools.partial(gather, i), [0])) == [[i, 0], {}]
    assert len(rt._client.outbox.kinds) == 3
    assert len(rt._dispatch.plans) <= 52


def test_plans_are_forgotten_and_made_again(rt: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PLANS_MAX", 3)
    for i in range(10):
        assert rt.submit(handlers.plain_task.options(timeout=5.0), i).result(10) == 2 * i
    assert len(rt._dispatch.plans) <= 3


def test_keys_may_be_ever_new_ones(rt: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is known of them does not grow. Options that are kept, and a map, go on meanwhile."""
    monkeypatch.setattr(limits, "FACE_KINDS_MAX", 6)
    mapped = rt.map(add_one, range(100), chunk=1, window=1)
    kept = rt.options(timeout=7.0)
    for i in range(40):
        assert rt.submit(add_one, i, concurrency_key=f"order-{i}").result(10) == i + 1
        assert kept.submit(add_one, i).result(10) == i + 1
        assert next(mapped) == i + 1
        assert len(rt._client.outbox.kinds) <= 6
    mapped.close()


def test_coroutine_handlers_are_awaited(rt: Runtime) -> None:
    assert rt.submit(handlers.slow_echo, 5).result(10) == 5


def test_the_context_is_filled_in(rt: Runtime) -> None:
    assert rt.submit(handlers.context_task, 7).result(10) == [7, 0, 1]


def test_a_run_id_is_taken_once(rt: Runtime) -> None:
    handle = rt.submit(add_one, 1, run_id="nightly")
    assert handle.result(10) == 2
    with pytest.raises(DuplicateRun, match="nightly"):
        rt.submit(add_one, 2, run_id="nightly")
    again = rt.submit_nowait(add_one, 3, run_id="nightly")
    with pytest.raises(DuplicateRun):
        again.result(10)
    assert rt.handle("nightly").result(timeout=10) == 2


@pytest.mark.parametrize("run_id", ["", "a/b", ".hidden", "nul\0", "\ud800", "x" * 200, "line\nbreak"])
def test_a_run_id_that_cannot_name_a_folder_is_refused(rt: Runtime, run_id: str) -> None:
    with pytest.raises(ConfigurationError, match="run id"):
        rt.submit(add_one, 1, run_id=run_id)


def test_a_flow_takes_no_arguments(rt: Runtime) -> None:
    flow = Flow("f")
    flow.add(add_one, 1)
    with pytest.raises(CallerError, match="takes no arguments"):
        rt.submit(flow, 1)  # type: ignore[call-overload]
    with pytest.raises(CallerError, match="takes no arguments"):
        rt.submit(flow, priority="high")  # type: ignore[call-overload]
    assert rt.submit(flow, run_id="named-flow").result(timeout=10) == 2


def test_a_failure_brings_the_exception_of_the_handler(rt: Runtime) -> None:
    with pytest.raises(TaskFailed, match="bad luck") as failed:
        rt.submit(handlers.fail, "bad luck").result(10)
    assert type(failed.value.__cause__) is ValueError
    assert failed.value.type_name == "ValueError"
    assert "handlers.py" in failed.value.traceback_text
    assert any("run " in note for note in failed.value.__notes__)
    odd = rt.submit(handlers.fail_oddly).exception(10)
    assert odd is not None
    assert "OddError" in odd.type_name


def test_a_full_engine_refuses_or_makes_wait(rt: Runtime) -> None:
    outbox = rt._client.outbox
    held, outbox.bytes_held = outbox.bytes_held, 1 << 40
    with pytest.raises(QueueFull):
        rt.submit_nowait(add_one, 1)
    with pytest.raises(QueueFull):
        rt.submit_nowait(echo, "x" * 300_000)
    flow = Flow("f")
    flow.add(add_one, 1)
    with pytest.raises(QueueFull):
        rt.submit_nowait(flow)
    outbox.bytes_held = held
    assert rt.submit(add_one, 1).result(10) == 2


def test_a_closed_runtime_refuses(rt: Runtime) -> None:
    rt.submit(add_one, 1)
    rt.close()
    for call in (
        lambda: rt.submit(add_one, 1),
        lambda: rt.submit_nowait(echo, 1),
        lambda: next(rt.map(add_one, [1])),
        lambda: rt.handle("x"),
        rt.statistics,
    ):
        with pytest.raises(RuntimeClosed):
            call()
