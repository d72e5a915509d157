"""S41: a task of a low class beside more work of a better class than the workers can do.

Counted in slots: every task of the better class takes at least `TASK_S`, so no more than `SLOTS_PER_AGEING` of them can
be run within the time after which a class that waits gets its turn.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from runtime import NodeType, Runtime, Scheduling
from runtime.handle import TaskHandle
from tests.scenarios import handlers
from tests.scenarios.waiting import await_lines, lines, words

pytestmark = pytest.mark.slow

WORKERS: Final = 2
TASK_S: Final = 0.001
AGEING_S: Final = 0.25
SLOTS_PER_AGEING: Final = math.ceil(WORKERS * AGEING_S / TASK_S)
HELD: Final = 10 * WORKERS
"""What workers run and hold ahead, of tasks that take `TASK_S`, at most."""
AHEAD: Final = 3 * SLOTS_PER_AGEING
"""Of the better class, waiting all the time: as much as three bounds of work."""


class EndlessLoad:
    """Keeps so many tasks of a class waiting: whenever some have ended, as many are submitted."""

    def __init__(self, rt: Runtime, runs: Path, priority: str) -> None:
        self._submitter = rt.options(priority=priority)
        self._runs = str(runs)
        self._word = priority
        self._open: list[TaskHandle[Any]] = []
        self.sent = 0
        self.top_up()

    def top_up(self) -> None:
        """Submit for those that have ended."""
        self._open = [handle for handle in self._open if not handle.done()]
        for _ in range(AHEAD - len(self._open)):
            self._open.append(self._submitter.submit_nowait(handlers.mark_slowly, self._runs, self._word, TASK_S))
            self.sent += 1

    def until_done(self, handles: list[TaskHandle[Any]], slots_max: int) -> None:
        """Go on until these have ended, or the load has run so many."""
        while not all(handle.done() for handle in handles) and self.sent - AHEAD < slots_max:
            self.top_up()
            next(handle for handle in self._open if not handle.done()).result(timeout=30)

    def waiting(self) -> int:
        """How many have not ended."""
        return sum(not handle.done() for handle in self._open)

    def cancel(self) -> None:
        """Take back what waits."""
        for handle in self._open:
            handle.cancel()


@contextmanager
def busy(
    state_dir: Path, runs: Path, ageing_s: float = AGEING_S, prefetch: int | None = None
) -> Iterator[tuple[Runtime, EndlessLoad]]:
    """A runtime under an endless load of class high. What still waits at the end stays in the folder."""
    node_types = [NodeType("default", workers=WORKERS, prefetch=prefetch)]
    with Runtime(state_dir, node_types=node_types, scheduling=Scheduling(ageing=ageing_s)) as rt:
        load = EndlessLoad(rt, runs, "high")
        await_lines(runs, 1)
        yield rt, load


@pytest.mark.parametrize("prefetch", [None, 1])
@pytest.mark.parametrize("low", ["normal", "low"])
def test_s41_a_task_of_a_low_class_gets_its_turn_within_the_bound(
    state_dir: Path, tmp_path: Path, low: str, prefetch: int | None
) -> None:
    """At the engine and at its worker, where what comes later of the better class would go before it too."""
    runs = tmp_path / "runs"
    with busy(state_dir, runs, prefetch=prefetch) as (rt, load):
        patient = rt.options(priority=low).submit(handlers.mark, str(runs), low)
        before = len(lines(runs))
        load.until_done([patient], slots_max=4 * SLOTS_PER_AGEING)
        assert patient.done(), f"{load.sent} of class high were submitted, and it still waits: {patient.why()}"
        assert load.waiting() > SLOTS_PER_AGEING
        at = [line.word for line in lines(runs)].index(low)
    assert at - before <= SLOTS_PER_AGEING + HELD


def test_s41_each_class_below_gets_a_turn(state_dir: Path, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    with busy(state_dir, runs) as (rt, load):
        below = [rt.options(priority=low).submit(handlers.mark, str(runs), low) for low in ("low", "normal")]
        load.until_done(below, slots_max=4 * SLOTS_PER_AGEING)
        assert all(handle.done() for handle in below), words(runs)
        assert load.waiting() > SLOTS_PER_AGEING


def test_s41_without_ageing_the_better_class_goes_first_for_ever(state_dir: Path, tmp_path: Path) -> None:
    """That ageing, and nothing else, let the others through."""
    runs = tmp_path / "runs"
    with busy(state_dir, runs, ageing_s=0) as (rt, load):
        patient = rt.options(priority="low").submit(handlers.mark, str(runs), "low")
        load.until_done([patient], slots_max=2 * SLOTS_PER_AGEING)
        assert not patient.done()
        assert "low" not in words(runs)
        load.cancel()
        assert patient.result(timeout=30) == "low"


def test_s41_ageing_gives_turns_and_not_the_engine(state_dir: Path, tmp_path: Path) -> None:
    """A lot of the low class comes through at the rate of its turns; most of what runs is still the better class."""
    runs = tmp_path / "runs"
    with busy(state_dir, runs) as (rt, load):
        flood = [rt.options(priority="low").submit_nowait(handlers.mark, str(runs), "low") for _ in range(AHEAD)]
        load.until_done(flood[:1], slots_max=4 * SLOTS_PER_AGEING)
        load.until_done(flood[-1:], slots_max=load.sent - AHEAD + SLOTS_PER_AGEING)
        found = words(runs)
    assert 1 <= found["low"] < found["high"]
