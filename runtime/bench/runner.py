"""Runs one scenario as often as asked, alternating with its baseline; what goes wrong becomes a result that says so."""

from __future__ import annotations

import sys
from collections.abc import Callable

from runtime.bench.figures import BenchError, Sample, ScenarioResult
from runtime.bench.workloads.base import Scenario, Setup
from runtime.errors import MainspringError

Notice = Callable[[str], None]


def measure(
    scenario: Scenario, setup: Setup, *, repeat: int, against: bool, notice: Notice = lambda text: None
) -> ScenarioResult:
    """Take the samples of one scenario.

    Args:
        scenario: What to run.
        setup: What to run it with.
        repeat: Samples of each side.
        against: Alternate with the baseline, where there is one.
        notice: Is told what is about to run.

    Returns:
        The result; with `error` set when a sample could not be taken or its results were wrong. The other scenarios
        go on; only Python's development mode lets a mistake of the benchmark itself through, with its traceback.
    """
    ours: list[Sample] = []
    theirs: list[Sample] = []
    beside = against and scenario.baseline_name is not None
    as_durable = scenario.baseline_is_ours or scenario.baseline_is_as_durable
    error = ""
    try:
        for turn in range(1, repeat + 1):
            notice(f"{scenario.name}: sample {turn} of {repeat}")
            ours.append(scenario.run(setup))
            if beside:
                notice(f"{scenario.name}: sample {turn} of {repeat}, {scenario.baseline_name}")
                theirs.append(scenario.run_baseline(setup))
    except Exception as wrong:
        if sys.flags.dev_mode and not isinstance(wrong, (BenchError, MainspringError, OSError)):
            raise
        error = f"{type(wrong).__name__}: {wrong}"
    return ScenarioResult(
        scenario=scenario.name,
        params={**scenario.params(setup), "repeat": repeat},
        durability=setup.durability,
        ours=tuple(ours),
        baseline_name=scenario.baseline_name if beside else None,
        baseline_params=scenario.baseline_params(setup) if beside else {},
        baseline_durability=setup.durability if as_durable else "none",
        theirs=tuple(theirs),
        cost=scenario.cost,
        error=error,
    )
