"""What is measured: one `Sample` per measured window, one `ScenarioResult` per scenario, and how figures come from it.

Figures are medians over the samples of one side, each figure by itself. The ratio compares neighbouring samples of
the two sides (see `ScenarioResult.ratios`). Times are integer nanoseconds in a sample; they become seconds and
microseconds here, for reports.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

ROLES: Final = ("face", "engine", "workers", "spawner")
"""Process roles, in the order of reports: the program that holds the runtime, and the three kinds it starts."""


class BenchError(Exception):
    """A scenario could not be measured, or a result was wrong."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One measured window of one side.

    Args:
        tasks: Tasks finished in the window.
        elapsed_ns: Its length.
        cpu_ns: CPU time used in the window, by process role.
        rss_bytes: Resident memory of all processes at its end, shared pages counted in each.
        p50_ns: Median latency of one task; None where tasks are not timed one by one.
        p99_ns: 99th percentile of the same.
        extra: Figures of this scenario only, by their name in reports.
        lines: What the scenario shows besides, as it is printed: a table, a chart.
        missed: Limits of this scenario that the figures are above, beyond doubt.
    """

    tasks: int
    elapsed_ns: int
    cpu_ns: Mapping[str, int] = field(default_factory=dict)
    rss_bytes: int = 0
    p50_ns: float | None = None
    p99_ns: float | None = None
    extra: Mapping[str, float] = field(default_factory=dict)
    lines: Sequence[str] = ()
    missed: Sequence[str] = ()

    @property
    def ns_per_task(self) -> float:
        """MeasuredWindow divided by tasks: the usual cost that ratios compare."""
        return self.elapsed_ns / self.tasks


Cost = Callable[[Sample], float | None]
"""What a ratio compares: lower is better; None where a sample has no such figure."""


def figures_of(samples: Sequence[Sample]) -> dict[str, Any]:
    """The medians of several samples of one side, as they stand in a report."""
    tasks = samples[0].tasks if len({s.tasks for s in samples}) == 1 else round(_median([s.tasks for s in samples]))
    rate = _median([s.tasks / s.elapsed_ns for s in samples])
    figures: dict[str, Any] = {
        "tasks": tasks,
        "seconds": _rounded(_median([s.elapsed_ns for s in samples]) / 1e9),
        "tasks_per_second": _rounded(rate * 1e9),
        "p50_us": _median_us([s.p50_ns for s in samples]),
        "p99_us": _median_us([s.p99_ns for s in samples]),
        "cpu_us_per_task": _cpu_us_per_task(samples),
        "rss_bytes": round(_median([s.rss_bytes for s in samples])),
    }
    for name in samples[0].extra:
        figures[name] = _rounded(_median([s.extra[name] for s in samples]))
    return figures


def _cpu_us_per_task(samples: Sequence[Sample]) -> dict[str, float]:
    roles = [role for role in ROLES if any(role in s.cpu_ns for s in samples)]
    by_role = {role: _rounded(_median([s.cpu_ns.get(role, 0) / s.tasks for s in samples]) / 1e3) for role in roles}
    by_role["total"] = _rounded(_median([sum(s.cpu_ns.values()) / s.tasks for s in samples]) / 1e3)
    return by_role


def _median(values: Sequence[float]) -> float:
    return float(statistics.median(values))


def _median_us(values: Sequence[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return _rounded(_median(known) / 1e3) if known else None


def _rounded(value: float) -> float:
    """Five significant digits: more would claim a precision that no machine has."""
    return float(f"{value:.5g}")


@dataclass(frozen=True, slots=True)
class Ratio:
    """How many times better we are than the baseline: median, smallest and largest over neighbouring samples."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, ours: Sequence[Sample], theirs: Sequence[Sample], cost: Cost) -> Ratio | None:
        """Compare sample by sample; None when either side lacks the figure."""
        found: list[float] = []
        for our, their in zip(ours, theirs, strict=True):
            ours_cost, theirs_cost = cost(our), cost(their)
            if ours_cost is None or theirs_cost is None or ours_cost <= 0:
                return None
            found.append(theirs_cost / ours_cost)
        if not found:
            return None
        return cls(_rounded(_median(found)), _rounded(min(found)), _rounded(max(found)))


@dataclass(frozen=True, slots=True)
class ScenarioResult:
    """All that is known about one scenario after its samples were taken.

    Args:
        scenario: Its name.
        params: What it was run with; part of every report.
        durability: "fsync", "os", "none", or None where nothing is stored.
        ours: Our samples, in the order taken.
        baseline_name: What ran beside them; None when nothing did.
        baseline_params: What that was run with.
        theirs: Its samples, in the order taken.
        cost: What the ratio compares.
        error: Why there are no figures; empty when there are.
        baseline_durability: Of what ran beside them: "none", unless it is the engine itself in another way.
    """

    scenario: str
    params: Mapping[str, Any]
    durability: str | None
    ours: tuple[Sample, ...] = ()
    baseline_name: str | None = None
    baseline_params: Mapping[str, Any] = field(default_factory=dict)
    theirs: tuple[Sample, ...] = ()
    cost: Cost = lambda sample: sample.ns_per_task
    error: str = ""
    baseline_durability: str | None = "none"

    def ratios(self) -> dict[str, Ratio]:
        """The ratio under "ratio", and those of the latencies where both sides have them."""
        named: dict[str, Cost] = {"ratio": self.cost, "ratio_p50": lambda s: s.p50_ns, "ratio_p99": lambda s: s.p99_ns}
        found = {name: Ratio.of(self.ours, self.theirs, cost) for name, cost in named.items() if self.theirs}
        return {name: ratio for name, ratio in found.items() if ratio is not None}

    @property
    def missed(self) -> list[str]:
        """Limits that each of our samples is above."""
        samples = [sample.missed for sample in self.ours]
        return [name for name in (samples[0] if samples else ()) if all(name in missed for missed in samples)]

    def to_json(self) -> dict[str, Any]:
        """As one element of `results[]`."""
        head: dict[str, Any] = {"scenario": self.scenario, "params": dict(self.params), "durability": self.durability}
        if self.error:
            return {**head, "error": self.error}
        body: dict[str, Any] = {
            **head,
            "samples": len(self.ours),
            **figures_of(self.ours),
            "baseline": None,
            "ratio": None,
        }
        if self.theirs:
            body["baseline"] = {
                "name": self.baseline_name,
                "params": dict(self.baseline_params),
                "durability": self.baseline_durability,
                **figures_of(self.theirs),
            }
        for name, ratio in self.ratios().items():
            body[name] = ratio.median
            body[f"{name}_spread"] = [ratio.low, ratio.high]
        if self.missed:
            body["missed"] = self.missed
        return body
