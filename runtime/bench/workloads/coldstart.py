"""Scenario `coldstart`: from the start of a Python process to its first result, and what all its processes cost idle.

The program is the smallest a user would write. The clock starts just before the interpreter is started and is read in
the child when it has the result (the monotonic clock is one for all processes). One start goes before, unmeasured, so
that byte code and pages are in the caches as they are on any later start. Byte code is kept in a folder of the
benchmark, for both sides: an environment that forbids to write it (PYTHONDONTWRITEBYTECODE, as images of containers
have it) would measure the compiler, which no installed program waits for.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from runtime.bench.figures import Sample
from runtime.bench.fresh import FreshProcess
from runtime.bench.measure import idle_cost
from runtime.bench.workloads.base import Scenario, Setup, check_equal

IDLE_S = 5.0
IDLE_SMOKE_S = 0.2
SETTLE_S = 3.0
"""Between the first result and the idle time: a start leaves imports for its first quiet moments."""

OURS = """
import json, sys, time
from runtime import NodeType, Runtime
from runtime.bench.handlers import increment

folder, workers, durability = json.loads(sys.argv[1])
if __name__ == "__main__":
    with Runtime(folder, node_types=[NodeType("cpu", workers=workers)], durability=durability) as rt:
        value = rt.submit(increment, 41).result()
        done = time.monotonic_ns()
        print(json.dumps([done, value]), flush=True)
        sys.stdin.readline()
"""

THEIRS = """
import json, sys, time
from concurrent.futures import ProcessPoolExecutor
from runtime.bench.handlers import increment

folder, workers, durability = json.loads(sys.argv[1])
if __name__ == "__main__":
    with ProcessPoolExecutor(workers) as pool:
        value = pool.submit(increment, 41).result()
        done = time.monotonic_ns()
        print(json.dumps([done, value]), flush=True)
        sys.stdin.readline()
"""


class ColdStartScenario(Scenario):
    """Time to the first result, then CPU, RSS and PSS of all processes over some idle seconds."""

    name = "coldstart"
    title = "start of a Python process to its first result; then CPU and memory while idle; always one task"
    tasks_default = 1
    tasks_smoke = 1
    baseline_name = "ProcessPoolExecutor in a fresh process"

    def params(self, setup: Setup) -> dict[str, Any]:
        return {"workers": setup.workers, "idle_s": _idle_s(setup)}

    def baseline_params(self, setup: Setup) -> dict[str, Any]:
        return self.params(setup)

    def run(self, setup: Setup) -> Sample:
        return _start_twice(OURS, setup)

    def run_baseline(self, setup: Setup) -> Sample:
        return _start_twice(THEIRS, setup)


def _start_twice(program: str, setup: Setup) -> Sample:
    with tempfile.TemporaryDirectory(prefix="mainspring-bench-") as byte_code:
        _start(program, setup, Path(byte_code), idle_s=0.0)
        return _start(program, setup, Path(byte_code), _idle_s(setup))


def _start(program: str, setup: Setup, byte_code: Path, idle_s: float) -> Sample:
    """One start over a new state folder; without idle time when that is zero."""
    with (
        tempfile.TemporaryDirectory(prefix="mainspring-bench-", dir=setup.folder) as parent,
        FreshProcess(
            program, str(Path(parent) / "state"), setup.workers, setup.durability, byte_code=byte_code
        ) as child,
    ):
        done_ns, value = child.hear()
        check_equal(value, 42, "first result")
        pids = child.family()
        extra: dict[str, float] = {"processes": len(pids)}
        rss = 0
        if idle_s:
            idle_cost(pids, min(idle_s, SETTLE_S))
            idle = idle_cost(pids, idle_s)
            rss = idle.rss_bytes
            extra.update(
                idle_cpu_percent=idle.cpu_percent, idle_rss_bytes=idle.rss_bytes, idle_pss_bytes=idle.pss_bytes
            )
        child.finish()
    return Sample(1, done_ns - child.started_ns, rss_bytes=rss, extra=extra)


def _idle_s(setup: Setup) -> float:
    return IDLE_SMOKE_S if setup.smoke else IDLE_S
