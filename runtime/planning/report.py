"""What was recorded beside what was simulated, as text, as JSON and as a page that needs nothing else.

The page has no script and loads nothing; names come from users and are escaped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Final

from actors.protocol.words import counted
from runtime.cli.report import align, duration_text
from runtime.planning.figures import HistoryFigures, PoolFigures, Waits, to_json

TENANTS_SHOWN_MAX: Final = 20
_BARS: Final = " ▁▂▃▄▅▆▇█"
_STYLE: Final = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:64rem;margin:2rem auto;padding:0 1rem;color:#1d2733}"
    "table{border-collapse:collapse;margin:1rem 0}td,th{padding:.25rem .9rem;text-align:right;"
    "border-bottom:1px solid #dde3ea}td:first-child,th:first-child{text-align:left}svg{width:100%;height:9rem}"
    "li{margin:.2rem 0}.was{stroke:#8a97a6}.is{stroke:#1769d2}polyline{fill:none;stroke-width:1.5}"
)


@dataclass(frozen=True, slots=True)
class PlanReport:
    """All that is said. `fit` is what the simulation of what was recorded took, with nothing changed, as a part of what
    was recorded; None where nothing was recorded to compare with."""

    folder: str
    changes: Sequence[str]
    recorded: HistoryFigures
    simulated: HistoryFigures
    fit: float | None
    unknown: Sequence[str]

    def to_json(self) -> dict[str, Any]:
        """As plain JSON data."""
        return {
            "changes": list(self.changes),
            "fit": self.fit,
            "recorded": to_json(self.recorded),
            "simulated": to_json(self.simulated),
            "unknown": list(self.unknown),
        }


def text_lines(report: PlanReport) -> list[str]:
    """The report as lines of plain text."""
    was, would = report.recorded, report.simulated
    lines = [
        f"state folder   {report.folder}",
        f"changed        {'; '.join(report.changes) or 'nothing'}",
        f"tasks          {was.tasks:,} recorded, {would.tasks:,} simulated",
        f"makespan       {duration_text(was.makespan_ns)} recorded, {_against(was.makespan_ns, would.makespan_ns)}",
    ]
    if report.fit is not None:
        lines.append(f"model          with nothing changed it takes {report.fit:.1%} of what was recorded")
    lines += ["", *align(_pool_rows(report), left=1)]
    lines += ["", *align(_wait_rows("class", was.classes, would.classes), left=1)]
    if len({*was.tenants, *would.tenants}) > 1:
        lines += ["", *align(_wait_rows("tenant", was.tenants, would.tenants), left=1)]
    for before, after in _pairs(was, would):
        lines += ["", f"{after.name}: tasks that wait, over the makespan", *_bars(before, after)]
    if report.unknown:
        lines += ["", "not known:", *(f"- {line}" for line in report.unknown)]
    return lines


def page(report: PlanReport) -> bytes:
    """The report as one HTML page."""
    was, would = report.recorded, report.simulated
    head = [f"<li>{escape(line)}</li>" for line in text_lines(report)[: 5 if report.fit is not None else 4]]
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8>",
        "<meta http-equiv=Content-Security-Policy content=\"default-src 'none'; style-src 'unsafe-inline'\">",
        f"<title>Simulation</title><style>{_STYLE}</style><h1>Simulation</h1><ul>{''.join(head)}</ul>",
        "<h2>Node types</h2>",
        _table(_pool_rows(report)),
        "<h2>Waits</h2>",
        _table(_wait_rows("class", was.classes, would.classes)),
        _table(_wait_rows("tenant", was.tenants, would.tenants)),
    ]
    for before, after in _pairs(was, would):
        for what, one, other in (("wait", before.waiting, after.waiting), ("run", before.running, after.running)):
            parts.append(f"<h2>{escape(after.name)}: tasks that {what}</h2>{_chart(one, other)}")
    parts.append("<p>Grey: recorded. Blue: simulated. Each over its own makespan.</p>")
    if report.unknown:
        parts.append(f"<h2>Not known</h2><ul>{''.join(f'<li>{escape(line)}</li>' for line in report.unknown)}</ul>")
    return "".join(parts).encode("utf-8", "xmlcharrefreplace")


def _pairs(was: HistoryFigures, would: HistoryFigures) -> list[tuple[PoolFigures, PoolFigures]]:
    before = {pool.name: pool for pool in was.pools}
    return [(before[pool.name], pool) for pool in would.pools if pool.name in before and (pool.tasks or pool.slots)]


def _pool_rows(report: PlanReport) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [
        ("node type", "tasks", "slots", "→", "utilisation", "→", "wait p50", "→", "wait p99", "→")
    ]
    for was, would in _pairs(report.recorded, report.simulated):
        rows.append(
            (
                would.name,
                f"{would.tasks:,}",
                f"{was.slots:.4g}",
                f"{would.slots:.4g}",
                f"{was.utilisation:.1%}",
                f"{would.utilisation:.1%}",
                duration_text(was.waits.p50_ns),
                duration_text(would.waits.p50_ns),
                duration_text(was.waits.p99_ns),
                duration_text(would.waits.p99_ns),
            )
        )
    return rows


def _wait_rows(word: str, was: dict[str, Waits], would: dict[str, Waits]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [(word, "tasks", "wait p50", "→", "wait p99", "→", "mean", "→", "longest", "→")]
    nothing = Waits(0, 0, 0, 0, 0)
    names = list(dict.fromkeys((*was, *would)))
    names.sort(key=lambda name: -would.get(name, nothing).tasks if word == "tenant" else 0)
    for name in names[:TENANTS_SHOWN_MAX]:
        one, other = was.get(name, nothing), would.get(name, nothing)
        cells = [
            duration_text(ns)
            for pair in (
                (one.p50_ns, other.p50_ns),
                (one.p99_ns, other.p99_ns),
                (one.mean_ns, other.mean_ns),
                (one.max_ns, other.max_ns),
            )
            for ns in pair
        ]
        rows.append((name or "(default)", f"{other.tasks:,}", *cells))
    if len(names) > TENANTS_SHOWN_MAX:
        rows.append((f"… and {counted(len(names) - TENANTS_SHOWN_MAX, 'more')}", *[""] * 9))
    return rows


def _against(was_ns: int, would_ns: int) -> str:
    change = f" ({would_ns / was_ns - 1:+.1%})" if was_ns else ""
    return f"{duration_text(would_ns)} simulated{change}"


def _bars(was: PoolFigures, would: PoolFigures) -> list[str]:
    most = max((*was.waiting, *would.waiting, 1))
    rows = (("recorded", was.waiting), ("simulated", would.waiting))
    return [
        f"{name:<10} {''.join(_bar(value, most) for value in values)} at most {max(values):,}" for name, values in rows
    ]


def _bar(value: int, most: int) -> str:
    return _BARS[-(-value * (len(_BARS) - 1) // most)] if value > 0 else _BARS[0]


def _chart(was: Sequence[int], would: Sequence[int]) -> str:
    most = max((*was, *would, 1))

    def line(name: str, values: Sequence[int]) -> str:
        points = " ".join(f"{10 * at},{100 - 96 * value / most:.1f}" for at, value in enumerate(values))
        return f'<polyline class={name} points="{points}" vector-effect="non-scaling-stroke"/>'

    width = 10 * (max(len(was), len(would)) - 1)
    lines = line("was", was) + line("is", would)
    return f'<svg viewBox="0 0 {width} 100" preserveAspectRatio=none>{lines}</svg><p>at most {most:,}</p>'


def _table(rows: Sequence[Sequence[str]]) -> str:
    head, *others = rows
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in others)
    return f"<table><tr>{''.join(f'<th>{escape(cell)}</th>' for cell in head)}</tr>{body}</table>"
