"""Things that only leaked tasks have are proved by the mark; what anybody else may give back is not.

Rows 10, 12, 20 and 21; acceptance tests 1 and 5.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import ctypes
import gc
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from runtime.profile.leak_check.grading import LEAK
from runtime.profile.leak_check.survey import Investigation
from runtime.profile.ledger.books import LEDGER
from runtime.profile.ledger.kinds import CHECKOUT, SUBSCRIPTION
from runtime.profile.ledger.named import Named
from runtime.profile.model import Process
from runtime.profile.proof.prove import examine
from tests.unit.profile.garden import LOOPS, Garden, garden
from tests.unit.profile.leak_seeds import numbers

pytestmark = [pytest.mark.slow, pytest.mark.fresh]  # it goes over all objects of its process
HELD: list[Any] = []


class Loan:
    """Can be held weakly."""


async def opened() -> Any:
    """A generator whose task ends."""
    made = numbers()
    async for _ in made:
        break
    return made


async def generator() -> Any:
    return await asyncio.create_task(opened())


async def executor() -> Any:
    made = concurrent.futures.ThreadPoolExecutor(1)
    made.submit(int).result()
    return made


def entered(kind: str) -> Callable[[], Coroutine[Any, Any, Any]]:
    async def make() -> Any:
        made = Loan()
        LEDGER.track(kind, Named(made, "orders"))
        return made

    return make


MAKES = {
    "generator": generator,
    "executor": executor,
    "subscription": entered(SUBSCRIPTION),
    "checkout": entered(CHECKOUT),
}


async def keeps(make: Callable[[], Coroutine[Any, Any, Any]], wait: Callable[[Any], Any]) -> None:
    thing = await make()
    await wait(thing)


def for_nothing(_: Any) -> Any:
    return asyncio.get_running_loop().create_future()


def for_a_while(_: Any) -> Any:
    return asyncio.sleep(3600)  # sleep: it is what is looked at


def shown_to_all(thing: Any) -> Any:
    HELD.append(thing)
    return asyncio.get_running_loop().create_future()


def held_by_c(thing: Any) -> Any:
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))
    HELD.append(id(thing))
    return asyncio.get_running_loop().create_future()


def planted(made: Garden, name: str, wait: Callable[[Any], Any]) -> None:
    async def plant(garden: Garden) -> None:
        garden.kept.append(asyncio.create_task(keeps(MAKES[name], wait)))
        for _ in range(10):
            await asyncio.sleep(0)

    made.run(plant)


def of_kind(name: str) -> set[int]:
    return set(LEDGER.book(name).live)


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("name", MAKES)
def test_what_only_a_leaked_task_has_is_proved(name: str, loop: str) -> None:
    with garden(loop) as made:
        planted(made, name, for_nothing)
        assert set(examine(confirm_s=0.0).things) == of_kind(name)
        assert len(of_kind(name)) == 1


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("name", MAKES)
def test_what_others_may_give_back_is_not(name: str, loop: str) -> None:
    """Of each three: a task has it that goes on; a module; C code. A leaked task with nothing is there, too."""
    with garden(loop) as made:
        try:
            for wait in (for_a_while, shown_to_all, held_by_c):
                planted(made, name, wait)
            proof = examine(confirm_s=0.0)
            assert len(proof.findings) == 2
            assert len(of_kind(name)) == 3
            assert proof.things == ()
        finally:
            for one in HELD:
                if isinstance(one, int):
                    ctypes.pythonapi.Py_DecRef(ctypes.cast(one, ctypes.py_object))
                elif name == "executor":
                    one.shutdown()
            HELD.clear()


def test_a_finding_says_so() -> None:
    with garden("asyncio") as made:
        planted(made, "generator", for_nothing)
        inquiry = Investigation(Process(11, 12, "worker", 3, "http"), machine=False)
        inquiry.prove()
        inquiry.look()
        found = {one.kind: one for one in inquiry.findings(LEAK)}
        assert set(found) == {"task", "generator"}
        assert found["generator"].proof == "only tasks that nothing can wake refer to it"
        assert found["generator"].site[-1].name == "opened"
        assert found["generator"].exemplars == ("numbers",)


def test_garbage_is_no_leak() -> None:
    """What nobody has, and the collector has not come to; a leaked task has nothing to do with it."""
    with garden("asyncio") as made:
        planted(made, "checkout", for_nothing)
        (token,) = of_kind("checkout")

        def garbage() -> None:
            one = Loan()
            one.itself = one  # type: ignore[attr-defined]
            LEDGER.track(CHECKOUT, Named(one, "orders"))

        gc.disable()
        try:
            garbage()
            assert examine(confirm_s=0.0).things == (token,)
        finally:
            gc.enable()
