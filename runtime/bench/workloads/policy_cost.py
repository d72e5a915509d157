"""Scenario `policy-cost`: what deciding who is next costs when nobody has to wait because of it.

Two workloads, `submit` and `dag`, each on a bare engine and on one with every mechanism in use and none binding: a
tenant with a weight, quotas on class, tenant, node type and key that nothing reaches, a rate that is never exhausted, a
reserved share, ageing. Reported is by how much the second is slower, in percent.

And the queue alone, in this process: taking one task at a time from 1,000 and from a million waiting ones of a thousand
tenants. The ratio of the two says whether the queue is flat.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from actors.policy.fair import FairQueue
from actors.protocol.kinds import Kind
from runtime import Rate, Runtime, Scheduling, Share
from runtime.bench import session
from runtime.bench.figures import Sample
from runtime.bench.handlers import increment
from runtime.bench.measure import MeasuredWindow, percentile
from runtime.bench.workloads import graphs
from runtime.bench.workloads.base import SECONDS_MAX, Scenario, Setup, check_equal
from runtime.bench.workloads.dag import PARENTS, WIDTH

NAME = "bench"
PLENTY = 1_000_000
"""Above all that is open at once, and above what starts in a second."""
TENANTS = 1_000
FEW = 1_000
MANY = 1_000_000
MANY_SMOKE = 10_000
POPS = 20_000
POPS_SMOKE = 1_000
POPS_PER_READING = 100


class PolicyCostScenario(Scenario):
    """Slowdown of `submit` and `dag` by everything that could decide and does not; the window is the slower side."""

    name = "policy-cost"
    title = "submit and dag, bare and with all mechanisms on; a task is one of either, --tasks of each"
    tasks_default = 50_000
    tasks_smoke = 500

    def params(self, setup: Setup) -> dict[str, Any]:
        return {"workers": setup.workers, "waiting": _many(setup), "tenants": TENANTS}

    def run(self, setup: Setup) -> Sample:
        bare = _windows(setup, {}, {})
        full = _windows(
            setup, {"scheduling": _everything()}, {"tenant": NAME, "concurrency_key": NAME, "rate_key": NAME}
        )
        few_ns, many_ns = pop_ns(FEW, setup), pop_ns(_many(setup), setup)
        extra = {
            "submit_slower_percent": 100 * (full.submit.elapsed_ns / bare.submit.elapsed_ns - 1),
            "dag_slower_percent": 100 * (full.dag.elapsed_ns / bare.dag.elapsed_ns - 1),
            "pop_few_us": few_ns / 1e3,
            "pop_many_us": many_ns / 1e3,
            "pop_ratio": many_ns / few_ns,
        }
        return _together([full.submit, full.dag], extra)


class Windows(NamedTuple):
    """One sample of each workload."""

    submit: Sample
    dag: Sample


def _everything() -> Scheduling:
    """Every mechanism, with bounds that nothing reaches."""
    return Scheduling(
        quotas=dict.fromkeys((f"key:{NAME}", f"tenant:{NAME}", "class:normal", f"type:{session.NODE_TYPE}"), PLENTY),
        weights={NAME: 2.0},
        rates={NAME: Rate(PLENTY, per=1.0, burst=PLENTY)},
        shares={"realtime": Share(0.2)},
        ageing=5.0,
    )


def _windows(setup: Setup, more: dict[str, Any], options: dict[str, Any]) -> Windows:
    with session.open_runtime(setup, **more) as runtime:
        return Windows(_submit(runtime, setup, options), _dag(runtime, setup, options))


def _submit(runtime: Runtime, setup: Setup, options: dict[str, Any]) -> Sample:
    submitter = runtime.options(**options)
    with MeasuredWindow(session.members(runtime)) as window:
        handles = [session.submit_soon(submitter, increment, value) for value in range(setup.tasks)]
        found = [handle.result(timeout=SECONDS_MAX) for handle in handles]
    check_equal(found, list(range(1, setup.tasks + 1)), "submit")
    return window.sample(setup.tasks)


def _dag(runtime: Runtime, setup: Setup, options: dict[str, Any]) -> Sample:
    graph = graphs.layered(max(1, round(setup.tasks / WIDTH)), WIDTH, PARENTS)
    return session.measure_on(runtime, graph, "dag", **options)


def _together(samples: Sequence[Sample], extra: dict[str, float]) -> Sample:
    cpu_ns: dict[str, int] = {}
    for sample in samples:
        for role, used in sample.cpu_ns.items():
            cpu_ns[role] = cpu_ns.get(role, 0) + used
    return Sample(
        tasks=sum(sample.tasks for sample in samples),
        elapsed_ns=sum(sample.elapsed_ns for sample in samples),
        cpu_ns=cpu_ns,
        rss_bytes=max(sample.rss_bytes for sample in samples),
        extra=extra,
    )


# --- the queue alone ----------------------------------------------------------------------------------------------


def pop_ns(waiting: int, setup: Setup) -> float:
    """Median cost of taking one task from a queue that holds so many, of a thousand tenants in turn.

    What was taken is put back between two readings, so that as many wait all the time. Checks that no task is lost.
    """
    queue: FairQueue[int] = FairQueue()
    kinds = [_kind(number) for number in range(TENANTS)]
    share = waiting // TENANTS
    for run, kind in enumerate(kinds):
        queue.push(kind, run, range(share), 0, f"r:{run}")
    readings: list[float] = []
    clock, pop = time.perf_counter_ns, queue.pop
    for _ in range((POPS_SMOKE if setup.smoke else POPS) // POPS_PER_READING):
        opened_ns = clock()
        taken = [pop(1, 0) for _ in range(POPS_PER_READING)]
        readings.append((clock() - opened_ns) / POPS_PER_READING)
        for pieces in taken:
            for run, kind, nodes in pieces:
                queue.push(kind, run, nodes, 0, f"r:{run}")
    check_equal(queue.size, share * TENANTS, "waiting tasks")
    return percentile(readings, 0.5)


def _kind(number: int) -> Kind:
    return Kind.of(
        number + 1, {"handler": "bench:none", "node_type": session.NODE_TYPE, "shape": "one", "tenant": f"t{number}"}
    )


def _many(setup: Setup) -> int:
    return MANY_SMOKE if setup.smoke else MANY
