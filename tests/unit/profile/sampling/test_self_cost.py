"""What the profiler costs is added up by part, shown in the page, and none of it is a child's."""

from __future__ import annotations

import asyncio
import os
import time

from runtime.profile.sampling.self_cost import SELF_COST, SelfCost
from runtime.profile.sampling.ticks import Ticks
from runtime.profile.sampling.waits import WaitLooks


def test_the_sum_is_that_of_the_parts() -> None:
    cost = SelfCost()
    assert cost.total_ns() == 0
    cost.ticks_ns, cost.looks_ns, cost.books_ns, cost.answers_ns = 1, 20, 300, 4_000
    assert cost.total_ns() == 4_321


def test_a_forked_child_begins_anew() -> None:
    SELF_COST.books_ns += 1
    pid = os.fork()
    if pid == 0:
        os._exit(SELF_COST.total_ns() != 0)
    assert os.waitpid(pid, 0)[1] == 0


def test_a_tick_counts_all_of_its_handler() -> None:
    ticks = Ticks()
    assert ticks.start("test", 1.0)
    try:
        before_ns, told_ns = ticks.self_ns, SELF_COST.ticks_ns
        came_ns = time.thread_time_ns()
        while time.thread_time_ns() < came_ns + 1_000_000:
            pass
        ticks._guarded(None, True, True, came_ns)
        cost_ns = ticks.self_ns - before_ns
    finally:
        ticks.stop("test")
    assert cost_ns >= 1_000_000  # from when the signal came, and not from when it was dealt with
    assert SELF_COST.ticks_ns - told_ns >= cost_ns


def test_a_look_is_counted() -> None:
    async def whole() -> None:
        looks = WaitLooks(asyncio.get_running_loop(), 1.0)
        before_ns = SELF_COST.looks_ns
        looks._look()
        looks.stop()
        await asyncio.sleep(0)
        assert SELF_COST.looks_ns > before_ns

    asyncio.run(whole())
