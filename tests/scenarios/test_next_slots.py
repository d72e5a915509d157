"""S42: a slot of a quota comes back, whatever its holder was doing when it was killed."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runtime import NodeState, NodeType, Runtime, Scheduling
from runtime.handle import TaskHandle
from runtime.submitter import Submitter
from tests.scenarios import handlers, handlers_next
from tests.scenarios.processes import OwnFamily, kill
from tests.scenarios.waiting import await_gone, await_lines, until, words

pytestmark = pytest.mark.slow

KEY = "printer"
SCOPE = f"key:{KEY}"
WAITERS = 3

Submit = Callable[[Submitter, Path, Path], TaskHandle[str]]


def submit_claimed(submitter: Submitter, runs: Path, folder: Path) -> TaskHandle[str]:
    """Claimed by a worker that is importing its module."""
    (folder / "held_module.py").write_text(handlers_next.IMPORTED.format(path=str(runs)))
    task: Callable[[str], str] = importlib.import_module("held_module").task
    return submitter.submit(task, "holder")


def submit_starting(submitter: Submitter, runs: Path, folder: Path) -> TaskHandle[str]:
    """Its argument is being unpickled."""
    held: Any = handlers_next.HeldArgument(str(runs), "holder")
    return submitter.options(payloads="pickle").submit(handlers_next.give_back, held)


def submit_running(submitter: Submitter, runs: Path, folder: Path) -> TaskHandle[str]:
    """Its body runs."""
    return submitter.submit(handlers_next.run_and_give, str(runs), "holder")


def submit_finishing(submitter: Submitter, runs: Path, folder: Path) -> TaskHandle[str]:
    """It has returned, and its result is being packed."""
    return submitter.options(payloads="pickle").submit(handlers_next.finish_slowly, str(runs), "holder")


STATES: dict[str, Submit] = {
    "claimed": submit_claimed,
    "starting": submit_starting,
    "running": submit_running,
    "finishing": submit_finishing,
}


def one_at_a_time() -> Scheduling:
    return Scheduling(quotas={SCOPE: 1})


def await_waiting(runs: Path, waiters: list[TaskHandle[str]]) -> None:
    """All of them wait for the slot, and say so; nobody has begun but the holder."""
    for waiter in waiters:
        assert SCOPE in waiter.why()
    assert set(words(runs)) == {"holder"}


def everybody_ran(runs: Path, holder: TaskHandle[str], waiters: list[TaskHandle[str]]) -> None:
    """The slot went round: every waiter ran once, and the holder in its second attempt."""
    assert [waiter.result(timeout=30) for waiter in waiters] == [f"waiter-{i}" for i in range(WAITERS)]
    assert holder.result(timeout=30) == "holder"
    assert words(runs) == {"holder": 2, **{f"waiter-{i}": 1 for i in range(WAITERS)}}


@pytest.mark.parametrize("state", STATES)
def test_s42_the_slot_of_a_killed_holder_comes_back(
    state_dir: Path, tmp_path: Path, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = tmp_path / "runs"
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "held_module", raising=False)
    with Runtime(state_dir, node_types=[NodeType("default", workers=2)], scheduling=one_at_a_time()) as rt:
        printer = rt.options(concurrency_key=KEY)
        holder = STATES[state](printer, runs, tmp_path)
        (held,) = await_lines(runs, 1)
        waiters = [printer.submit(handlers.mark, str(runs), f"waiter-{i}") for i in range(WAITERS)]
        await_waiting(runs, waiters)
        kill(held.pid)
        everybody_ran(runs, holder, waiters)


def test_s42_the_slot_of_a_holder_in_a_worker_of_many_comes_back(state_dir: Path, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    node_types = [NodeType("default", workers=1, mode="asyncio")]
    with Runtime(state_dir, node_types=node_types, scheduling=one_at_a_time()) as rt:
        printer = rt.options(concurrency_key=KEY)
        holder = printer.submit(handlers_next.run_and_give_async, str(runs), "holder")
        (held,) = await_lines(runs, 1)
        waiters = [printer.submit(handlers.mark, str(runs), f"waiter-{i}") for i in range(WAITERS)]
        await_waiting(runs, waiters)
        kill(held.pid)
        everybody_ran(runs, holder, waiters)


def test_s42_the_slot_of_a_task_that_only_waits_at_a_killed_worker_comes_back(state_dir: Path, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    with Runtime(state_dir, node_types=[NodeType("default", workers=1)], scheduling=one_at_a_time()) as rt:
        before = rt.submit(handlers.first_holds, str(tmp_path / "before"), "before")
        (busy,) = await_lines(tmp_path / "before", 1)
        printer = rt.options(concurrency_key=KEY)
        keyed = [printer.submit(handlers_next.around, str(runs), f"keyed-{i}") for i in range(WAITERS)]
        until(lambda: keyed[0].status().state == NodeState.LEASED, "the first to be held by the worker")
        assert SCOPE in keyed[1].why()
        kill(busy.pid)
        assert [handle.result(timeout=30) for handle in keyed] == [f"keyed-{i}" for i in range(WAITERS)]
        assert [handle.status().attempts for handle in keyed] == [1] * WAITERS
        before.result(timeout=30)
    assert words(runs) == {f"keyed-{i}:{when}": 1 for i in range(WAITERS) for when in ("begin", "end")}


def test_s42_the_slot_is_whole_after_the_engine_was_killed(state_dir: Path, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    with Runtime(state_dir, node_types=[NodeType("default", workers=2)], scheduling=one_at_a_time()) as rt:
        printer = rt.options(concurrency_key=KEY)
        holder = printer.submit(handlers_next.run_and_give, str(runs), "holder")
        await_lines(runs, 1)
        waiters = [printer.submit(handlers.mark, str(runs), f"waiter-{i}") for i in range(WAITERS)]
        await_waiting(runs, waiters)
        family = OwnFamily(rt)
        engine, workers = family.engine, family.workers
        kill(engine)
        await_gone([engine, *workers])
        everybody_ran(runs, holder, waiters)


def test_s42_holders_that_are_killed_again_and_again_leave_one_slot(state_dir: Path, tmp_path: Path) -> None:
    """As many slots as there were, no fewer and no more: two at once would show as two that have begun."""
    runs, gate = tmp_path / "runs", tmp_path / "gate"
    kills = 4
    with Runtime(state_dir, node_types=[NodeType("default", workers=2)], scheduling=one_at_a_time()) as rt:
        printer = rt.options(concurrency_key=KEY, poison=1)
        for count in range(1, kills + 1):
            doomed = printer.submit(handlers.hold, str(runs), "doomed", str(tmp_path / "never"))
            kill(await_lines(runs, count)[-1].pid)
            assert doomed.exception(timeout=30) is not None
        after = [printer.submit(handlers_next.around, str(runs), f"after-{i}", str(gate)) for i in range(WAITERS)]
        await_lines(runs, kills + 1)
        assert SCOPE in after[1].why()
        assert SCOPE in after[2].why()
        assert set(words(runs)) == {"doomed", "after-0:begin"}
        rt.set_quota(SCOPE, 2)
        await_lines(runs, kills + 2)
        assert SCOPE in after[2].why()
        assert set(words(runs)) == {"doomed", "after-0:begin", "after-1:begin"}
        gate.touch()
        assert [handle.result(timeout=30) for handle in after] == [f"after-{i}" for i in range(WAITERS)]
