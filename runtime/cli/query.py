"""`query`: a state folder asked in SQL. Reads only, beside an engine or without.

It shows what is written; beside a running engine that may be a moment ahead of what is durable.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any, Final

from actors.protocol.errors import ConfigurationError
from actors.protocol.moments import precise_moment
from actors.protocol.words import counted
from runtime.cli.console import Console
from runtime.cli.exits import Exit
from runtime.cli.report import align
from runtime.sql.folder import FolderQueries, SqlQuery
from runtime.sql.rows import QueryRows
from runtime.sql.run_columns import RUN_COLUMNS
from runtime.sql.task_columns import TASK_COLUMNS

CELL_CHARS_MAX: Final = 80
"""Of a cell in a table; JSON and CSV have all of it."""


def show_query(arguments: argparse.Namespace, console: Console) -> Exit:
    """Ask and print; without a statement, the columns of the views.

    Args:
        arguments: `state`, `sql`, `param`, `at`, `timeout`, `rows`, `json`, `csv`.
        console: Where to print.

    Raises:
        ConfigurationError: The statement cannot be read.
    """
    if arguments.sql is None:
        console.say(_columns_json() if arguments.json else _columns_csv() if arguments.csv else columns_text())
        return Exit.OK
    sql = _standard_input() if arguments.sql == "-" else arguments.sql
    asked = SqlQuery(sql, arguments.param, arguments.at, arguments.timeout, arguments.rows)
    found = FolderQueries(arguments.state).answer(asked)
    if arguments.json:
        console.say(json_text(found))
    elif arguments.csv:
        console.say(csv_text(found))
    else:
        console.say(table(found))
        moment = f", {precise_moment(found.at_ns)}" if found.at_ns else ""
        console.note(f"{counted(len(found), 'row')} as of LSN {found.lsn:,}{moment}")
    return Exit.OK


def columns_text() -> list[str]:
    """What the views have."""
    rows = _columns()
    return align(rows, left=len(rows[0]))


def _columns() -> list[tuple[str, ...]]:
    """A header, and a row for each column of each view."""
    views = (("runs", RUN_COLUMNS), ("tasks", TASK_COLUMNS))
    rows = [(view, column.name, column.type, column.text) for view, columns in views for column in columns]
    return [("view", "column", "type", "meaning"), *rows]


def _columns_json() -> str:
    header, *rows = _columns()
    return json.dumps({"columns": [dict(zip(header, row, strict=True)) for row in rows]}, indent=2)


def _columns_csv() -> str:
    return _csv(_columns())


def json_text(found: QueryRows) -> str:
    """The answer as one JSON object. Bytes are hexadecimal."""
    rows = [dict(zip(found.columns, map(_plain, row), strict=True)) for row in found]
    return json.dumps({"lsn": found.lsn, "at_ns": found.at_ns, "columns": list(found.columns), "rows": rows}, indent=2)


def csv_text(found: QueryRows) -> str:
    """The answer as CSV with a header: a NULL is an empty field, bytes are hexadecimal."""
    return _csv([found.columns, *(tuple(map(_plain, row)) for row in found)])


def _csv(rows: Iterable[Sequence[Any]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().removesuffix("\n")


def table(found: QueryRows) -> list[str]:
    """The answer as lines: numbers to the right."""
    rows = [[_cell(value) for value in row] for row in found]
    numbers = [_is_numeric(row[place] for row in found) for place in range(len(found.columns))]
    widths = [max(map(len, column)) for column in zip(found.columns, *rows, strict=True)]
    lines = []
    for cells in (found.columns, *rows):
        padded = (
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(cells, widths, numbers, strict=True)
        )
        lines.append("  ".join(padded).rstrip())
    return lines


def _standard_input() -> str:
    if sys.stdin is None:
        raise ConfigurationError("query: there is no standard input to read the statement from")
    return sys.stdin.read()


def _is_numeric(values: Iterable[Any]) -> bool:
    """Whether a column is one of numbers."""
    there = [value for value in values if value is not None]
    return bool(there) and all(isinstance(value, int | float) for value in there)


def _plain(value: Any) -> Any:
    return value.hex() if isinstance(value, bytes) else value


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    text = str(_plain(value)).rstrip("\n").replace("\n", "↵")
    return text if len(text) <= CELL_CHARS_MAX else f"{text[: CELL_CHARS_MAX - 1]}…"
