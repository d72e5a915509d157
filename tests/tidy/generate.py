"""Writes what the documents take from the code, between `<!-- name: begin ... -->` and `<!-- name: end -->`.

`python -m tests.tidy.generate` (or `make docs`) rewrites; a test fails where a document differs. A crash on the way
leaves each document as it was or as it should be: the new text is put in its place by a rename.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from functools import partial
from itertools import combinations
from typing import Any, Final

from actors.protocol import archive_errors, errors, event_errors, limits, profile_errors, query_errors, states
from actors.state_column import rule_met
from runtime.sql.run_columns import RUN_COLUMNS
from runtime.sql.task_columns import TASK_COLUMNS
from tests.tidy.tree import ROOT

HOMES: Final = {home.__name__ for home in (archive_errors, errors, event_errors, profile_errors, query_errors)}
"""Where errors are defined."""
ENDINGS: Final = [
    endings
    for count in (1, 2, 3)
    for endings in combinations((states.NodeState.SUCCEEDED, states.NodeState.SKIPPED, states.NodeState.FAILED), count)
]
"""Which endings occur among the parents of a node."""


def state_tables() -> dict[str, Mapping[Enum, Mapping[Enum, Enum]]]:
    """The transition tables by name: NODE_TABLE -> node."""
    return {
        name.removesuffix("_TABLE").lower(): table
        for name, table in vars(states).items()
        if name.endswith("_TABLE") and isinstance(table, Mapping)
    }


def drawing(table: Mapping[Enum, Mapping[Enum, Enum]]) -> str:
    """A Mermaid state diagram: the first state of the enumeration is the start, one arrow for events of one outcome."""
    lines = ["```mermaid", "stateDiagram-v2", f"    [*] --> {label(next(iter(table)))}"]
    for state, arrows in table.items():
        by_outcome: dict[Enum, list[str]] = {}
        for event, outcome in arrows.items():
            by_outcome.setdefault(outcome, []).append(label(event))
        lines += [f"    {label(state)} --> {label(to)}: {', '.join(events)}" for to, events in by_outcome.items()]
        if not arrows or state in states.TERMINAL:
            lines.append(f"    {label(state)} --> [*]")
    return "\n".join([*lines, "```"])


def label(member: Enum) -> str:
    """A member as the drawings name it."""
    return member.name.lower()


def error_classes(base: type[Any] = errors.MainspringError) -> Iterator[type[Any]]:
    """All classes of ours below this one."""
    for below in base.__subclasses__():
        if below.__module__ in HOMES:
            yield below
            yield from error_classes(below)


def error_table() -> str:
    """All errors by code: code, class, family, meaning, hint."""
    rows = ["| code | error | family | what it means | what to do |", "|---|---|---|---|---|"]
    for error in sorted(dict.fromkeys(error_classes()), key=lambda one: one.code):
        meaning = " ".join(str(error.__doc__).split()).partition(" Args:")[0]
        family = error.family + (", retryable" if getattr(error, "retryable", False) else "")
        cells = [error.code, f"`{error.__name__}`", family, meaning, error.hint]
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(rows)


def trigger_table() -> str:
    """What each rule does, by how the parents ended: asked of the function that decides it."""
    names = [str(rule) for rule in states.TriggerRule]
    rows = ["| parents ended as | " + " | ".join(f"`{name}`" for name in names) + " |", "|---" * (len(names) + 1) + "|"]
    for endings in ENDINGS:
        # Failed and cancelled make no difference to a rule, and so stand in one row.
        forms = {tuple(rule_met(rule, form) for rule in states.TriggerRule) for form in both_forms(endings)}
        if len(forms) != 1:
            raise AssertionError(f"{endings}: a rule tells failed from cancelled, the table cannot show that")
        cells = ["starts" if met else "is skipped" for met in forms.pop()]
        shown = ", ".join(
            "failed or cancelled" if state is states.NodeState.FAILED else label(state) for state in endings
        )
        rows.append(f"| {shown} | {' | '.join(cells)} |")
    return "\n".join(rows)


def bounds_table() -> str:
    """How much is held of runs, and what happens then."""
    finished = (
        f"{limits.RUNS_FINISHED_MAX:,} runs, {limits.NODES_FINISHED_MAX:,} nodes, "
        f"{limits.BYTES_FINISHED_MAX // limits.MIB:,} MiB; less with `retention=Retention(runs=..., nodes=...)`"
    )
    forgotten = (
        "the oldest are forgotten, with their results and stories, or go to the archive; never the latest one, "
        "whatever its size, and none whose end its program was not yet told"
    )
    letters = (
        f"{limits.LETTER_RUNS_MAX:,} runs, {limits.LETTER_NODES_MAX:,} nodes, "
        f"{limits.LETTER_BYTES_MAX // limits.MIB:,} MiB; each of at most {limits.LETTER_RUN_NODES_MAX:,} nodes and "
        f"{limits.LETTER_RUN_BYTES_MAX // limits.MIB:,} MiB"
    )
    full = (
        "the engine reads no submissions until runs end, what was accepted goes on: `submit` waits, `submit_nowait` "
        "raises `QueueFull` when the queue before the engine is full too"
    )
    rows = [
        ("finished runs", finished, forgotten),
        ("besides, finished runs with dead letters", letters, "the oldest of them are forgotten"),
        ("unfinished runs", f"{limits.NODES_OPEN_MAX:,} nodes, {limits.BYTES_OPEN_MAX // limits.MIB:,} MiB", full),
    ]
    return "\n".join(["| held | up to | then |", "|---|---|---|", *(f"| {' | '.join(row)} |" for row in rows)])


def columns_table() -> str:
    """The views of history in SQL, column by column."""
    rows = ["| view | column | type | what it is |", "|---|---|---|---|"]
    for view, columns in (("runs", RUN_COLUMNS), ("tasks", TASK_COLUMNS)):
        rows += [f"| `{view}` | `{column.name}` | {column.type} | {column.text} |" for column in columns]
    return "\n".join(rows)


def both_forms(endings: tuple[states.NodeState, ...]) -> list[list[int]]:
    """The endings with failed, and the same with cancelled in its place."""
    cancelled = [states.NodeState.CANCELLED if state is states.NodeState.FAILED else state for state in endings]
    return [[int(state) for state in form] for form in (endings, cancelled)]


def parts() -> dict[str, dict[str, Callable[[], str]]]:
    """Document -> name of the part -> what writes it."""
    drawings: dict[str, Callable[[], str]] = {
        f"{name} states": partial(drawing, table) for name, table in state_tables().items()
    }
    return {
        "README.md": {
            "errors": error_table,
            "trigger rules": trigger_table,
            "bounds": bounds_table,
            "views": columns_table,
        },
        "actors/ARCHITECTURE.md": drawings,
    }


def filled(text: str, name: str, content: str) -> str:
    """The document with one of its parts written anew.

    Raises:
        LookupError: The document has no such part.
    """
    pattern = re.compile(rf"(<!-- {re.escape(name)}: begin[^\n]*-->\n).*?(<!-- {re.escape(name)}: end -->)", re.DOTALL)
    new, count = pattern.subn(lambda match: f"{match[1]}{content}\n{match[2]}", text)
    if count != 1:
        raise LookupError(f"expected one part named {name!r}, found {count}")
    return new


def expected(document: str) -> str:
    """The document as it should be."""
    text = (ROOT / document).read_text(encoding="utf-8")
    for name, write in parts()[document].items():
        text = filled(text, name, write())
    return text


def main() -> None:
    """Rewrite every document."""
    for document in parts():
        path = ROOT / document
        aside = path.with_suffix(".new")
        aside.write_text(expected(document), encoding="utf-8")
        os.replace(aside, path)


if __name__ == "__main__":
    main()
