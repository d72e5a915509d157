"""Scenario `map`: a million independent no-op tasks through `Runtime.map`, each with its own durable state."""

from __future__ import annotations

from typing import Any

from runtime.bench import baselines, session
from runtime.bench.figures import Sample
from runtime.bench.handlers import increment
from runtime.bench.measure import MeasuredWindow, members_with_children
from runtime.bench.workloads.base import Scenario, Setup, check_equal

CHUNK = 256
"""What the standard library needs to be told to be quick; ours finds its batches by itself."""


class MapScenario(Scenario):
    """Throughput of bulk submission, results in order."""

    name = "map"
    title = "independent no-op tasks in bulk, results in order; a task is one item"
    tasks_default = 1_000_000
    tasks_smoke = 2_000
    baseline_name = "ProcessPoolExecutor.map"

    def baseline_params(self, setup: Setup) -> dict[str, Any]:
        return {"workers": setup.workers, "chunksize": CHUNK}

    def run(self, setup: Setup) -> Sample:
        with session.open_runtime(setup) as runtime:
            with MeasuredWindow(session.members(runtime)) as window:
                found = list(runtime.map(increment, range(setup.tasks)))
            check_equal(found, list(range(1, setup.tasks + 1)), self.name)
            return window.sample(setup.tasks)

    def run_baseline(self, setup: Setup) -> Sample:
        with baselines.executor(setup.workers) as pool:
            with MeasuredWindow(members_with_children) as window:
                found = list(pool.map(increment, range(setup.tasks), chunksize=CHUNK))
            check_equal(found, list(range(1, setup.tasks + 1)), self.name)
            return window.sample(setup.tasks)
