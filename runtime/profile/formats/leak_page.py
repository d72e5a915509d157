"""Findings of leaks as one self-contained page: a table that can be read without scripts, and filtered with them.

Like the flame graph it asks for nothing outside itself, and all text in it is escaped. A finding is whatever has the
attributes of `leak_check.grading.Finding`, or a mapping with their names; those that it lacks are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from typing import Any, Final

from actors.protocol.words import counted
from runtime.cli.pages import fill, shown
from runtime.cli.report import duration_text
from runtime.profile.formats.figures import moment_text
from runtime.profile.model import Frame, Process

GRADES: Final = ("leak", "suspect", "info")
"""The worst first; the names that `Finding.grade` has, in any case."""
LISTED_MAX: Final = 5_000
EXEMPLARS_MAX: Final = 3
FIELDS: Final = (
    ("wait", "Waits at"),
    ("site", "Created at"),
    ("proof", "Why"),
    ("suggestion", "What to do"),
    ("process", "Process"),
    ("build", "Build"),
    ("signature", "Signature"),
)
"""What is shown when a row is opened."""


def page(findings: Iterable[Any], *, notes: Sequence[str] = (), made_ns: int = 0, title: str = "Leaks") -> bytes:
    """The page, UTF-8.

    Args:
        findings: As `runtime.profile.leak_check.grading` makes them, or mappings with the same names.
        notes: What could not be seen.
        made_ns: When they were found, on the wall clock.
        title: Above it.
    """
    rows = sorted((_facts(one) for one in findings), key=_order)
    left_out = len(rows) - LISTED_MAX
    if left_out > 0:
        notes = [*notes, f"{left_out:,} findings that weigh less are not listed"]
    counts = {grade: sum(_grade(row) == grade for row in rows) for grade in GRADES}
    parts = {
        "title": shown(title),
        "subtitle": shown(_subtitle(counts, made_ns)),
        "notes": "".join(f"<li>{shown(note)}</li>" for note in notes),
        "notes_hidden": "" if notes else " hidden",
        "rows": "".join(map(_row, rows[:LISTED_MAX])),
        "none_hidden": " hidden" if rows else "",
        "table_hidden": "" if rows else " hidden",
    }
    return fill(resources.files("runtime.profile.formats") / "pages", "leaks.html", ("leaks.js",), parts)


def _facts(finding: Any) -> Mapping[str, Any]:
    if isinstance(finding, Mapping):
        return finding
    names = (
        *("grade", "kind", "count", "slope_per_min", "oldest_s", "signature", "site", "wait", "labels", "owner"),
        *("proof", "exemplars", "suggestion", "proved", "tenants", "first_seen_ns", "build", "process"),
    )
    return {name: getattr(finding, name) for name in names if hasattr(finding, name)}


def _grade(row: Mapping[str, Any]) -> str:
    grade = row.get("grade", "")
    return str(getattr(grade, "name", grade)).lower()


def _order(row: Mapping[str, Any]) -> tuple[int, float, str]:
    grade = _grade(row)
    return GRADES.index(grade) if grade in GRADES else len(GRADES), -float(row.get("count") or 0), str(row.get("kind"))


def _subtitle(counts: Mapping[str, int], made_ns: int) -> str:
    parts = [
        counted(counts["leak"], "leak"),
        counted(counts["suspect"], "suspect"),
        f"{counts['info']:,} to be watched",
    ]
    if made_ns:
        parts.append(moment_text(made_ns))
    return " · ".join(parts)


def text_of(value: Any) -> str:
    """A fact as text: frames as places, one a line, processes by their title, the rest as it is."""
    if value is None:
        return ""
    if isinstance(value, Frame):
        return f"{value.name} ({value.file}:{value.line})" if value.file else value.name
    if isinstance(value, Process):
        return f"{value.title}, pid {value.pid}"
    if isinstance(value, list | tuple | set | frozenset):
        return "\n".join(filter(None, map(text_of, value)))
    return str(value)


def _row(row: Mapping[str, Any]) -> str:
    grade = _grade(row)
    pairs = row.get("labels") or ()
    labels = dict(pairs)
    # Root first: the last one is the line.
    site = text_of(row.get("site")).rpartition("\n")[2] or text_of(row.get("wait")).rpartition("\n")[2] or "unknown"
    slope = row.get("slope_per_min")
    oldest = row.get("oldest_s")
    names = dict(FIELDS) | ({"proof": "Proof"} if row.get("proved") else {})
    more = [(name, text_of(row.get(key))) for key, name in names.items()]
    more.append(("Labels", "\n".join(f"{name}: {text}" for name, text in labels.items())))
    more.append(("Tenants", "\n".join(f"{name or 'none'}: {count:,}" for name, count in row.get("tenants") or ())))
    if first_ns := row.get("first_seen_ns"):
        more.append(("Oldest from", moment_text(first_ns)))
    exemplars = list(row.get("exemplars") or ())
    more.append(("For example", text_of(exemplars[:EXEMPLARS_MAX])))
    facts = "".join(f"<dt>{name}</dt><dd>{shown(text)}</dd>" for name, text in more if text)
    cells = [
        f'<td data-key="{float(row.get("count") or 0):g}">{int(row.get("count") or 0):,}</td>',
        f'<td data-key="{float(slope or 0):g}">{"–" if slope is None else f"{slope:+.1f}/min"}</td>',
        f'<td data-key="{float(oldest or 0):g}">{"–" if not oldest else duration_text(round(oldest * 1e9))}</td>',
        f"<td>{shown(labels.get('node_type', ''))}</td>",
        f"<td>{shown(labels.get('workflow', ''))}</td>",
        f"<td>{shown(text_of(row.get('owner')))}</td>",
    ]
    return (
        f'<tr data-grade="{shown(grade)}" data-kind="{shown(text_of(row.get("kind")))}">'
        f'<td><span class="badge" data-grade="{shown(grade)}">{shown(grade.upper())}</span></td>'
        f"<td>{shown(text_of(row.get('kind')))}</td>"
        f'<th scope="row"><details><summary>{shown(site)}</summary><dl>{facts}</dl></details></th>{"".join(cells)}</tr>'
    )
