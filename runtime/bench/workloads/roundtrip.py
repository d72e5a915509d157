"""Scenario `roundtrip`: submit one task, wait for its result, again and again. What a caller feels.

Each is durable before its result is shown; by default in the page cache (`os`), because `fsync` measures the disk.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from runtime.bench import baselines, session
from runtime.bench.figures import Sample
from runtime.bench.handlers import increment
from runtime.bench.measure import MeasuredWindow, members_with_children
from runtime.bench.workloads.base import SECONDS_MAX, Scenario, Setup, check_equal


class RoundtripScenario(Scenario):
    """Latency of `submit(...).result()`; the ratio compares medians."""

    name = "roundtrip"
    title = "submit(...).result() one at a time; a task is one round trip"
    tasks_default = 5_000
    tasks_smoke = 100
    durability_default = "os"
    baseline_name = "ProcessPoolExecutor, submit and result"

    def run(self, setup: Setup) -> Sample:
        with session.open_runtime(setup) as runtime:
            return self._measure(setup.tasks, runtime.submit, MeasuredWindow(session.members(runtime)))

    def run_baseline(self, setup: Setup) -> Sample:
        with baselines.executor(setup.workers) as pool:
            return self._measure(setup.tasks, pool.submit, MeasuredWindow(members_with_children))

    def _measure(self, tasks: int, submit: Callable[..., Any], measured: MeasuredWindow) -> Sample:
        clock, times, found = time.perf_counter_ns, [0] * tasks, [0] * tasks
        with measured as window:
            for value in range(tasks):
                started = clock()
                found[value] = submit(increment, value).result(timeout=SECONDS_MAX)
                times[value] = clock() - started
        check_equal(found, list(range(1, tasks + 1)), self.name)
        return window.sample(tasks, times)

    def cost(self, sample: Sample) -> float | None:
        return sample.p50_ns
