"""Work in threads, with the context of whoever asked for it."""

from __future__ import annotations

import asyncio
import contextvars
import sys
from collections.abc import Callable
from functools import partial

import pytest

from runtime.profile.sampling.carried import CarryingPool
from runtime.profile.sampling.labels import current, labels
from runtime.profile.sampling.parents import PoolWork

VALUE: contextvars.ContextVar[int] = contextvars.ContextVar("value", default=0)


def seen_inside() -> tuple[dict[str, str], object]:
    """The labels of the running code, and those that another thread sees in it."""
    return dict(current()), PoolWork.labels_in(sys._getframe())


@pytest.mark.parametrize("own_context", [False, True])
def test_work_has_the_labels_of_who_submits_it(own_context: bool) -> None:
    work: Callable[[], tuple[dict[str, str], object]] = seen_inside
    with CarryingPool(1) as pool, labels(customer="acme"):
        if own_context:
            work = partial(contextvars.copy_context().run, seen_inside)
        mine, found = pool.submit(work).result()
        assert mine == {"customer": "acme"}
        assert dict(found.labels()) == mine  # type: ignore[attr-defined]
    with CarryingPool(1) as pool:
        assert pool.submit(seen_inside).result() == ({}, None)


def test_what_work_sets_stays_in_it() -> None:
    with CarryingPool(1) as pool:
        pool.submit(VALUE.set, 7).result()
        assert pool.submit(VALUE.get).result() == 0
        assert pool.submit(dict, a=1).result() == {"a": 1}


def test_as_the_default_executor_of_a_loop() -> None:
    async def run() -> dict[str, str]:
        loop = asyncio.get_running_loop()
        loop.set_default_executor(CarryingPool())
        with labels(customer="acme"):
            plain = await loop.run_in_executor(None, seen_inside)
            assert plain[0] == (await asyncio.to_thread(seen_inside))[0]
        await loop.shutdown_default_executor()
        return plain[0]

    assert asyncio.run(run()) == {"customer": "acme"}
