"""Scenario `pool`: many short calls to a service at once, with a session out of a pool against one for each call.

All tasks are submitted together. Without a pool all of them run at once, a coroutine and a session each, over `WORKERS`
workers of mode "asyncio"; with it a worker runs as many as there are sessions in its pool. Latency is from the submit
to the moment when the task had its answer, so it holds the waiting for a place, as the caller sees it. Beside it: how
often the workers collected garbage, the most memory that they had, and what a response object costs that is made for
each task or used again.

A published case in Go for comparison: mean latency 42.7 -> 18.3 ms, collections 126 -> 21 a second, peak memory
1,840 -> 620 MB; pooled response objects: 142 -> 3 collections a minute, 89 -> 12 ns, 42 -> 8 MB.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from runtime import NodeType
from runtime.bench import session
from runtime.bench.figures import BenchError, Sample
from runtime.bench.measure import MeasuredWindow
from runtime.bench.pool_handlers import (
    FRESH,
    POOL_SIZE,
    POOLED,
    SERVICE,
    TASKS,
    call_fresh,
    call_pooled,
    facts,
    use_again,
    use_fresh,
)
from runtime.bench.workloads.base import SECONDS_MAX, Scenario, Setup

WORKERS = 2
CONCURRENCY = 5_000
"""Tasks at once in a worker."""
OTHER_FILES = 500
"""Descriptors of a process beside those of its calls."""
RESPONSES = 300_000
RESPONSES_SMOKE = 3_000


class PoolScenario(Scenario):
    """Ours: the pool. The baseline: the same engine, a session for each call."""

    name = "pool"
    title = "concurrent short calls of one node type, with sessions out of a pool; a task is a call"
    tasks_default = 10_000
    tasks_smoke = 300
    durability_default = "os"
    baseline_name = "a session for each call"
    baseline_is_ours = True

    def params(self, setup: Setup) -> dict[str, Any]:
        return {"workers": WORKERS, "concurrency": POOL_SIZE, "max_size": POOL_SIZE}

    def baseline_params(self, setup: Setup) -> dict[str, Any]:
        return {"workers": WORKERS, "concurrency": CONCURRENCY}

    def run(self, setup: Setup) -> Sample:
        return _measured(setup, POOLED, POOL_SIZE, call_pooled, use_again)

    def run_baseline(self, setup: Setup) -> Sample:
        return _measured(setup, FRESH, CONCURRENCY, call_fresh, use_fresh)

    def cost(self, sample: Sample) -> float | None:
        return sample.extra["mean_ms"]


def _measured(setup: Setup, node_type: str, concurrency: int, call: Any, use: Any) -> Sample:
    kind = NodeType(node_type, workers=WORKERS, mode="asyncio", concurrency=concurrency)
    types = [*session.node_types(1), kind]
    with _files(), _service(), session.open_runtime(setup, tasks=TASKS, node_types=types) as runtime:
        there = runtime.options(node_type=node_type)
        runtime.submit(call, 0).result(SECONDS_MAX)
        before = _facts(there)
        with MeasuredWindow(session.members(runtime)) as window:
            started_ns = time.monotonic_ns()
            ends = list(runtime.map(call, range(setup.tasks)))
        after = _facts(there)
        count = RESPONSES_SMOKE if setup.smoke else RESPONSES
        response_ns, collections, seconds, response_bytes = there.submit(use, count).result(SECONDS_MAX)
    if len(ends) != setup.tasks:
        raise BenchError(f"{len(ends)} of {setup.tasks} calls have ended")
    times = [end_ns - started_ns for end_ns in ends]
    sample = window.sample(setup.tasks, times)
    collected = sum(after[pid][0] - before[pid][0] for pid in after)
    extra = {
        "mean_ms": statistics.fmean(times) / 1e6,
        "collections": collected,
        "collections_per_s": collected * 1e9 / sample.elapsed_ns,
        "workers_peak_bytes": sum(peak for _, peak in after.values()),
        "response_ns": response_ns,
        "response_collections_per_min": collections * 60 / seconds,
        "response_bytes": response_bytes,
    }
    return window.sample(setup.tasks, times, **extra)


def _facts(there: Any) -> dict[int, tuple[int, int]]:
    """Of each worker: collections so far, and the most memory that it ever had."""
    found: dict[int, tuple[int, int]] = {}
    ends_s = time.monotonic() + SECONDS_MAX
    while len(found) < WORKERS and time.monotonic() < ends_s:
        for pid, collections, peak_bytes in there.map(facts, range(2 * WORKERS)):
            found[pid] = (collections, peak_bytes)
    return found


@contextmanager
def _files() -> Iterator[None]:
    """As many descriptors as this machine permits, for processes that are started meanwhile."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = WORKERS * CONCURRENCY + OTHER_FILES
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise BenchError(f"needs {needed} open files in a process; `ulimit -Hn` says {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, needed), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextmanager
def _service() -> Iterator[None]:
    """A service that runs as long as the block; workers that are started in it know its socket."""
    with tempfile.TemporaryDirectory(prefix="mainspring-bench-") as folder:
        path = str(Path(folder) / "service")
        program = f"from runtime.bench.pool_handlers import serve; serve({path!r})"
        with subprocess.Popen(
            [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as service:
            try:
                if service.stdout is None or service.stdout.readline() != "ready\n":
                    raise BenchError("the service did not start")
                os.environ[SERVICE] = path
                yield
            finally:
                os.environ.pop(SERVICE, None)
                service.communicate()
