"""Scenario `dag`: a layered graph with random parents in the layer before, all results passed on."""

from __future__ import annotations

from typing import Any

from runtime.bench import baselines, session
from runtime.bench.figures import Sample
from runtime.bench.workloads import graphs
from runtime.bench.workloads.base import Scenario, Setup

WIDTH = 100
PARENTS = 3
BASELINE_LAYERS_MAX = 200
"""The hand-written scheduler does about 20,000 tasks/s; tasks per second are compared, so fewer layers do."""


class DagScenario(Scenario):
    """Throughput of a graph whose layers are narrow: completions have to be turned into new work all the time."""

    name = "dag"
    title = f"layers of {WIDTH} nodes with {PARENTS} parents each, results passed on; a task is one node"
    tasks_default = 100_000
    tasks_smoke = 500
    baseline_name = "multiprocessing.Pool, hand-written scheduler"

    def params(self, setup: Setup) -> dict[str, Any]:
        return {"workers": setup.workers, "layers": _layers(setup), "width": WIDTH, "parents": PARENTS}

    def baseline_params(self, setup: Setup) -> dict[str, Any]:
        return {**self.params(setup), "layers": min(_layers(setup), BASELINE_LAYERS_MAX)}

    def run(self, setup: Setup) -> Sample:
        return session.measure_graph(setup, graphs.layered(_layers(setup), WIDTH, PARENTS), self.name)

    def run_baseline(self, setup: Setup) -> Sample:
        graph = graphs.layered(min(_layers(setup), BASELINE_LAYERS_MAX), WIDTH, PARENTS)
        return baselines.measure_graph(setup.workers, graph, self.name)


def _layers(setup: Setup) -> int:
    return max(1, round(setup.tasks / WIDTH))
