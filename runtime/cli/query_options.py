"""The options of `query`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runtime.cli.history_options import moment
from runtime.cli.operations_options import positive_count
from runtime.sql.budget import ROWS_MAX, TIMEOUT_S

if TYPE_CHECKING:
    from runtime.cli.console import Console
    from runtime.cli.exits import Exit


def add_query(commands: Any) -> None:
    """Add the command.

    Args:
        commands: The sub-parsers of the program.
    """
    text = "ask in SQL what is and was: views of runs and of tasks, on one consistent state"
    options = commands.add_parser("query", help=text, description=f"{text[0].upper()}{text[1:]}. Changes nothing.")
    options.add_argument("state", type=Path, metavar="STATE", help="state folder, with or without a running engine")
    options.add_argument(
        "sql", nargs="?", metavar="SQL", help="one SELECT over runs and tasks; - reads it; without: their columns"
    )
    options.add_argument("param", nargs="*", metavar="PARAM", help="what each ? stands for, as text")
    options.add_argument(
        "--at", type=moment, metavar="MOMENT", help="as of an LSN, an age such as 2h, a time (UTC), begin or now"
    )
    options.add_argument(
        "--timeout", type=_seconds, default=TIMEOUT_S, metavar="S", help="seconds (default %(default)g)"
    )
    options.add_argument(
        "--rows", type=positive_count, default=ROWS_MAX, metavar="N", help="rows at most (default %(default)s)"
    )
    form = options.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    form.add_argument("--csv", action="store_true", help="CSV with a header instead of a table")
    options.set_defaults(command=_query)


def _seconds(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds") from None


def _query(arguments: argparse.Namespace, console: Console) -> Exit:
    from runtime.cli.query import show_query  # lazy: each command loads what it needs

    return show_query(arguments, console)
