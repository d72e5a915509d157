"""What a program says of a batching handler, and the handler called directly."""

from __future__ import annotations

import asyncio
import math

import pytest

from actors.protocol import limits
from actors.protocol.kinds import KindTable
from runtime import Batch, Failed, TaskRegistry
from runtime.errors import CallerError, ConfigurationError, WrongBatchResult
from runtime.host.batches import checked
from runtime.registry import TaskOptions, kind_of
from runtime.testing import inline_runtime

TASKS = TaskRegistry()


@TASKS.task(batch=Batch(max_size=3, max_wait=0.0))
def halve(numbers: list[int]) -> list[int | Failed]:
    return [number // 2 if number % 2 == 0 else Failed(ValueError(f"{number} is odd")) for number in numbers]


@TASKS.task(batch=Batch(max_size=3, max_wait=0.0))
async def halve_later(numbers: list[int]) -> list[int]:
    return [number // 2 for number in numbers]


@pytest.mark.parametrize("size", [0, -1, limits.BATCH_MAX + 1, 1.5, True, "3", None])
@pytest.mark.parametrize("wait", [-0.1, math.nan, math.inf, 86_401, True, "1", None])
def test_all_that_is_wrong_is_said_at_once(size: object, wait: object) -> None:
    with pytest.raises(ConfigurationError) as refused:
        Batch(max_size=size, max_wait=wait)  # type: ignore[arg-type]
    assert "max_size must" in str(refused.value)
    assert "max_wait must" in str(refused.value)


def test_a_batch_is_a_batch_and_a_failure_an_exception() -> None:
    with pytest.raises(ConfigurationError, match="batch must be a Batch"):
        TaskOptions(batch=3)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="takes an exception, not str"):
        Failed("no")  # type: ignore[arg-type]


def test_the_kind_says_how_calls_are_collected() -> None:
    rule = KindTable().intern(kind_of(halve, shape="one")).batch
    assert rule is not None
    assert (rule.size, rule.wait_ns) == (3, 0)
    assert "batch" not in kind_of(halve, TaskOptions(), shape="one")


@pytest.mark.parametrize("shape", ["args", "call"])
def test_a_call_has_one_argument(shape: str) -> None:
    with pytest.raises(CallerError, match="one positional argument") as refused:
        kind_of(halve, shape=shape)  # type: ignore[arg-type]
    assert refused.value.hint == "", "the handler is a good one, so nothing is said of how to define it"


def test_called_directly_it_is_a_function_of_one() -> None:
    assert halve(4) == 2
    with pytest.raises(ValueError, match="3 is odd"):
        halve(3)
    assert asyncio.run(halve_later(8)) == 4


def test_without_processes_it_works_as_with_them() -> None:
    with inline_runtime(TASKS) as rt:
        handles = [rt.submit(halve, number) for number in range(4)]
        assert [handle.exception(timeout=10) is None for handle in handles] == [True, False, True, False]
        assert rt.submit(halve_later, 6).result(timeout=10) == 3
        with pytest.raises(CallerError, match="one positional argument"):
            rt.submit(halve, 1, 2)  # type: ignore[call-arg]


@pytest.mark.parametrize("value", [7, "ab", {1: 2}, None, (n for n in range(2)), [1], [1, 2, 3]])
def test_what_is_no_list_of_results_is_refused(value: object) -> None:
    with pytest.raises(WrongBatchResult):
        checked(value, 2)
    assert checked([1, 2], 2) == [1, 2]
    assert checked((1, 2), 2) == (1, 2)
