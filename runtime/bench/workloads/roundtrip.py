"""Scenario `roundtrip`: submit one task, wait for its result, again and again. What a caller feels.

Each is durable before its result is shown; by default in the page cache (`os`), because `fsync` measures the disk.
"""

from __future__ import annotations

import time

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
        clock, times, found = time.perf_counter_ns, [0] * setup.tasks, [0] * setup.tasks
        with session.open_runtime(setup) as runtime:
            with MeasuredWindow(session.members(runtime)) as window:
                for value in range(setup.tasks):
                    started = clock()
                    found[value] = runtime.submit(increment, value).result(timeout=SECONDS_MAX)
                    times[value] = clock() - started
            check_equal(found, list(range(1, setup.tasks + 1)), self.name)
            return window.sample(setup.tasks, times)

    def run_baseline(self, setup: Setup) -> Sample:
        clock, times, found = time.perf_counter_ns, [0] * setup.tasks, [0] * setup.tasks
        with baselines.executor(setup.workers) as pool:
            with MeasuredWindow(members_with_children) as window:
                for value in range(setup.tasks):
                    started = clock()
                    found[value] = pool.submit(increment, value).result(timeout=SECONDS_MAX)
                    times[value] = clock() - started
            check_equal(found, list(range(1, setup.tasks + 1)), self.name)
            return window.sample(setup.tasks, times)

    def cost(self, sample: Sample) -> float | None:
        return sample.p50_ns
