"""Handlers that take time: not too little, and no core while sleeping."""

from __future__ import annotations

import asyncio
import time

from runtime.cli.replay_tasks import burn, sleep_for


def test_sleeps_are_never_short_and_overlap() -> None:
    async def one(seconds: float) -> float:
        began = time.monotonic()
        await sleep_for(seconds)
        return time.monotonic() - began - seconds

    async def many() -> list[float]:
        return await asyncio.gather(*(one(0.0005 + step * 0.00005) for step in range(200)), one(0.012), one(0), one(-1))

    began = time.monotonic()
    over = asyncio.run(many())
    assert min(over[:-1]) >= 0
    assert time.monotonic() - began < 1


def test_a_cancelled_sleep_wakes_nobody() -> None:
    async def cancelled() -> None:
        task = asyncio.create_task(sleep_for(0.002))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, sleep_for(0.003), return_exceptions=True)

    asyncio.run(cancelled())
    asyncio.run(sleep_for(0.001))


def test_burning_uses_the_cpu_time_asked_for() -> None:
    began = time.thread_time()
    burn(0.005)
    assert 0.005 <= time.thread_time() - began < 0.05
