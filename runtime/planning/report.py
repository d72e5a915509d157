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
    was recorded; None where nothing was recorded to compare with. `base` are the figures of that simulation: what they
    differ from `recorded` by is the model's error, and only what differs from them comes of the change."""

    folder: str
    changes: Sequence[str]
    recorded: HistoryFigures
    simulated: HistoryFigures
    fit: float | None
    unknown: Sequence[str]
    base: HistoryFigures | None = None

    def to_json(self) -> dict[str, Any]:
        """As plain JSON data."""
        return {
            "changes": list(self.changes),
            "fit": self.fit,
            "recorded": to_json(self.recorded),
            "unchanged": to_json(self.base or self.simulated),
            "simulated": to_json(self.simulated),
            "unknown": list(self.unknown),
        }


def text_lines(report: PlanReport) -> list[str]:
    """The report as lines of plain text."""
    was, would = report.recorded, report.simulated
    more = would.tasks - was.tasks
    ended = f"; {more:,} of them had not ended in the log, and are simulated to their end" if more > 0 else ""
    lines = [
        f"state folder   {report.folder}",
        f"changed        {'; '.join(report.changes) or 'nothing'}",
        f"tasks          {was.tasks:,} recorded, {would.tasks:,} simulated{ended}",
        f"makespan       {duration_text(was.makespan_ns)} recorded, {_against(was.makespan_ns, would.makespan_ns)}",
    ]
    if report.fit is not None:
        lines.append(
            f"model          with nothing changed it takes {report.fit:.1%} of what was recorded{_still(more)}"
        )
    if report.base is not None:
        change = _against(report.base.makespan_ns, would.makespan_ns)
        lines.append(f"effect         {duration_text(report.base.makespan_ns)} with nothing changed, {change}")
        lines.append(
            "               in the tables: recorded, simulated with nothing changed (model), with the change (→)"
        )
    lines += ["", *align(_pool_rows(report), left=1)]
    lines += ["", *align(_wait_rows("class", *(each.classes for each in _all(report))), left=1)]
    if len({*was.tenants, *would.tenants}) > 1:
        lines += ["", *align(_wait_rows("tenant", *(each.tenants for each in _all(report))), left=1)]
    for before, after in _pairs(was, would):
        lines += ["", f"{after.name}: tasks that wait, over the makespan", *_bars(before, after)]
    if report.unknown:
        lines += ["", "not known:", *(f"- {line}" for line in report.unknown)]
    return lines


def page(report: PlanReport) -> bytes:
    """The report as one HTML page."""
    was, would = report.recorded, report.simulated
    head = [f"<li>{escape(line)}</li>" for line in _head(text_lines(report))]
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8>",
        "<meta http-equiv=Content-Security-Policy content=\"default-src 'none'; style-src 'unsafe-inline'\">",
        f"<title>Simulation</title><style>{_STYLE}</style><h1>Simulation</h1><ul>{''.join(head)}</ul>",
        "<h2>Node types</h2>",
        _table(_pool_rows(report)),
        "<h2>Waits</h2>",
        _table(_wait_rows("class", *(each.classes for each in _all(report)))),
        _table(_wait_rows("tenant", *(each.tenants for each in _all(report)))),
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


def _head(lines: Sequence[str]) -> Sequence[str]:
    """The lines before the first table."""
    return lines[: lines.index("")]


def _still(more: int) -> str:
    return ", which lacks what had not ended" if more > 0 else ""


def _all(report: PlanReport) -> list[HistoryFigures]:
    """What the tables have beside each other."""
    return [report.recorded, *(() if report.base is None else (report.base,)), report.simulated]


def _header(first: Sequence[str], names: Sequence[str], count: int) -> tuple[str, ...]:
    """A column for each history, of each of these names."""
    marks = ("→",) if count == 2 else ("model", "→")
    return (*first, *(cell for name in names for cell in (name, *marks)))


def _slots(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.4g}"


def _pool_rows(report: PlanReport) -> list[tuple[str, ...]]:
    histories = _all(report)
    rows = [_header(("node type", "tasks"), ("slots", "utilisation", "wait p50", "wait p99"), len(histories))]
    for was, would in _pairs(report.recorded, report.simulated):
        between = () if report.base is None else [pool for pool in report.base.pools if pool.name == would.name]
        pools = (was, *between, would)
        rows.append(
            (
                would.name,
                f"{would.tasks:,}",
                *(_slots(pool.slots) for pool in pools),
                *(f"{pool.utilisation:.1%}" for pool in pools),
                *(duration_text(pool.waits.p50_ns) for pool in pools),
                *(duration_text(pool.waits.p99_ns) for pool in pools),
            )
        )
    return rows


def _wait_rows(word: str, *histories: dict[str, Waits]) -> list[tuple[str, ...]]:
    rows = [_header((word, "tasks"), ("wait p50", "wait p99", "mean", "longest"), len(histories))]
    nothing, would = Waits(0, 0, 0, 0, 0), histories[-1]
    names = list(dict.fromkeys(name for each in histories for name in each))
    names.sort(key=lambda name: -would.get(name, nothing).tasks if word == "tenant" else 0)
    for name in names[:TENANTS_SHOWN_MAX]:
        found = [each.get(name, nothing) for each in histories]
        columns = ("p50_ns", "p99_ns", "mean_ns", "max_ns")
        cells = [duration_text(getattr(waits, column)) for column in columns for waits in found]
        rows.append((name or "(default)", f"{found[-1].tasks:,}", *cells))
    if len(names) > TENANTS_SHOWN_MAX:
        rows.append((f"… and {counted(len(names) - TENANTS_SHOWN_MAX, 'more')}", *[""] * (len(rows[0]) - 1)))
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
