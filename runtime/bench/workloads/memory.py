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
from pathlib import Path
from typing import Any

from runtime import Flow
from runtime.bench import fresh, session
from runtime.bench.figures import Sample
from runtime.bench.handlers import hold, increment, make_gate, open_gate
from runtime.bench.measure import Member, members_of, members_with_children, pss_bytes, rss_bytes
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


def _in_fresh_process(function: Callable[[], None], setup: Setup, tasks: int) -> Sample:
    with (
        tempfile.TemporaryDirectory(prefix="mainspring-bench-", dir=setup.folder) as folder,
        fresh.FreshProcess(fresh.program(function), folder, tasks, setup.workers, setup.durability) as child,
    ):
        elapsed_ns, before, after, rss = child.hear()
        child.finish()
    growth = {role: (after[role] - before[role]) / tasks for role in after}
    extra = {f"{role}_bytes_per_task": value for role, value in growth.items()}
    extra |= {"bytes_per_task": sum(growth.values()), "pss_bytes": sum(after.values())}
    return Sample(tasks, elapsed_ns, rss_bytes=rss, extra=extra)


def ours() -> None:
    """In the child: hold a graph of pending nodes."""
    folder, tasks, workers, durability = fresh.arguments()
    gate = os.path.join(folder, "gate")
    make_gate(gate)
    with session.open_runtime(Setup(tasks, workers, durability, Path(folder))) as runtime:
        members = members_of(runtime)
        before = settled_pss(members)
        flow = _blocked_flow(gate, tasks)
        started = time.perf_counter_ns()
        run = runtime.submit(flow)
        elapsed = time.perf_counter_ns() - started
        del flow
        after = settled_pss(members)
        check_equal(session.pending(run), tasks, "pending nodes")
        fresh.say([elapsed, before, after, sum(rss_bytes(member.pid) for member in members)])
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
        members = members_with_children()
        before = settled_pss(members)
        started = time.perf_counter_ns()
        futures = [pool.submit(increment, value) for value in range(tasks)]
        elapsed = time.perf_counter_ns() - started
        after = settled_pss(members)
        check_equal(sum(not future.done() for future in futures), tasks, "pending futures")
        fresh.say([elapsed, before, after, sum(rss_bytes(member.pid) for member in members)])
        fresh.listen()
        pool.shutdown(wait=False, cancel_futures=True)
        open_gate(gate)
        for blocker in blockers:
            blocker.cancelled() or blocker.result(timeout=SECONDS_MAX)


def settled_pss(members: Sequence[Member]) -> dict[str, int]:
    """PSS by role after garbage collection here, once two readings of the sum agree."""
    gc.collect()
    last = _pss(members)
    for _ in range(SETTLE_READINGS_MAX):
        time.sleep(SETTLE_S)
        now = _pss(members)
        before, after = sum(last.values()), sum(now.values())
        last = now
        if abs(after - before) <= SETTLED_SHARE * before:
            break
    return last


def _pss(members: Sequence[Member]) -> dict[str, int]:
    found: dict[str, int] = {}
    for role, pid in members:
        found[role] = found.get(role, 0) + pss_bytes(pid)
    return found
