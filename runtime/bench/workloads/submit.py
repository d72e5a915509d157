"""Scenario `submit`: tasks submitted one by one, each with its own handle, all in flight at once."""

from __future__ import annotations

from runtime.bench import baselines, session
from runtime.bench.figures import Sample
from runtime.bench.handlers import increment
from runtime.bench.measure import MeasuredWindow, members_with_children
from runtime.bench.workloads.base import SECONDS_MAX, Scenario, Setup, check_equal


class SubmitScenario(Scenario):
    """Throughput of single submissions."""

    name = "submit"
    title = "tasks submitted singly with a handle each, all in flight; a task is one submission"
    tasks_default = 50_000
    tasks_smoke = 500
    baseline_name = "ProcessPoolExecutor.submit"

    def run(self, setup: Setup) -> Sample:
        with session.open_runtime(setup) as runtime:
            with MeasuredWindow(session.members(runtime)) as window:
                handles = [session.submit_soon(runtime, increment, value) for value in range(setup.tasks)]
                found = [handle.result(timeout=SECONDS_MAX) for handle in handles]
            check_equal(found, list(range(1, setup.tasks + 1)), self.name)
            return window.sample(setup.tasks)

    def run_baseline(self, setup: Setup) -> Sample:
        with baselines.executor(setup.workers) as pool:
            with MeasuredWindow(members_with_children) as window:
                futures = [pool.submit(increment, value) for value in range(setup.tasks)]
                found = [future.result() for future in futures]
            check_equal(found, list(range(1, setup.tasks + 1)), self.name)
            return window.sample(setup.tasks)
