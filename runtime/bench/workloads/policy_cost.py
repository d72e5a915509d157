"""Scenario `policy-cost`: what deciding who is next costs when nobody has to wait because of it.

Two workloads, `submit` and `dag`, each on a bare engine and on one with every mechanism in use and none binding: a
tenant with a weight, quotas on class, tenant, node type and key that nothing reaches, a rate that is never exhausted, a
reserved share, ageing. Both are open at once and take turns, which of them goes first too: a window lasts a fifth of a
second, and what else the machine does in it is more than what is measured here. Reported is by how much the second is
slower, in percent, as the median of the pairs.

And the queue alone, in this process: taking tasks, 64 at a time and one at a time, from 1,000 and from a million that
wait, of a thousand tenants, each submitted by itself. `pop_ratio` and `pop_one_ratio`, what a task costs with a million
by what it costs with a thousand, say whether the queue is flat. With a thousand, taking a task empties its tenant, and
64 are 64 tenants' turns; with a million a turn takes eight of them.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

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
PAIRS = 7
PAIRS_SMOKE = 1
TENANTS = 1_000
FEW = 1_000
MANY = 1_000_000
MANY_SMOKE = 10_000
TAKEN = 100_000
TAKEN_SMOKE = 1_000
TAKEN_PER_READING = 128
POP_SIZES: Final = (("pop", 64), ("pop_one", 1))
"""Rows of the report, and how many tasks are taken at a time."""


class PolicyCostScenario(Scenario):
    """Slowdown of `submit` and `dag` by everything that could decide and does not; the window is the slower side."""

    name = "policy-cost"
    title = "submit and dag, bare and with all mechanisms on; a task is one of either, --tasks of each"
    tasks_default = 50_000
    tasks_smoke = 500

    def params(self, setup: Setup) -> dict[str, Any]:
        return {"workers": setup.workers, "waiting": _many(setup), "tenants": TENANTS}

    def run(self, setup: Setup) -> Sample:
        pairs = _pairs(setup)
        extra = {
            "submit_slower_percent": _slower([(bare.submit, full.submit) for bare, full in pairs]),
            "dag_slower_percent": _slower([(bare.dag, full.dag) for bare, full in pairs]),
            **pop_figures(_many(setup), setup),
        }
        return _together([sample for _, full in pairs for sample in full], extra)


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


def _pairs(setup: Setup) -> list[tuple[Windows, Windows]]:
    """Windows of the bare engine and of the one with all mechanisms, by turns; the first pair only warms both."""
    options = {"tenant": NAME, "concurrency_key": NAME, "rate_key": NAME}
    found = []
    with session.open_runtime(setup) as bare, session.open_runtime(setup, scheduling=_everything()) as full:
        sides = [(bare, {}), (full, options)]
        for number in range((PAIRS_SMOKE if setup.smoke else PAIRS) + 1):
            order = (0, 1) if number % 2 else (1, 0)
            windows = {side: _windows(setup, *sides[side]) for side in order}
            found.append((windows[0], windows[1]))
    return found[1:]


def _windows(setup: Setup, runtime: Runtime, options: dict[str, Any]) -> Windows:
    return Windows(_submit(runtime, setup, options), _dag(runtime, setup, options))


def _slower(pairs: Sequence[tuple[Sample, Sample]]) -> float:
    """By how many percent the second of a pair is slower; the median."""
    return 100 * (statistics.median(full.elapsed_ns / bare.elapsed_ns for bare, full in pairs) - 1)


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


def pop_figures(many: int, setup: Setup) -> dict[str, float]:
    """What a task costs to take where few and where many wait, and the ratio, for each size of a pop."""
    few_ns, many_ns = pop_ns(FEW, setup), pop_ns(many, setup)
    found = {}
    for row, _ in POP_SIZES:
        found[f"{row}_{_short(FEW)}_us"] = few_ns[row] / 1e3
        found[f"{row}_{_short(many)}_us"] = many_ns[row] / 1e3
        found[f"{row}_ratio"] = many_ns[row] / few_ns[row]
    return found


def pop_ns(waiting: int, setup: Setup) -> dict[str, float]:
    """Median cost of a task by row, from a queue that holds so many, of a thousand tenants in turn.

    What was taken is put back between two readings, so that as many wait all the time. Checks that no task is lost.
    """
    queue: FairQueue[int] = FairQueue()
    kinds = [_kind(number) for number in range(TENANTS)]
    for number in range(waiting):
        queue.push(kinds[number % TENANTS], number % TENANTS, [number], 0, "r")
    found = {row: _pop_ns(queue, count, TAKEN_SMOKE if setup.smoke else TAKEN) for row, count in POP_SIZES}
    waits = sorted(node for _, nodes in queue.segments() for node in nodes)
    check_equal((queue.size, waits), (waiting, list(range(waiting))), "waiting tasks")
    return found


def _pop_ns(queue: FairQueue[int], count: int, tasks: int) -> float:
    readings: list[float] = []
    clock, pop, pops = time.perf_counter_ns, queue.pop, TAKEN_PER_READING // count
    for _ in range(tasks // TAKEN_PER_READING):
        opened_ns = clock()
        taken = [pop(count, 0) for _ in range(pops)]
        readings.append((clock() - opened_ns) / TAKEN_PER_READING)
        for run, kind, nodes in (piece for pieces in taken for piece in pieces):
            for node in nodes:
                queue.push(kind, run, [node], 0, "r")
    return percentile(readings, 0.5)


def _short(number: int) -> str:
    return f"{number // 1_000_000}M" if number >= 1_000_000 else f"{number // 1_000}k"


def _kind(number: int) -> Kind:
    return Kind.of(
        number + 1, {"handler": "bench:none", "node_type": session.NODE_TYPE, "shape": "one", "tenant": f"t{number}"}
    )


def _many(setup: Setup) -> int:
    return MANY_SMOKE if setup.smoke else MANY
