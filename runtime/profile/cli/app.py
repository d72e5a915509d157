"""Commands, their options, and the one place where errors become messages and exit codes.

| code | meaning |
|---|---|
| 0 | success; of `leaks`: clean |
| 1 | of `diff --fail`: something changed |
| 2 | wrong usage: an option, a file |
| 3 | `leaks` found something suspect |
| 4 | `leaks` found a leak |
| 5 | the environment: nobody has the folder open, a file cannot be written |
| 70 | a bug of ours |
| 130 | interrupted with Ctrl-C; what there was by then is shown and written |
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from enum import IntEnum
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from actors.protocol.errors import MainspringError
from runtime.cli.console import Console, carried_out
from runtime.cli.exits import bug_lines, error_lines
from runtime.profile.cli.watching import above_0, add_watch_options

NAME: Final = "python -m runtime.profile"
EXIT_CODES: Final = (
    "exit codes: 0 success, or clean; 1 diff --fail: something changed; 2 wrong usage; 3 suspect; 4 leak; "
    "5 environment; 70 a bug of ours; 130 interrupted"
)
STATE: Final = "state folder that a running program has open; may be left out where there is one only"
FORMATS: Final = (
    "json, folded, pprof, speedscope, html, perfetto (Chrome's trace format, which ui.perfetto.dev opens; also: "
    "chrome); else by the name of the file"
)
GRADES: Final = ("leak", "suspect", "info", "never")


class ProfileExit(IntEnum):
    """Exit codes of this command line."""

    OK = 0
    CHANGED = 1
    USAGE = 2
    SUSPECT = 3
    LEAK = 4
    ENVIRONMENT = 5
    BUG = 70
    INTERRUPTED = 130


_BY_FAMILY: Final = {"caller": ProfileExit.USAGE, "environment": ProfileExit.ENVIRONMENT}
Command = Callable[[argparse.Namespace, Console], int]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        argv: Arguments without the program's name; those of this process by default.

    Returns:
        The exit code.
    """
    words = sys.argv[1:] if argv is None else argv
    return carried_out(
        NAME,
        lambda console: _run(words, console),
        interrupted=ProfileExit.INTERRUPTED,
        environment=ProfileExit.ENVIRONMENT,
    )


def _run(argv: Sequence[str], console: Console) -> int:
    if not argv:
        console.note(parser().format_help())
        return ProfileExit.USAGE
    try:
        arguments = parser().parse_args(argv)
    except SystemExit as left:  # argparse printed help or what is wrong
        return left.code if isinstance(left.code, int) else ProfileExit.USAGE
    module, _, function = arguments.command.partition(":")
    try:
        command: Command = getattr(import_module(f"runtime.profile.cli.{module}"), function)
        return command(arguments, console)
    except MainspringError as error:
        console.note(error_lines(error, NAME))
        return _BY_FAMILY.get(error.family, ProfileExit.BUG)
    except Exception as error:
        console.note(bug_lines(error))
        return ProfileExit.BUG


def parser() -> argparse.ArgumentParser:
    """The options of all commands."""
    top = argparse.ArgumentParser(
        prog=NAME, description="Look inside: what every process holds, waits for and computes.", epilog=EXIT_CODES
    )
    commands = top.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_looks(commands)
    _add_recorded(commands)
    _add_leaks(commands)
    _add_files(commands)
    _add_outside(commands)
    return top


def _command(commands: Any, name: str, command: str, text: str, *, state: bool = True) -> argparse.ArgumentParser:
    options: argparse.ArgumentParser = commands.add_parser(
        name, help=text, description=f"{text[0].upper()}{text[1:]}.", epilog=EXIT_CODES
    )
    options.set_defaults(command=command)
    if state:
        options.add_argument("state", type=Path, nargs="?", metavar="STATE", help=STATE)
    return options


def _add_looks(commands: Any) -> None:
    options = _command(commands, "ps", "stacks:show_merged", "all processes, and equal stacks of all of them as one")
    options.add_argument("-n", "--limit", type=_count, default=50, metavar="N", help="stacks that are shown (50)")
    options.add_argument("--kind", metavar="KIND", help="things of this kind instead of stacks; a wrong one names all")
    _add_pids(options)
    options.add_argument("--json", action="store_true", help="one JSON object instead of text")
    options = _command(commands, "tree", "tree:show_tree", "who waits for whom, over all processes; cycles are marked")
    options.add_argument("--all", action="store_true", help="each of many equal ones, not their number")
    options.add_argument("--json", action="store_true", help="one JSON object instead of text")
    options = _command(commands, "dump", "stacks:show_dump", "every thread and task of every process, one by one")
    _add_pids(options)
    _add_output(options)
    options.add_argument("--json", action="store_true", help="one JSON object instead of text")
    options = _command(commands, "top", "top:show_top", "processes as they are now, again and again until Ctrl-C")
    options.description = (
        "Processes as they are now, again and again until Ctrl-C. In percent of one core: what each computes, what its "
        "threads want (ready, but without a core), and what the profiler costs. Columns that do not fit are left out."
    )
    options.add_argument("-d", "--delay", type=_seconds, default=2.0, metavar="SECONDS", help="between looks (2)")
    options.add_argument("-n", "--looks", type=_count, metavar="N", help="end after so many looks")
    options.add_argument("--json", action="store_true", help="one JSON object a look instead of a table")


def _add_recorded(commands: Any) -> None:
    for name, text, hz in (
        ("cpu", "where CPU time goes, of all processes", 99.0),
        ("await", "what suspended tasks wait for, weighed by time", 5.0),
    ):
        options = _command(commands, name, f"recorded:record_{name}", text)
        options.add_argument("-d", "--duration", type=_seconds, default=10.0, metavar="SECONDS", help="how long (10)")
        options.add_argument("--hz", type=_seconds, default=hz, metavar="HZ", help=f"samples a second ({hz:g})")
        _add_pids(options)
        _add_output(options)
        _add_by(options)
    options = _command(commands, "flight", "recorded:show_flight", "the last minute of CPU time, recorded anyway")
    options.add_argument("-d", "--duration", type=_seconds, default=60.0, metavar="SECONDS", help="how far back (60)")
    _add_pids(options)
    _add_output(options)
    _add_by(options)


def _add_leaks(commands: Any) -> None:
    options = _command(commands, "leaks", "leaking:show_leaks", "what is held though nothing can finish or release it")
    options.add_argument("-d", "--duration", type=_seconds, metavar="SECONDS", help="how long growth is looked at (5)")
    options.add_argument("--prove", action="store_true", help="also prove it, in a fork of each process")
    _add_pids(options)
    options.add_argument("--all", action="store_true", help="also what is only to be watched")
    options.add_argument("--json", action="store_true", help="one JSON object instead of text")
    options.add_argument("-o", "--output", type=Path, metavar="FILE.html", help="also a page, or JSON (FILE.json)")
    options.add_argument(
        "--fail-on", choices=GRADES, default="suspect", help="the least grade that ends in code 3 or 4 (suspect)"
    )
    options = _command(commands, "watch", "leaking:show_watch", "bounds and objectives; saves a bundle on a breach")
    options.add_argument("-d", "--duration", type=_seconds, metavar="SECONDS", help="end after so long; else Ctrl-C")
    options.add_argument("--json", action="store_true", help="one JSON object a breach instead of text")
    add_watch_options(options)


def _add_files(commands: Any) -> None:
    options = _command(commands, "convert", "files:convert_file", "turn a profile into another format", state=False)
    options.add_argument("source", type=Path, metavar="FILE", help="json, folded, pprof or speedscope")
    options.add_argument("target", type=Path, metavar="TARGET", help="the file that is written")
    options.add_argument("-f", "--format", default="", metavar="FORMAT", help=FORMATS)
    _add_by(options)
    options = _command(commands, "diff", "files:show_diff", "what changed between two profiles", state=False)
    options.add_argument("before", type=Path, metavar="BEFORE", help="what was: json, folded, pprof or speedscope")
    options.add_argument("after", type=Path, metavar="AFTER", help="what is, of the same kind")
    options.add_argument("--unit", choices=("stack", "function", "line"), default="function", help="what a row is")
    options.add_argument("--report", type=Path, metavar="FILE.html", help="also a flame graph of both")
    options.add_argument("--fail", action="store_true", help="end with code 1 when something changed")
    options.add_argument("-n", "--limit", type=_count, default=40, metavar="N", help="rows that are shown (40)")
    _add_by(options)


def _add_outside(commands: Any) -> None:
    options = _command(commands, "py-spy", "spying:run_py_spy", "the real py-spy on all processes, with flags that fit")
    options.add_argument("-d", "--duration", type=_seconds, default=10.0, metavar="SECONDS", help="how long (10)")
    options.add_argument("--hz", type=_seconds, default=100.0, metavar="HZ", help="samples a second (100)")
    options.add_argument("--idle", action="store_true", help="keep threads that only wait")
    _add_output(options)
    _add_by(options)
    options = _command(commands, "doctor", "doctor:show_doctor", "what this machine permits, and what looking costs")
    options.add_argument("--json", action="store_true", help="one JSON object instead of text")
    options = _command(commands, "serve", "serving:serve", "Go's URLs over HTTP, until Ctrl-C")
    options.add_argument("--listen", default="127.0.0.1:0", metavar="ADDRESS", help="loopback, or unix:/path")
    options.add_argument("--token", metavar="TOKEN", help="what callers must know; else a new one is made and shown")


def _add_pids(options: argparse.ArgumentParser) -> None:
    options.add_argument("--pid", type=_count, action="append", metavar="PID", help="only this process; repeatable")


def _add_output(options: argparse.ArgumentParser) -> None:
    options.add_argument("-o", "--output", type=Path, metavar="FILE", help="the file; else a name is made")
    options.add_argument("-f", "--format", default="", metavar="FORMAT", help=FORMATS)


def _add_by(options: argparse.ArgumentParser) -> None:
    options.add_argument("--by", default="", metavar="NAMES", help="labels to group by, such as node_type,tenant")


def _seconds(text: str) -> float:
    return above_0(text, 1e6)


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return int(text)
