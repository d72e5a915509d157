"""Scenario `profile-truth`: whether a CPU profile says what the clocks of threads say, and what py-spy says.

A worker runs the load of `runtime.bench.truth` and samples itself; py-spy, where it is installed and permitted, looks
at the same worker from outside meanwhile. Shown are the shares of each kind by the clocks, by the sampler and by
py-spy, those of each label, and how far the innermost functions of both profilers are apart. A task is a second of CPU
time of the worker's main thread.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from runtime import Runtime
from runtime.bench import session
from runtime.bench.figures import Sample
from runtime.bench.measure import MeasuredWindow
from runtime.bench.truth import Found, apart, leaves_of, load, work_of
from runtime.bench.workloads.base import SECONDS_MAX, Scenario, Setup
from runtime.profile.cli.doctor import py_spy
from runtime.profile.cli.spying import spy
from runtime.profile.model import Profile

HZ: Final = 250.0
SPY_HZ: Final = 100.0
LARGE: Final = 0.05
"""Functions with such a share are compared one by one."""


class ProfileTruthScenario(Scenario):
    """Errors of the profile, in points of a hundred; the window is the load."""

    name = "profile-truth"
    title = "a CPU profile beside the clocks of threads, and beside py-spy; a task is a second of CPU time"
    tasks_default = 30
    tasks_smoke = 1
    durability_default = "none"

    def params(self, setup: Setup) -> dict[str, Any]:
        return {"workers": 1, "hz": HZ}

    def run(self, setup: Setup) -> Sample:
        types = session.node_types(1)
        with (
            session.open_runtime(setup, node_types=types) as runtime,
            MeasuredWindow(session.members(runtime)) as window,
        ):
            found, spied = measured(runtime, float(setup.tasks))
        extra = {
            "samples": found.seen,
            "function_error": 100 * found.functions.error(),
            "label_error": 100 * found.workflows.error(),
            "sum_error": 100 * found.sum_error(),
        }
        if spied.samples:
            distance, worst = apart(found.leaves, leaves_of(spied), LARGE)
            extra |= {"py_spy_distance": distance, "py_spy_worst": 100 * worst}
        lines = [*table(found, spied), *(f"  {note}" for note in spied.notes)]
        return replace(window.sample(setup.tasks, (), **extra), lines=lines)


def measured(runtime: Runtime, seconds: float) -> tuple[Found, Profile]:
    """Run the load in a worker of the runtime, and py-spy beside it; without samples where there is none."""
    worker = next(row.process for row in runtime.profile.processes() if row.process.role == "worker")
    program = py_spy()
    running = runtime.submit(load, seconds, HZ)
    if program is None:
        spied = Profile()
        spied.notes.append("py-spy is not installed")
    else:
        with tempfile.TemporaryDirectory(prefix="mainspring-py-spy-") as folder:
            spied = spy(program, [worker], max(1.0, seconds - 1), SPY_HZ, Path(folder), lambda: False)
    return Found.of_json(running.result(SECONDS_MAX)), spied


def table(found: Found, spied: Profile) -> list[str]:
    """Shares by function and by label, as lines."""
    theirs = Counter[str]()
    for sample, weight in spied:
        theirs[work_of(sample.stack)] += weight.value
    lines = [f"  {'':14}{'clocks':>8} {'sampled':>8} {'py-spy':>8}"]
    for true, ours, outside in ((*found.functions, theirs), (*found.workflows, {})):
        for name in dict.fromkeys((*true, *ours, *outside)):
            cells = " ".join(f"{_share(of, name):>8}" for of in (true, ours, outside))
            lines.append(f"  {name:14}{cells}")
    return lines


def _share(of: Mapping[str, int], name: str) -> str:
    total = sum(of.values())
    return f"{of.get(name, 0) / total:.1%}" if total else "-"
