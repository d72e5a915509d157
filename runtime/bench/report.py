"""Reports: the table that is printed while scenarios run, and the JSON object.

The table has fixed columns, so that every line can be printed as soon as it is known. A line says its parameters and
durability; the line of the baseline stands below ours, and below that the ratio with its spread.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from runtime.bench.figures import ROLES, ScenarioResult
from runtime.bench.workloads.base import describe

SHOWN: Final = frozenset({"tasks", "seconds", "tasks_per_second", "p50_us", "p99_us", "cpu_us_per_task", "rss_bytes"})
_RATIO_NAMES: Final = {"ratio": "ratio", "ratio_p50": "p50 ratio", "ratio_p99": "p99 ratio"}
_COLUMNS: Final = (
    ("scenario", "<11"),
    ("tasks", ">9"),
    ("seconds", ">8"),
    ("tasks/s", ">9"),
    ("p50 us", ">8"),
    ("p99 us", ">8"),
    ("CPU us/task", ">11"),
    ("RSS MB", ">6"),
    ("durable", "<7"),
    ("parameters", ""),
)


def machine_line(facts: Mapping[str, Any]) -> str:
    """The machine in one line."""
    return (
        f"{facts['cpu']}, {facts['cores']} cores, {facts['memory_bytes'] / 2**30:.0f} GiB; {facts['python']}; "
        f"{facts['system']} {facts['kernel']}; state on {facts['file_system']}; load {facts['load_average'][0]}"
    )


def header() -> str:
    """The head of the table."""
    return _line([name for name, _ in _COLUMNS])


def lines(result: ScenarioResult) -> list[str]:
    """One scenario: ours, CPU by role and further figures, the baseline, the ratios."""
    row = result.to_json()
    params = describe(result.params)
    if result.error:
        return [f"{result.scenario:<11} failed: {result.error}", f"            {params} durability={result.durability}"]
    found = [_figures_line(result.scenario, row, result.durability, params), *_details(row)]
    baseline = row["baseline"]
    if baseline is not None:
        found.append(
            _figures_line(
                "  against", baseline, baseline["durability"], f"{baseline['name']}: {describe(baseline['params'])}"
            )
        )
        found.extend(_details(baseline))
        found.append(_ratio_line(row, len(result.ours)))
    return [*found, *result.ours[-1].lines]


def document(version: str, facts: Mapping[str, Any], results: Sequence[ScenarioResult]) -> dict[str, Any]:
    """The JSON object of a whole call."""
    return {"version": version, "machine": dict(facts), "results": [result.to_json() for result in results]}


def _figures_line(name: str, row: Mapping[str, Any], durability: str | None, params: str) -> str:
    cpu = row["cpu_us_per_task"]["total"]
    cells = [
        name,
        f"{row['tasks']:,}",
        _number(row["seconds"]),
        _number(row["tasks_per_second"]),
        _number(row["p50_us"]),
        _number(row["p99_us"]),
        _number(cpu or None),
        f"{row['rss_bytes'] / 1e6:,.0f}",
        durability or "-",
        params,
    ]
    return _line(cells)


def _line(cells: Sequence[str]) -> str:
    return " ".join(f"{cell:{form}}" for cell, (_, form) in zip(cells, _COLUMNS, strict=True)).rstrip()


def _details(row: Mapping[str, Any]) -> list[str]:
    """CPU by role and the scenario's own figures, when there are any."""
    cpu = row["cpu_us_per_task"]
    roles = [f"{role} {_number(cpu[role])}" for role in ROLES if role in cpu]
    more = [
        f"{name} {_extra(name, value)}"
        for name, value in row.items()
        if isinstance(value, float | int) and _is_extra(name)
    ]
    texts = [f"CPU us/task: {', '.join(roles)}"] if roles else []
    texts.extend([", ".join(more)] if more else [])
    return [f"{'':12}{'; '.join(texts)}"] if texts else []


def _is_extra(name: str) -> bool:
    return name not in SHOWN and name != "samples" and not name.startswith("ratio")


def _extra(name: str, value: float) -> str:
    return f"{value / 1e6:,.1f} MB" if name.endswith("_bytes") and value >= 1e6 else _number(value)


def _ratio_line(row: Mapping[str, Any], pairs: int) -> str:
    texts = []
    for key, name in _RATIO_NAMES.items():
        if row.get(key) is not None:
            low, high = row[f"{key}_spread"]
            texts.append(f"{name} {_number(row[key])} ({_number(low)} to {_number(high)})")
    return f"  {', '.join(texts)} over {pairs} {'pair' if pairs == 1 else 'pairs'}; above 1 = we are faster"


def _number(value: float | None) -> str:
    """Four digits at most, thousands apart; a dash when there is no figure."""
    if value is None:
        return "-"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}" if value else "0"
