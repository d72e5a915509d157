"""Scenario `memory`: bytes that one pending task costs over all our processes.

One graph: its first node blocks, and every other node has an argument of its own and waits for the first. What is
compared is the proportional set size (PSS) of all processes before the graph was made and when it is all pending,
after garbage collection and once it has settled. In a fresh process, because this one has free memory from earlier
scenarios that would hide the growth.

The baseline holds futures of a `ProcessPoolExecutor` whose workers are blocked (fewer of them: its cost is linear).
"""

from __future__ import annotations

import gc
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runtime import Flow
from runtime.bench import fresh, session
from runtime.bench.figures import Sample
from runtime.bench.handlers import hold, increment, make_gate, open_gate
from runtime.bench.measure import members_of, members_with_children, pss_bytes, rss_bytes
from runtime.bench.workloads.base import SECONDS_MAX, Scenario, Setup, check_equal

BASELINE_TASKS_MAX = 100_000
SETTLED_SHARE = 0.002
SETTLE_S = 0.1
SETTLE_READINGS_MAX = 50


class MemoryScenario(Scenario):
    """Bytes per pending task; the window is the submission."""

    name = "memory"
    title = "bytes per pending task: one graph whose first node blocks; a task is one pending node"
    tasks_default = 1_000_000
    tasks_smoke = 5_000
    baseline_name = "ProcessPoolExecutor, pending futures"

    def baseline_params(self, setup: Setup) -> dict[str, Any]:
        return {"workers": setup.workers, "pending": min(setup.tasks, BASELINE_TASKS_MAX)}

    def run(self, setup: Setup) -> Sample:
        return _in_fresh_process(ours, setup, setup.tasks)

    def run_baseline(self, setup: Setup) -> Sample:
        return _in_fresh_process(theirs, setup, min(setup.tasks, BASELINE_TASKS_MAX))

    def cost(self, sample: Sample) -> float | None:
        return sample.extra["bytes_per_task"]


@dataclass(frozen=True, slots=True)
class Growth:
    """What the child measured."""

    elapsed_ns: int
    before_bytes: int
    after_bytes: int
    rss_bytes: int


def _in_fresh_process(function: Callable[[], None], setup: Setup, tasks: int) -> Sample:
    with (
        tempfile.TemporaryDirectory(prefix="mainspring-bench-", dir=setup.folder) as folder,
        fresh.FreshProcess(fresh.program(function), folder, tasks, setup.workers, setup.durability) as child,
    ):
        growth = Growth(*child.hear())
        child.finish()
    extra = {"bytes_per_task": (growth.after_bytes - growth.before_bytes) / tasks, "pss_bytes": growth.after_bytes}
    return Sample(tasks, growth.elapsed_ns, rss_bytes=growth.rss_bytes, extra=extra)


def ours() -> None:
    """In the child: hold a graph of pending nodes."""
    folder, tasks, workers, durability = fresh.arguments()
    gate = os.path.join(folder, "gate")
    make_gate(gate)
    with session.open_runtime(Setup(tasks, workers, durability, Path(folder))) as runtime:
        pids = [member.pid for member in members_of(runtime)]
        before = settled_pss(pids)
        started = time.perf_counter_ns()
        run = runtime.submit(_blocked_flow(gate, tasks))
        elapsed = time.perf_counter_ns() - started
        after = settled_pss(pids)
        check_equal(session.pending(run), tasks, "pending nodes")
        fresh.say([elapsed, before, after, sum(map(rss_bytes, pids))])
        fresh.listen()
        run.cancel()
        open_gate(gate)
        run.wait(timeout=SECONDS_MAX)


def _blocked_flow(gate: str, tasks: int) -> Flow:
    flow = Flow("memory")
    first = flow.add(hold, gate)
    add, after = flow.add, [first]
    for value in range(tasks):
        add(increment, value, after=after)
    return flow


def theirs() -> None:
    """In the child: hold pending futures."""
    folder, tasks, workers, _ = fresh.arguments()
    gate = os.path.join(folder, "gate")
    make_gate(gate)
    with ProcessPoolExecutor(workers) as pool:
        list(pool.map(increment, range(512)))
        blockers = [pool.submit(hold, gate) for _ in range(workers * 2 + 1)]
        pids = [member.pid for member in members_with_children()]
        before = settled_pss(pids)
        started = time.perf_counter_ns()
        futures = [pool.submit(increment, value) for value in range(tasks)]
        elapsed = time.perf_counter_ns() - started
        after = settled_pss(pids)
        check_equal(sum(not future.done() for future in futures), tasks, "pending futures")
        fresh.say([elapsed, before, after, sum(map(rss_bytes, pids))])
        fresh.listen()
        pool.shutdown(wait=False, cancel_futures=True)
        open_gate(gate)
        for blocker in blockers:
            blocker.cancelled() or blocker.result(timeout=SECONDS_MAX)


def settled_pss(pids: Sequence[int]) -> int:
    """PSS of all processes after garbage collection here, once two readings agree."""
    gc.collect()
    last = sum(map(pss_bytes, pids))
    for _ in range(SETTLE_READINGS_MAX):
        time.sleep(SETTLE_S)
        now = sum(map(pss_bytes, pids))
        if abs(now - last) <= SETTLED_SHARE * last:
            return now
        last = now
    return last
