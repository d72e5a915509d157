"""The report as one self-contained HTML page: no external resource, works offline and is safe to send by mail.

What counts is in the page as text and tables and needs no script: figures, node types, critical path, failures. Scripts
add the Gantt chart, the graph and the table of nodes. A content security policy forbids the page any access to a
network. Names come from files and users and may hold anything: all text is escaped, and the data is ASCII JSON in which
`<` cannot occur (see `pages`).

The scripts and the style are files of their own beside this module, in `page/`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib import resources
from typing import Final

from actors.protocol.words import counted
from runtime.cli.pagedata import page_data
from runtime.cli.pages import fill, script_json, shown
from runtime.cli.report import Figures, GroupFigures, bound_text, counts_text, duration_text, group_word
from runtime.cli.trace import Trace

SCRIPTS: Final = ("base.js", "view.js", "gantt.js", "graph.js", "table.js", "start.js")
PATH_LISTED_MAX: Final = 200
"""Nodes of the critical path in the list; of a longer one the longest are listed, in order."""
FAILURES_LISTED_MAX: Final = 100


def html_page(trace: Trace, figures: Figures) -> bytes:
    """The page as UTF-8 bytes.

    Args:
        trace: What happened.
        figures: `analyse(trace)`.
    """
    parts = {
        "head": shown(f"{trace.title} · {trace.state}"),
        "title": shown(trace.title),
        "state": shown(trace.state),
        "subtitle": _subtitle(trace, figures),
        "tiles": _tiles(trace, figures),
        "path": _path(trace, figures),
        "word": group_word(trace).capitalize(),
        "pools": _pool_table(figures),
        "groups": _group_rows(figures.groups, figures.work_ns, dots=True),
        "failures": _failures(trace),
        "facts": _facts(trace, figures),
        "data": script_json(page_data(trace, figures)),
    }
    return fill(resources.files("runtime.cli") / "page", "page.html", SCRIPTS, parts)


def _subtitle(trace: Trace, figures: Figures) -> str:
    run = f"run {trace.run_id} · " if trace.run_id != trace.title else ""
    return shown(f"{run}{counts_text(figures.counts)}")


def _tiles(trace: Trace, figures: Figures) -> str:
    average = figures.work_ns / figures.makespan_ns if figures.makespan_ns else 0.0
    again = sum(attempts > 1 for attempts in trace.attempts)
    tiles = [
        ("Makespan", duration_text(figures.makespan_ns), f"{duration_text(trace.elapsed_ns)} as submitted"),
        ("Critical path", duration_text(figures.path_ns), f"{len(figures.path):,} of {counted(len(trace), 'node')}"),
        ("Lower bound", duration_text(figures.bound_ns), bound_text(trace, figures)),
        ("Efficiency", f"{figures.efficiency:.1%}", "lower bound / makespan"),
        ("At once", f"{average:.1f}", f"on average; {figures.peak:,} at most"),
        (
            "Attempts",
            f"{figures.attempts:,}",
            f"{counted(again, 'node')} ran more than once" if again else "each node ran once",
        ),
    ]
    meter = f'<span class="meter" aria-hidden="true"><i style="width:{figures.efficiency:.1%}"></i></span>'
    return "".join(
        f"<div><dt>{name}</dt><dd><b>{shown(value)}</b>"
        f"{meter if name == 'Efficiency' else ''}<small>{shown(note)}</small></dd></div>"
        for name, value, note in tiles
    )


def _path(trace: Trace, figures: Figures) -> str:
    """The critical path as a bar of segments and as a list."""
    rows: Sequence[int] = figures.path
    note = ""
    if len(rows) > PATH_LISTED_MAX:
        long = set(sorted(rows, key=trace.duration, reverse=True)[:PATH_LISTED_MAX])
        rows = [row for row in rows if row in long]
        note = f"<p>The {PATH_LISTED_MAX} longest of {len(figures.path):,} nodes, in order.</p>"
    order = {group.name: index for index, group in enumerate(figures.groups)}
    total = max(1, figures.path_ns)
    shares = [max(1, trace.duration(row) * 10_000 // total) for row in rows]
    bar = "".join(
        f'<i data-group="{order[trace.groups[row]]}" style="flex-grow:{share}"></i>'
        for row, share in zip(rows, shares, strict=True)
    )
    items = "".join(
        f'<li data-node="{shown(trace.ids[row])}"><span>{shown(trace.label(row))}</span>'
        f"<span>{duration_text(trace.duration(row))}</span><span>{trace.duration(row) / total:.1%}</span></li>"
        for row in rows
    )
    return f'<div class="strip" aria-hidden="true">{bar}</div>{note}<ol class="path">{items}</ol>'


def _pool_table(figures: Figures) -> str:
    """The rows of node types, above those of their tasks; none where there is one node type only."""
    if not figures.pools:
        return ""
    return f"<tbody>{_group_rows(figures.pools, figures.work_ns)}</tbody>"


def _group_rows(groups: Sequence[GroupFigures], work_ns: int, *, dots: bool = False) -> str:
    rows = []
    for index, group in enumerate(groups):
        total, *times = group.times()
        cells = [
            f"{group.nodes:,}",
            f"{group.failed:,}",
            f"{group.attempts:,}",
            total,
            f"{group.work_ns / work_ns:.1%}" if work_ns else "–",
            *times,
        ]
        dot = f'<i class="dot" data-group="{index}"></i>' if dots else "node type "
        name = f'<th scope="row" title="{shown(group.name)}">{dot}{shown(group.name)}</th>'
        rows.append(f"<tr>{name}{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>")
    return "".join(rows)


def _failures(trace: Trace) -> str:
    failed = [row for row, state in enumerate(trace.states) if state == "failed"]
    if not failed:
        return ""
    items = "".join(
        f"<li><b>{shown(trace.label(row))}</b> <small>attempts: {trace.attempts[row]}</small>"
        f"<pre>{shown(trace.errors.get(row, 'no message'))}</pre></li>"
        for row in failed[:FAILURES_LISTED_MAX]
    )
    more = f"<p>… and {len(failed) - FAILURES_LISTED_MAX:,} more.</p>" if len(failed) > FAILURES_LISTED_MAX else ""
    return (
        f'<section class="card bad"><h2>Failed nodes</h2><ul class="failures" tabindex="0">{items}</ul>{more}</section>'
    )


def _facts(trace: Trace, figures: Figures) -> str:
    pairs: Iterable[tuple[str, str]] = [
        ("Run", trace.run_id),
        ("Workers", f"{trace.workers}: {trace.mode}" if trace.mode else str(trace.workers)),
        ("Slots", f"{counted(trace.slots, 'task')} at once"),
        ("Total work", duration_text(figures.work_ns)),
        ("Durability", trace.durability),
        *((name.capitalize(), text) for name, text in trace.facts),
    ]
    return "".join(f"<div><dt>{shown(name)}</dt><dd>{shown(text)}</dd></div>" for name, text in pairs)
