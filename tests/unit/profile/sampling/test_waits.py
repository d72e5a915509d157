"""What waits: weights by time, scaled where not all tasks are looked at."""

from __future__ import annotations

import asyncio
import time

import pytest

from runtime.profile.sampling.labels import labels
from runtime.profile.sampling.waits import TASKS_MAX, WaitLooks
from tests.unit.profile.loops import run


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
@pytest.mark.parametrize("count", [0, 1, 50, TASKS_MAX, 3 * TASKS_MAX + 7])
def test_the_sum_is_time_times_tasks(count: int, loop: str) -> None:
    async def part(event: asyncio.Event) -> None:
        with labels(customer="acme"):
            await event.wait()

    async def whole() -> None:
        event = asyncio.Event()
        tasks = [asyncio.create_task(part(event)) for _ in range(count)]
        await asyncio.sleep(0)
        looks = WaitLooks(asyncio.get_running_loop(), 10.0)
        looks._last_ns = time.monotonic_ns() - 1_000_000_000
        looks._look()
        for _ in range(TASKS_MAX):  # the slices
            await asyncio.sleep(0)
        rows = [row for bucket in looks.take() for row in bucket.rows.values() if row.labels]
        assert {row.labels for row in rows} <= {(("customer", "acme"),)}
        assert sum(row.seen for row in rows) <= TASKS_MAX + 1
        assert sum(row.ns for row in rows) / 1e9 == pytest.approx(count, rel=0.2, abs=0.2)
        assert looks.notes()
        event.set()
        await asyncio.gather(*tasks)

    run(whole, loop)


def test_it_looks_until_it_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    async def whole() -> None:
        looks = WaitLooks(asyncio.get_running_loop(), 1_000.0)
        enough = asyncio.Event()
        real = looks._look

        def look() -> None:
            real()
            if looks.looks == 3:
                enough.set()

        monkeypatch.setattr(looks, "_look", look)
        looks.start()
        await enough.wait()
        looks.stop()
        await asyncio.sleep(0)
        assert looks._handle.cancelled()
        assert looks.lag.quantile_ns(0.5) >= 0

    asyncio.run(whole())
