"""Scenario `fair`: a hundred tenants, one of which floods. Does each get what its weight says?

Three parts in one call:

1. Weights 1, 2 and 4. All workers are held at a gate while every tenant submits work by its weight and one, before
   them, half as much as all others together; then the gate is opened. Tasks say when they ran. Looked at is the stretch
   until the first tenant has nothing left: the share error is the largest deviation of a tenant's share from what its
   weight says, in percent of the latter. Workers hold one task ahead, because what they held at the gate would be the
   flood's, and by duration they would hold hundreds.
2. The same with equal weights: Jain's fairness index (R. Jain et al., DEC-TR-301, 1984), 1 where all got the same.
3. A tenant that submits one task every 20 ms beside a flood of others that take as long, against the same tenant on an
   idle engine: how long it waits for a result. Here workers hold ahead what they do by default.

The baseline is plain first in, first out: the same load from one tenant, in one flow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from runtime import Runtime, Scheduling
from runtime.bench import load, session
from runtime.bench.figures import Sample
from runtime.bench.handlers import burn_increment, burn_stamp, increment
from runtime.bench.measure import MeasuredWindow, percentile
from runtime.bench.workloads.base import SECONDS_MAX, Scenario, Setup, check_equal
from runtime.submitter import Submitter

TENANTS = 100
WEIGHTS = (1, 2, 4)
TASK_NS = 20_000
SMALL_NS = 1_000_000
FLOOD_SHARE = 20
"""One task of the third part's flood for so many of `--tasks`: they take fifty times as long."""
IDLE_TASKS = 100
IDLE_TASKS_SMOKE = 5


class FairScenario(Scenario):
    """Shares of tenants by weight, and the wait of a small one; p50 and p99 are the small tenant's beside a flood."""

    name = "fair"
    title = f"{TENANTS} tenants of weights 1, 2, 4, one flooding; a task is one of the others, 20 us"
    tasks_default = 100_000
    tasks_smoke = 500
    durability_default = "os"
    baseline_name = "plain FIFO of the same engine"
    baseline_is_ours = True

    def params(self, setup: Setup) -> dict[str, Any]:
        return {"workers": setup.workers, "tenants": TENANTS, "task_us": TASK_NS // 1000}

    def baseline_params(self, setup: Setup) -> dict[str, Any]:
        return self.params(setup)

    def run(self, setup: Setup) -> Sample:
        return _measure(setup, fair=True)

    def run_baseline(self, setup: Setup) -> Sample:
        return _measure(setup, fair=False)

    def cost(self, sample: Sample) -> float | None:
        return sample.p99_ns


def _measure(setup: Setup, *, fair: bool) -> Sample:
    weights = [WEIGHTS[tenant % len(WEIGHTS)] for tenant in range(TENANTS)]
    weighted = _served(setup, weights, fair=fair)
    equal = _served(setup, [1] * TENANTS, fair=fair)
    idle, beside, sample = _small_tenant(setup, fair=fair)
    extra = {
        "share_error_percent": 100 * share_error(weighted, weights),
        "jain_index": jain_index(equal),
        "looked_at": sum(weighted),
        "small_p99_us": percentile(beside, 0.99) / 1e3,
        "idle_p99_us": percentile(idle, 0.99) / 1e3,
        "small_p99_ratio": percentile(beside, 0.99) / percentile(idle, 0.99),
    }
    return sample.sample(_flood_size(setup), beside, **extra)


def _served(setup: Setup, weights: Sequence[int], *, fair: bool) -> list[int]:
    """Run the load of the first two parts; how many tasks of each tenant had run when the first had none left."""
    backlog = backlogs(setup.tasks, weights)
    more: dict[str, Any] = (
        {"scheduling": Scheduling(weights={_tenant(n): weight for n, weight in enumerate(weights)})} if fair else {}
    )
    more["node_types"] = session.node_types(setup.workers, prefetch=1)
    with session.open_runtime(setup, **more) as runtime, session.held_workers(runtime, setup) as let_go:
        handles = [
            session.submit_soon(submitter, burn_stamp, TASK_NS, tenant)
            for tenant, submitter in enumerate(_submitters(runtime, fair=fair))
            for _ in range(backlog[tenant])
        ]
        behind = runtime.submit(increment, 1)  # durable when this returns, and so is all that was sent before
        let_go()
        ran = [handle.result(SECONDS_MAX) for handle in handles]
        check_equal(behind.result(SECONDS_MAX), 2, "the last task")
    order = [tenant for _, tenant in sorted((at_ns, tenant) for tenant, at_ns in ran)]
    check_equal([order.count(tenant) for tenant in range(TENANTS)], backlog, "tasks of tenants")
    return served_until_one_is_out(order, backlog)


def _submitters(runtime: Runtime, *, fair: bool) -> list[Submitter]:
    return [runtime.options(tenant=_tenant(n)) if fair else runtime for n in range(TENANTS)]


def _small_tenant(setup: Setup, *, fair: bool) -> tuple[list[int], list[int], MeasuredWindow]:
    """Waits of the small tenant on the idle engine and beside the flood, and the window of the latter."""
    with session.open_runtime(setup) as runtime:
        flooding, small, *_ = _submitters(runtime, fair=fair)
        left = iter(range(1, IDLE_TASKS_SMOKE if setup.smoke else IDLE_TASKS))
        idle = load.paced(small, burn_increment, [SMALL_NS], lambda due_ns: next(left, None) is not None)
        with MeasuredWindow(session.members(runtime)) as window:
            flood = load.Bulk(flooding, _flood_size(setup), SMALL_NS)
            beside = load.paced_beside(flood, small, burn_increment, [SMALL_NS])
            flood.finish()
    return idle, beside, window


def _flood_size(setup: Setup) -> int:
    return max(1, setup.tasks // FLOOD_SHARE)


def _tenant(number: int) -> str:
    return f"tenant-{number}"


def backlogs(tasks: int, weights: Sequence[int]) -> list[int]:
    """How many tasks each tenant submits: by weight, and the first one half as many more as all others."""
    unit = tasks / sum(weights)
    shares = [max(1, round(unit * weight)) for weight in weights]
    shares[0] += sum(shares[1:]) // 2
    return shares


def served_until_one_is_out(order: Sequence[int], backlog: Sequence[int]) -> list[int]:
    """How often each number occurs in the order until one has occurred as often as its backlog says."""
    served = [0] * len(backlog)
    for tenant in order:
        served[tenant] += 1
        if served[tenant] == backlog[tenant]:
            break
    return served


def share_error(served: Sequence[int], weights: Sequence[int]) -> float:
    """Largest deviation of a tenant's share from its weight's, as a part of the latter."""
    unit = sum(served) / sum(weights)
    return max(abs(count / (unit * weight) - 1) for count, weight in zip(served, weights, strict=True))


def jain_index(served: Sequence[int]) -> float:
    """1 where all are equal, 1/n where one has everything."""
    return sum(served) ** 2 / (len(served) * sum(count * count for count in served))
