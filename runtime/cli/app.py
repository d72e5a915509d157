"""Commands, their options, and the one place where errors become messages and exit codes.

No traceback of ours reaches a user: what is expected is one or two lines with code and hint, what is not goes to a file
that a report can carry. Ctrl-C ends a command in order, with nothing left behind (130).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from actors.protocol import limits
from actors.protocol.errors import MainspringError
from runtime.cli.bridge_options import add_bridge
from runtime.cli.console import Console, carried_out
from runtime.cli.exits import NAME, Exit, bug_lines, error_lines, exit_code
from runtime.cli.history_options import add_history
from runtime.cli.intermixed import IntermixedParser
from runtime.cli.operations_options import add_event_filter, add_operations, add_who, not_negative
from runtime.cli.query_options import add_query
from runtime.cli.simulate_options import add_simulate

Command = Callable[[argparse.Namespace, Console], Exit]

EXIT_CODES: Final = (
    "exit codes: 0 success; 1 the run did not succeed, or drain ran out of time; 2 wrong usage, file or workflow; "
    "3 environment (state folder, disk, damaged log); 70 a bug of ours; 130 interrupted"
)

NUMBERS: Final = frozenset({"burst", "least", "limit", "most", "per_second", "weight"})
"""Arguments of the commands that change who runs next which are numbers, or none."""
NEEDS_ENGINE: Final = (
    "In force, and durable, when the command ends; it holds when the folder is opened again. Needs a running engine."
)

KEPT: Final = (
    f"A folder keeps the latest finished runs: up to {limits.RUNS_FINISHED_MAX:,} runs, {limits.NODES_FINISHED_MAX:,} "
    f"nodes and {limits.BYTES_FINISHED_MAX // limits.MIB:,} MiB of arguments and results. Unfinished runs stay until "
    "they have ended."
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        argv: Arguments without the program's name; those of this process by default.

    Returns:
        The exit code.
    """
    words = sys.argv[1:] if argv is None else argv
    return carried_out(
        NAME, lambda console: _run(words, console), interrupted=Exit.INTERRUPTED, environment=Exit.ENVIRONMENT
    )


def _run(argv: Sequence[str], console: Console) -> int:
    try:
        arguments = parser().parse_args(argv)
    except SystemExit as left:  # argparse printed help or what is wrong
        return left.code if isinstance(left.code, int) else Exit.USAGE
    try:
        command: Command = arguments.command
        return command(arguments, console)
    except MainspringError as error:
        console.note(error_lines(error))
        return exit_code(error)
    except Exception as error:
        console.note(bug_lines(error))
        return Exit.BUG


TOP_EPILOG: Final = f"to look inside a running program: python -m runtime.profile --help. {EXIT_CODES}"


def parser() -> argparse.ArgumentParser:
    """The options of all commands."""
    top = argparse.ArgumentParser(
        prog=NAME, description="A durable workflow engine inside your Python program.", epilog=TOP_EPILOG
    )
    top.add_argument("--version", action=_ShowVersion, nargs=0, help="show the version and exit")
    commands = top.add_subparsers(title="commands", metavar="COMMAND", required=True, parser_class=IntermixedParser)
    _add_run(commands.add_parser("run", help="run a Python file that defines a flow, or a WfFormat 1.5 JSON file"))
    for name, command, text in (
        ("status", _status, "what runs, what waits, and who owns the state folder"),
        ("schedules", _schedules, "what runs again and again, when next, and how it went"),
        ("verify", _verify, "check every record of a state folder, and that what it refers to is there"),
    ):
        options = commands.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}. Changes nothing.")
        options.add_argument("state", type=Path, metavar="STATE", help="state folder, with or without a running engine")
        options.add_argument("--json", action="store_true", help="one JSON object instead of text")
        if command is _verify:
            options.add_argument("--salvage", type=Path, metavar="NEW", help="write what can be kept into a new folder")
        options.epilog = KEPT
        options.set_defaults(command=command)
    _add_transfer(commands)
    _add_reshard(commands)
    _add_events(commands)
    add_bridge(commands)
    _add_control(commands)
    add_operations(commands)
    add_history(commands)
    add_query(commands)
    add_simulate(commands)
    return top


def _add_transfer(commands: Any) -> None:
    options = commands.add_parser("export", help="write runs as JSON Lines", description="Write runs as JSON Lines.")
    options.add_argument("state", type=Path, metavar="STATE", help="state folder, with or without a running engine")
    options.add_argument("--run", action="append", default=[], metavar="ID", help="this run only; may be repeated")
    options.add_argument("--output", type=Path, metavar="FILE", help="the file; else standard output")
    options.add_argument("--archived", action="store_true", help="also runs that are in the archive only")
    options.set_defaults(command=_export)
    options = commands.add_parser("import", help="enter the runs of an export", description="Enter exported runs.")
    options.add_argument("state", type=Path, metavar="STATE", help="state folder, new or there, without an engine")
    options.add_argument("--input", type=Path, metavar="FILE", help="the export; else standard input")
    options.epilog = "All runs of the file are entered, or none. Unfinished ones go on when the folder is opened."
    options.set_defaults(command=_import)


def _add_reshard(commands: Any) -> None:
    text = "move the log into another number of shards"
    options = commands.add_parser("reshard", help=text, description=f"{text[0].upper()}{text[1:]}.")
    options.add_argument("state", type=Path, metavar="STATE", help="state folder that nobody has open")
    options.add_argument("shards", type=int, metavar="N", help=f"1 to {limits.LOG_SHARDS_MAX}; 1: a log in one piece")
    options.add_argument("--json", action="store_true", help="one JSON object instead of text")
    options.epilog = (
        "Whenever it is killed, the folder has the old log or the new one; the same command again tidies up."
    )
    options.set_defaults(command=_reshard)


def _add_events(commands: Any) -> None:
    text = "what happened: every transition of runs and nodes, as far as the log is kept"
    options = commands.add_parser("events", help=text, description=f"{text[0].upper()}{text[1:]}. Changes nothing.")
    options.add_argument("state", type=Path, metavar="STATE", help="state folder, with or without a running engine")
    options.add_argument("--follow", action="store_true", help="go on with what happens, until Ctrl-C")
    options.add_argument("--since", metavar="WHERE", help="LSN, age (2h), time (ISO 8601, UTC), begin or now")
    add_event_filter(options)
    options.add_argument("--limit", type=_count_of_events, metavar="N", help="end after so many events")
    options.add_argument("--json", action="store_true", help="one JSON object per line instead of text")
    options.set_defaults(command=_events)


def _count_of_events(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return int(text)


def _add_control(commands: Any) -> None:
    """The commands that change who runs next in a running engine."""
    scope = "tenant:acme, key:printer (a concurrency key), type:cpu (a node type), class:low"
    more = "rate:api (a rate key), schedule:nightly"
    for name, command, text, arguments in (
        ("pause", _pause, "start nothing more of some scopes", (("scope", f"{scope}, {more}"),)),
        ("resume", _resume, "end pauses", (("scope", "as it was paused"),)),
        ("quota", _quota, "set how many tasks of a scope run at once", (("scope", scope), ("limit", "or none"))),
        ("weight", _weight, "set how many turns a tenant gets", (("tenant", "its name"), ("weight", "or none, for 1"))),
        (
            "rate",
            _rate,
            "set how often tasks of a rate key start",
            (("key", "the rate key"), ("per_second", "or none"), ("burst", "how many at once after a pause")),
        ),
        (
            "share",
            _share,
            "set what a priority class has of the slots",
            (
                ("class_", "of realtime, high, normal, low"),
                ("least", "part kept for it, or none"),
                ("most", "its bound"),
            ),
        ),
        ("unschedule", _unschedule, "end a schedule; its runs go on", (("name", "its name"),)),
    ):
        options = commands.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}. {NEEDS_ENGINE}")
        options.add_argument("state", type=Path, metavar="STATE", help="state folder that a running program has open")
        for argument, meaning in arguments:
            several = "+" if command in (_pause, _resume) else None
            several = "?" if argument in ("burst", "most") else several
            kind = _number if argument in NUMBERS else str
            name = argument.strip("_").upper()
            options.add_argument(argument, metavar=name, help=meaning, type=kind, nargs=several, default=1)
        if command is _pause:
            add_who(options)
        options.add_argument("--json", action="store_true", help="one JSON object instead of text")
        options.set_defaults(command=command)


def _add_run(options: argparse.ArgumentParser) -> None:
    options.description = (
        "Run a Python file that defines `flow` (a Flow) or `build()` returning one, with `tasks` and `node_types` if "
        "it needs them; or replay a WfFormat 1.5 JSON file: each task takes its recorded runtime, after its parents."
    )
    options.epilog = (
        "With --state, running the same file again resumes a run that was interrupted. "
        "A replay sleeps in asyncio workers, so that the recorded width overlaps; "
        "with --burn it uses CPU in processes, one task at a time in each."
    )
    options.add_argument("file", type=Path, metavar="FILE")
    options.add_argument("--state", type=Path, metavar="DIR", help="state folder to keep; else a temporary one")
    options.add_argument("--workers", type=_count, metavar="N", help="worker processes (default: one per core)")
    options.add_argument(
        "--scale", type=not_negative, metavar="X", help="replay: factor of the recorded runtimes (default 1)"
    )
    options.add_argument("--burn", action="store_true", help="replay: use CPU instead of sleeping")
    options.add_argument(
        "--durability",
        choices=("fsync", "os", "none"),
        default="fsync",
        help="what an acknowledgement survives: power loss (default), SIGKILL of every process, nothing",
    )
    options.add_argument("--run-id", metavar="ID", help="identity of the run; default: made from the flow's name")
    options.add_argument("--report", type=Path, metavar="OUT.HTML", help="write a self-contained page with the report")
    options.add_argument("--json", type=Path, metavar="OUT.JSON", help="write one JSON object with every node")
    options.add_argument("--quiet", action="store_true", help="neither progress nor report, only errors")
    options.set_defaults(command=_run_file)


def _count(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None
    if not 1 <= value <= 512:
        raise argparse.ArgumentTypeError("must be 1 to 512")
    return value


def _number(text: str) -> float | None:
    """A number, whole where it is; the policy judges it."""
    if text.lower() == "none":
        return None
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is neither a number nor none") from None
    return int(value) if value.is_integer() else value


class _ShowVersion(argparse.Action):
    """Finds out the version only when it is asked for."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib import metadata  # lazy: takes longer than the rest of this module together

        try:
            version = metadata.version(NAME)
        except metadata.PackageNotFoundError:
            version = "(not installed)"
        print(f"{NAME} {version}")
        parser.exit()


def _run_file(arguments: argparse.Namespace, console: Console) -> Exit:
    from runtime.cli.run import run_file  # lazy: status and verify start without the face and rich

    return run_file(arguments, console)


def _status(arguments: argparse.Namespace, console: Console) -> Exit:
    from runtime.cli.status import show_status  # lazy: each command loads what it needs

    return show_status(arguments.state, console, as_json=arguments.json)


def _verify(arguments: argparse.Namespace, console: Console) -> Exit:
    from runtime.cli.verify import show_verify  # lazy: each command loads what it needs

    return show_verify(arguments.state, console, as_json=arguments.json, salvage=arguments.salvage)


def _export(arguments: argparse.Namespace, console: Console) -> Exit:
    from runtime.cli.transfer import export_to  # lazy: each command loads what it needs

    return export_to(arguments.state, arguments.run, arguments.output, console, archived=arguments.archived)


def _import(arguments: argparse.Namespace, console: Console) -> Exit:
    from runtime.cli.transfer import import_from  # lazy: each command loads what it needs

    return import_from(arguments.state, arguments.input, console)


def _reshard(arguments: argparse.Namespace, console: Console) -> Exit:
    from runtime.cli.reshard import reshard_log  # lazy: each command loads what it needs

    return reshard_log(arguments.state, arguments.shards, console, as_json=arguments.json)


def _events(arguments: argparse.Namespace, console: Console) -> Exit:
    from runtime.cli.events import show_events  # lazy: each command loads what it needs

    return show_events(arguments, console)


def _schedules(arguments: argparse.Namespace, console: Console) -> Exit:
    from runtime.cli.schedules import show_schedules  # lazy: each command loads what it needs

    return show_schedules(arguments.state, console, as_json=arguments.json)


def _unschedule(arguments: argparse.Namespace, console: Console) -> Exit:
    from runtime.cli.schedules import unschedule  # lazy: each command loads what it needs

    return unschedule(arguments.state, arguments.name, console, as_json=arguments.json)


def _change(arguments: argparse.Namespace, console: Console, change: dict[str, Any]) -> Exit:
    from runtime.cli.control import change_policy  # lazy: each command loads what it needs

    return change_policy(arguments.state, change, console, as_json=arguments.json)


def _pause(arguments: argparse.Namespace, console: Console) -> Exit:
    from runtime.scheduling import ask_pause  # lazy: each command loads what it needs

    return _change(arguments, console, ask_pause(arguments.scope, arguments.by, arguments.reason)[1]["change"])


def _resume(arguments: argparse.Namespace, console: Console) -> Exit:
    return _change(arguments, console, {"resume": arguments.scope})


def _quota(arguments: argparse.Namespace, console: Console) -> Exit:
    return _change(arguments, console, {"quotas": {arguments.scope: arguments.limit}})


def _weight(arguments: argparse.Namespace, console: Console) -> Exit:
    return _change(arguments, console, {"weights": {arguments.tenant: arguments.weight}})


def _rate(arguments: argparse.Namespace, console: Console) -> Exit:
    rate = None if arguments.per_second is None else [arguments.per_second, arguments.burst]
    return _change(arguments, console, {"rates": {arguments.key: rate}})


def _share(arguments: argparse.Namespace, console: Console) -> Exit:
    share = None if arguments.least is None else [arguments.least, arguments.most]
    return _change(arguments, console, {"shares": {arguments.class_: share}})
