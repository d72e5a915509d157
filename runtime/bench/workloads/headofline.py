"""Scenario `headofline`: short tasks that a worker holds ahead behind a long one. Do they wait for it?

Always two workers. In each round one is kept busy by a gate, and the other gets a task of two seconds. Three times 64
short tasks are submitted; by their measured duration workers take them ahead, about half of them behind the long one.
Then the gate is opened. Reported is how long it takes from there until every short task has ended, with the long one
still running; and how many of them were held behind it.
"""

from __future__ import annotations

import os
import tempfile
import time
from dataclasses import replace
from typing import Any, NamedTuple

from runtime import Runtime
from runtime.bench import session
from runtime.bench.figures import BenchError, Sample
from runtime.bench.handlers import hold, increment, make_gate, nap, open_gate
from runtime.bench.measure import MeasuredWindow, percentile
from runtime.bench.workloads.base import SECONDS_MAX, Scenario, Setup, check_equal

WORKERS = 2
LONG_NS = 2_000_000_000
LONG_SMOKE_NS = 1_000_000_000
BEHIND = 64
SHORT = 3 * BEHIND


class HeadOfLineScenario(Scenario):
    """Time until the short tasks have ended; p50 and p99 are over rounds, of the last short task of each."""

    name = "headofline"
    title = f"{BEHIND} short tasks held behind one of 2 s on one of two workers; a task is a short one"
    tasks_default = 10 * SHORT
    tasks_smoke = SHORT
    durability_default = "os"

    def params(self, setup: Setup) -> dict[str, Any]:
        return {"workers": WORKERS, "long_ms": _long_ns(setup) // 1_000_000, "rounds": _rounds(setup)}

    def run(self, setup: Setup) -> Sample:
        rounds: list[Round] = []
        two = replace(setup, workers=WORKERS)
        for _ in range(_rounds(setup)):  # each on an engine that has seen short tasks only, so that it holds many ahead
            with session.open_runtime(two) as runtime, MeasuredWindow(session.members(runtime)) as window:
                rounds.append(_round(runtime, _long_ns(setup)))
        times = [done.last_ns for done in rounds]
        extra = {
            "last_ms": max(times) / 1e6,
            "median_ms": percentile(times, 0.5) / 1e6,
            "held_behind": min(done.behind for done in rounds),
            "long_still_ran": min(float(done.long_still_ran) for done in rounds),
        }
        return window.sample(SHORT, times, **extra)

    def cost(self, sample: Sample) -> float | None:
        return sample.extra["last_ms"]


class Round(NamedTuple):
    """How long the short tasks took, how many were held behind the long one, whether that one outlasted them."""

    last_ns: int
    behind: int
    long_still_ran: bool


def _round(runtime: Runtime, long_ns: int) -> Round:
    with tempfile.TemporaryDirectory(prefix="mainspring-gate-") as folder:
        gate = os.path.join(folder, "gate")
        make_gate(gate)
        gated = runtime.submit(hold, gate, 1)
        session.await_running([gated])
        long = runtime.submit(nap, long_ns, 2)
        session.await_running([long])
        short = [session.submit_soon(runtime, increment, number) for number in range(SHORT - 1)]
        short.append(runtime.submit(increment, SHORT - 1))  # durable when this returns, and so are those before it
        pid = long.status().worker_pid
        behind = sum(handle.status().worker_pid == pid for handle in short)
        if long.done():
            open_gate(gate)
            raise BenchError("the long task ended before the short ones were held: is the machine busy?")
        opened_ns = time.perf_counter_ns()
        open_gate(gate)
        found = [handle.result(SECONDS_MAX) for handle in short]
        last_ns = time.perf_counter_ns() - opened_ns
        still_ran = not long.done()
    check_equal(found, list(range(1, SHORT + 1)), "short tasks")
    check_equal([gated.result(SECONDS_MAX), long.result(SECONDS_MAX)], [1, 2], "long tasks")
    return Round(last_ns, behind, still_ran)


def _rounds(setup: Setup) -> int:
    return max(1, setup.tasks // SHORT)


def _long_ns(setup: Setup) -> int:
    return LONG_SMOKE_NS if setup.smoke else LONG_NS
