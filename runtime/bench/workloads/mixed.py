"""Scenario `mixed`: what somebody waits for, beside work that nobody waits for. Does the one stay quick?

Batch tasks that use the processor for a millisecond each are all submitted at once; meanwhile a task of class realtime
is submitted every 20 ms and its result is waited for. Reported are the latency of those, and what the batch lost
against the same batch alone, which goes before in the same call.

The baseline is plain first in, first out: the same load with everything in one class.
"""

from __future__ import annotations

from typing import Any

from runtime import Priority
from runtime.bench import load, session
from runtime.bench.figures import Sample
from runtime.bench.handlers import increment
from runtime.bench.measure import MeasuredWindow
from runtime.bench.workloads.base import Scenario, Setup

BATCH_NS = 1_000_000
NICENESS = 10
"""Of the workers, of both: what computes for a millisecond stands aside for what decides and what waits."""


class MixedScenario(Scenario):
    """Latency of realtime tasks beside a batch, and the batch's loss; p50 and p99 are the realtime tasks'."""

    name = "mixed"
    title = "a realtime task every 20 ms beside waiting batch tasks of 1 ms; a task is one of the batch"
    tasks_default = 20_000
    tasks_smoke = 200
    durability_default = "os"
    baseline_name = "plain FIFO of the same engine"
    baseline_is_ours = True

    def params(self, setup: Setup) -> dict[str, Any]:
        every_ms = load.PACE_NS // 1_000_000
        return {"workers": setup.workers, "batch_us": BATCH_NS // 1000, "every_ms": every_ms, "niceness": NICENESS}

    def baseline_params(self, setup: Setup) -> dict[str, Any]:
        return self.params(setup)

    def run(self, setup: Setup) -> Sample:
        return _measure(setup, Priority.REALTIME, Priority.LOW)

    def run_baseline(self, setup: Setup) -> Sample:
        return _measure(setup, Priority.NORMAL, Priority.NORMAL)

    def cost(self, sample: Sample) -> float | None:
        return sample.p50_ns


def _measure(setup: Setup, urgent: Priority, patient: Priority) -> Sample:
    with session.open_runtime(setup, node_types=session.node_types(setup.workers, niceness=NICENESS)) as runtime:
        quick, slow = runtime.options(priority=urgent), runtime.options(priority=patient)
        alone_ns = load.Bulk(slow, setup.tasks, BATCH_NS).finish()
        with MeasuredWindow(session.members(runtime)) as window:
            batch = load.Bulk(slow, setup.tasks, BATCH_NS)
            times = load.paced_beside(batch, quick, increment)
            beside_ns = batch.finish()
    extra = {
        "realtime_tasks": len(times),
        "batch_per_second": setup.tasks / beside_ns * 1e9,
        "batch_alone_per_second": setup.tasks / alone_ns * 1e9,
        "batch_loss_percent": 100 * (1 - alone_ns / beside_ns),
    }
    return window.sample(setup.tasks, times, **extra)
