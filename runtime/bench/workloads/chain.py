"""Scenario `chain`: every hop takes the previous result. Pure latency: there is never more than one task to run."""

from __future__ import annotations

from runtime.bench import baselines, session
from runtime.bench.figures import Sample
from runtime.bench.handlers import increment
from runtime.bench.measure import MeasuredWindow, members_with_children
from runtime.bench.workloads import graphs
from runtime.bench.workloads.base import Scenario, Setup, check_equal


class ChainScenario(Scenario):
    """Time per hop. Ours is one flow, whose results go from node to node; the baseline has to come back to the
    caller."""

    name = "chain"
    title = "each hop takes the previous result; a task is one hop"
    tasks_default = 1_000
    tasks_smoke = 50
    baseline_name = "ProcessPoolExecutor, submit and result in a loop"

    def run(self, setup: Setup) -> Sample:
        return session.measure_graph(setup, graphs.chain(setup.tasks), self.name)

    def run_baseline(self, setup: Setup) -> Sample:
        with baselines.executor(setup.workers) as pool:
            with MeasuredWindow(members_with_children) as window:
                value = 0
                for _ in range(setup.tasks):
                    value = pool.submit(increment, value).result()
            check_equal(value, setup.tasks, self.name)
            return window.sample(setup.tasks)
