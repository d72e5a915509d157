"""Scenario `metg`: minimum effective task granularity, the shortest task at which half of all core time is useful work.

The metric and the workload are those of Task Bench (Slaughter et al., SC20, sections 3 and 5): a one-dimensional
stencil whose tasks do nothing but work for a given time; efficiency is useful time divided by the time of all cores.
Smaller is better. A task here burns CPU time of its own thread, so that being preempted counts as lost and not as
useful.

The shortest duration is bracketed by doubling or halving, then found by bisection on a logarithmic scale. What is
reported was measured: the shortest duration that reached the target, not one computed between two probes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

from runtime.bench import baselines, machine, session
from runtime.bench.figures import BenchError, Sample
from runtime.bench.measure import MeasuredWindow, members_with_children
from runtime.bench.workloads import graphs
from runtime.bench.workloads.base import Scenario, Setup, check_equal

WIDTH = 64
TARGET = 0.5
FIRST_NS = 16_000
SHORTEST_NS = 1_000
LONGEST_NS = 4_096_000
LONGEST_SMOKE_NS = 64_000
PRECISION = 1.1
"""The bracket is narrowed until its ends differ by this factor."""
PRECISION_SMOKE = 2.5
PROBE_IDEAL_NS = 250_000_000
"""What a probe would take on busy cores without any overhead; decides its number of steps."""
PROBE_IDEAL_SMOKE_NS = 10_000_000
STEPS_MIN = 10

Probe = Callable[[int], Sample]


class MetgScenario(Scenario):
    """Task granularity at 50 % efficiency, durable."""

    name = "metg"
    title = f"Task Bench: shortest task at {TARGET:.0%} efficiency, stencil {WIDTH} wide; --tasks bounds one probe"
    tasks_default = 128_000
    tasks_smoke = WIDTH * STEPS_MIN
    baseline_name = "multiprocessing.Pool, hand-written scheduler"

    def params(self, setup: Setup) -> dict[str, Any]:
        return {"workers": setup.workers, "cores": _cores(setup), "width": WIDTH, "parents": 3, "target": TARGET}

    def baseline_params(self, setup: Setup) -> dict[str, Any]:
        return self.params(setup)

    def run(self, setup: Setup) -> Sample:
        with session.open_runtime(setup) as runtime:
            return _search(setup, lambda ns: session.measure_on(runtime, _stencil(setup, ns), self.name))

    def run_baseline(self, setup: Setup) -> Sample:
        with baselines.pool_of(setup.workers) as pool:

            def probe(duration_ns: int) -> Sample:
                graph = _stencil(setup, duration_ns)
                expected = graph.expected()
                scheduler = baselines.PoolScheduler(pool, graph)
                with MeasuredWindow(members_with_children) as window:
                    found = scheduler.run()
                check_equal(found, expected, self.name)
                return window.sample(len(graph))

            return _search(setup, probe)

    def cost(self, sample: Sample) -> float | None:
        return sample.extra["metg_us"]


class Granularity(NamedTuple):
    """Outcome of a search: the shortest effective duration and the efficiency measured at it."""

    duration_ns: int
    efficiency: float


def shortest_effective(
    efficiency: Callable[[int], float], precision: float, longest_ns: int = LONGEST_NS
) -> Granularity:
    """Search the shortest duration with at least the target efficiency.

    Args:
        efficiency: Measures the efficiency of tasks of this many nanoseconds; rises with it, apart from noise.
        precision: The search ends when the bracket's ends differ by at most this factor.
        longest_ns: No longer task is tried.

    Returns:
        What was found; where even the longest task tried is not effective, that one, with its efficiency.
    """
    high = FIRST_NS
    reached = efficiency(high)
    low = 0
    while reached < TARGET:
        if high * 2 > longest_ns:
            return Granularity(high, reached)
        low, high = high, high * 2
        reached = efficiency(high)
    while not low and high > SHORTEST_NS:
        half = max(SHORTEST_NS, high // 2)
        at_half = efficiency(half)
        if at_half < TARGET:
            low = half
        else:
            high, reached = half, at_half
    while low and high / low > precision:
        middle = round((low * high) ** 0.5)
        at_middle = efficiency(middle)
        if at_middle < TARGET:
            low = middle
        else:
            high, reached = middle, at_middle
    return Granularity(high, reached)


def _search(setup: Setup, probe: Probe) -> Sample:
    """Search with real probes; the sample of the shortest effective duration is the result."""
    cores = _cores(setup)
    taken: dict[int, Sample] = {}

    def efficiency(duration_ns: int) -> float:
        sample = taken[duration_ns] = probe(duration_ns)
        return sample.tasks * duration_ns / (sample.elapsed_ns * cores)

    if setup.smoke:
        found = shortest_effective(efficiency, PRECISION_SMOKE, LONGEST_SMOKE_NS)
    else:
        found = shortest_effective(efficiency, PRECISION)
    if found.efficiency < TARGET and not setup.smoke:
        spent = f"tasks of {found.duration_ns / 1e6:.1f} ms get {found.efficiency:.0%} of the core time"
        raise BenchError(f"{spent}, less than {TARGET:.0%}: is the machine busy with something else?")
    extra = {"metg_us": found.duration_ns / 1e3, "efficiency": found.efficiency, "probes": len(taken)}
    return replace(taken[found.duration_ns], extra=extra)


def _stencil(setup: Setup, duration_ns: int) -> graphs.TaskGraph:
    ideal_ns = PROBE_IDEAL_SMOKE_NS if setup.smoke else PROBE_IDEAL_NS
    wanted = round(ideal_ns * _cores(setup) / (WIDTH * duration_ns))
    steps = max(STEPS_MIN, min(wanted, setup.tasks // WIDTH))
    return graphs.stencil(steps, WIDTH, duration_ns)


def _cores(setup: Setup) -> int:
    """Cores that can do useful work: no more than there are workers."""
    return min(setup.workers, machine.cores())
