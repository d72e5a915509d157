"""Scenario `wfformat`: a real-shaped workflow whose tasks burn their recorded runtimes, scaled down.

Not a race for throughput: the figure to look at is `efficiency`, the lower bound of any schedule on these cores
divided by the time it took.
"""

from __future__ import annotations

from typing import Any

from runtime.bench import baselines, machine, session
from runtime.bench.figures import Sample
from runtime.bench.workloads import graphs
from runtime.bench.workloads.base import Scenario, Setup
from runtime.errors import MainspringError

MEAN_NS = 200_000
"""Mean CPU time of a task after scaling: short enough that a scheduler's own cost shows."""


class WfFormatScenario(Scenario):
    """Makespan of a mosaic workflow, or of a WfFormat file."""

    name = "wfformat"
    title = "a Montage-shaped graph, or --file FILE (WfFormat 1.5), with scaled runtimes; a task is one node"
    tasks_default = 6_000
    tasks_smoke = 60
    baseline_name = "multiprocessing.Pool, hand-written scheduler"

    def refusal(self, setup: Setup) -> str:
        if setup.file is None:
            return ""
        try:
            graphs.recorded(setup.file, MEAN_NS)
        except MainspringError as wrong:
            return str(wrong)
        return ""

    def params(self, setup: Setup) -> dict[str, Any]:
        source = setup.file.name if setup.file is not None else "montage"
        return {"workers": setup.workers, "graph": source, "mean_task_us": MEAN_NS // 1000}

    def baseline_params(self, setup: Setup) -> dict[str, Any]:
        return self.params(setup)

    def run(self, setup: Setup) -> Sample:
        graph = _graph(setup)
        return _with_efficiency(session.measure_graph(setup, graph, self.name), graph, setup)

    def run_baseline(self, setup: Setup) -> Sample:
        graph = _graph(setup)
        return _with_efficiency(baselines.measure_graph(setup.workers, graph, self.name), graph, setup)


def _graph(setup: Setup) -> graphs.TaskGraph:
    return graphs.montage(setup.tasks, MEAN_NS) if setup.file is None else graphs.recorded(setup.file, MEAN_NS)


def _with_efficiency(sample: Sample, graph: graphs.TaskGraph, setup: Setup) -> Sample:
    bound_ns = graph.lower_bound_ns(min(setup.workers, machine.cores()))
    extra = {"efficiency": bound_ns / sample.elapsed_ns, "lower_bound_seconds": bound_ns / 1e9}
    return Sample(sample.tasks, sample.elapsed_ns, sample.cpu_ns, sample.rss_bytes, extra=extra)
