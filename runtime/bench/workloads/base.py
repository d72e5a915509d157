"""What every scenario is: a name, sizes, a way to measure us, and mostly a way to measure the standard library.

A scenario holds no state: `run` opens what it needs, measures one window and closes everything, so that samples of
the two sides can alternate and no process of one side is alive while the other is measured.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from runtime.bench.figures import BenchError, Sample
from runtime.config import Durability

SECONDS_MAX = 600.0
"""No wait of a benchmark is longer; one that would be is a hang, and is reported as such."""


@dataclass(frozen=True, slots=True)
class Setup:
    """What one scenario is run with.

    Args:
        tasks: Its size; what it counts is said by the scenario.
        workers: Worker processes, ours and the baseline's.
        durability: Of our state folder; None where nothing is stored.
        folder: Where state folders are made, one per sample.
        file: A workflow file, for the scenario that reads one.
        smoke: Also shorten what is not counted in tasks (idle time, bisection), for tests.
        seconds: How long, for the scenario that goes on for a time; None: as long as it says itself.
    """

    tasks: int
    workers: int
    durability: Durability | None
    folder: Path
    file: Path | None = None
    smoke: bool = False
    seconds: float | None = None


class Scenario(ABC):
    """One workload. Subclasses set the class variables and say how to measure one window."""

    name: ClassVar[str]
    title: ClassVar[str]
    """One line of help: what is measured and what a task is."""
    tasks_default: ClassVar[int]
    tasks_smoke: ClassVar[int]
    durability_default: ClassVar[Durability | None] = "fsync"
    baseline_name: ClassVar[str | None] = None
    baseline_is_ours: ClassVar[bool] = False
    """Whether the baseline is the same engine used in another way, and as durable."""
    baseline_is_as_durable: ClassVar[bool] = False
    """Whether the baseline is something else that keeps what it has as safe."""

    def refusal(self, setup: Setup) -> str:
        """Why this setup cannot be measured; empty when it can. Asked before anything runs."""
        return ""

    def params(self, setup: Setup) -> dict[str, Any]:
        """What reports say besides tasks and durability."""
        return {"workers": setup.workers}

    def baseline_params(self, setup: Setup) -> dict[str, Any]:
        """The same for the baseline."""
        return {"workers": setup.workers}

    @abstractmethod
    def run(self, setup: Setup) -> Sample:
        """Measure one window of ours. Raises `BenchError` when a result is wrong."""

    def run_baseline(self, setup: Setup) -> Sample:
        """Measure one window of the baseline."""
        raise BenchError(f"{self.name} has no equivalent in the standard library")

    def cost(self, sample: Sample) -> float | None:
        """What the ratio compares; lower is better."""
        return sample.ns_per_task


def check_equal(found: object, expected: object, what: str) -> None:
    """Raise `BenchError` unless both are equal; lists and results by id are compared one by one, to say where."""
    if found == expected:
        return
    if isinstance(found, list) and isinstance(expected, list):
        found, expected = dict(enumerate(found)), dict(enumerate(expected))
    if isinstance(found, dict) and isinstance(expected, dict):
        if len(found) != len(expected):
            raise BenchError(f"{what}: {len(found):,} results instead of {len(expected):,}")
        at = next(key for key in expected if key not in found or found[key] != expected[key])
        raise BenchError(f"{what}: result {at} is {found.get(at)!r} instead of {expected[at]!r}")
    raise BenchError(f"{what}: {found!r} instead of {expected!r}")


def describe(params: Mapping[str, Any]) -> str:
    """Parameters as a line of a report."""
    return " ".join(
        f"{name}={value:,}" if isinstance(value, int) else f"{name}={value}" for name, value in params.items()
    )
