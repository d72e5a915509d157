"""The options of the commands that an operator uses on a running engine: dead letters, reruns, draining, priority, why.

What the commands do is in `runtime.cli.operations`, which is loaded when one is used.
"""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from actors.policy.letters import KINDS
from actors.protocol import limits
from actors.protocol.kinds import PRIORITIES
from runtime.units import datetime_to_ns

if TYPE_CHECKING:
    from runtime.cli.console import Console
    from runtime.cli.exits import Exit

_AGE: Final = re.compile(r"(\d{1,9})([smhd])")
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
LETTERS_KEPT: Final = (
    f"A folder keeps the latest {limits.LETTER_RUNS_MAX:,} finished runs with dead letters, up to "
    f"{limits.LETTER_NODES_MAX:,} nodes and {limits.LETTER_BYTES_MAX // limits.MIB:,} MiB."
)
NEEDS_ENGINE: Final = "Durable when the command ends. Needs a running engine."
FORGETS: Final = "Durable when the command ends. What an engine keeps in memory needs that engine."


def add_operations(commands: Any) -> None:
    """Add the commands.

    Args:
        commands: The sub-parsers of the program.
    """
    dead = add_command(
        commands, "dead", _dead, "list what has failed for good, or show one dead letter in full", LETTERS_KEPT
    )
    dead.add_argument("letter", nargs="?", metavar="LETTER", help="id of a letter, to see its traceback and arguments")
    dead.add_argument("--limit", type=positive_count, default=50, metavar="N", help="letters at most (default 50)")
    _add_filter(dead)
    for name, command, text in (
        ("redrive", redrive, "let dead letters run again"),
        ("discard", _discard, "take dead letters from the list; their runs stay as they are"),
    ):
        add_letters(add_command(commands, name, command, text, f"{NEEDS_ENGINE} {LETTERS_KEPT}"))
    forgotten = add_command(commands, "forget", _forget, "delete a finished run, also from the archive", FORGETS)
    forgotten.add_argument("run", metavar="RUN", help="its id")
    cancel = add_command(
        commands, "cancel", _cancel, "cancel a run, or a single task, that has not ended", NEEDS_ENGINE
    )
    cancel.add_argument("run", metavar="RUN", help="id of the run, or of a single task")
    rerun = add_command(commands, "rerun", _rerun, "run again what did not succeed of a run", NEEDS_ENGINE)
    rerun.add_argument("run", metavar="RUN", help="id of the run, or of a single task")
    drain = add_command(
        commands, "drain", _drain, "pause scopes and wait until nothing of them runs", "`resume` ends it."
    )
    drain.add_argument("scope", metavar="SCOPE", nargs="+", help="tenant:acme, key:printer, type:cpu, class:low")
    drain.add_argument(
        "--timeout", type=not_negative, metavar="S", help="seconds to wait; the scopes stay paused after that"
    )
    add_who(drain)
    priority = add_command(commands, "priority", _priority, "give a run or task another priority class", NEEDS_ENGINE)
    priority.add_argument("run", metavar="RUN", help="id of the run, or of a single task")
    priority.add_argument("priority", metavar="CLASS", choices=PRIORITIES, help=", ".join(PRIORITIES))
    why = add_command(
        commands, "why", _why, "say why a run, a task or a node does not run now", "Needs a running engine."
    )
    why.add_argument("run", metavar="RUN", help="id of the run, or of a single task")
    why.add_argument("node", nargs="?", metavar="NODE", help="id or number of a node")


def add_who(options: Any) -> None:
    """Add who pauses something, and why.

    Args:
        options: Those of a command that pauses.
    """
    options.add_argument("--by", metavar="WHO", help="who pauses, told by `why` and `status`; else user@program")
    options.add_argument("--reason", metavar="TEXT", help="why, told by `why` and `status`")


def add_event_filter(options: Any) -> None:
    """Which events are wanted.

    Args:
        options: The parser of a command.
    """
    for name, meaning in (
        ("kind", 'kind or pattern, as "node.*" or "*.failed"'),
        ("run", "run id or pattern"),
        ("name", "name or pattern of task, flow or schedule"),
    ):
        options.add_argument(f"--{name}", metavar=name.upper(), action="append", help=f"{meaning}; may be repeated")


def add_command(commands: Any, name: str, command: Callable[..., Exit], text: str, more: str) -> Any:
    """Add a command that asks a state folder.

    Args:
        commands: The sub-parsers of the program.
        name: Of the command.
        command: Carries it out.
        text: What it does, in a line.
        more: What else there is to know.

    Returns:
        Its parser.
    """
    options = commands.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.", epilog=more)
    options.add_argument("state", type=Path, metavar="STATE", help="state folder")
    options.add_argument("--json", action="store_true", help="one JSON object instead of text")
    options.set_defaults(command=command)
    return options


def add_letters(options: Any) -> None:
    """Add what names dead letters: ids, a filter, or all.

    Args:
        options: The parser of a command.
    """
    options.add_argument("letter", nargs="*", metavar="LETTER", help="ids of letters; or a filter, or --all")
    options.add_argument("--all", action="store_true", help="every letter there is")
    _add_filter(options)


def _add_filter(options: Any) -> None:
    options.add_argument("--handler", metavar="PATTERN", help="function or task's name, with * and ? as in a shell")
    options.add_argument("--kind", choices=KINDS, metavar="KIND", help=f"how it failed: {', '.join(KINDS)}")
    options.add_argument("--tenant", metavar="NAME", help="whose it is")
    options.add_argument("--since", type=since, metavar="WHEN", help="failed since: 90m, 2h, 1d, or an ISO 8601 time")
    options.add_argument("--run", metavar="RUN", help="of this run only")


def filter_in(arguments: argparse.Namespace) -> dict[str, Any]:
    """The filter that was asked for, as it travels.

    Args:
        arguments: With the options of a filter.
    """
    names = {"handler": "handler", "kind": "kind", "tenant": "tenant", "since": "since_ns", "run": "run"}
    found = {key: getattr(arguments, name) for name, key in names.items()}
    return {key: value for key, value in found.items() if value is not None}


def since(text: str, *, utc: bool = False) -> int:
    """Nanoseconds since 1970. A time without a zone is one of this machine's, or UTC; so are times in what is shown."""
    age = _AGE.fullmatch(text)
    try:
        if age is not None:
            when = datetime.now(UTC) - timedelta(**{_UNITS[age[2]]: int(age[1])})
        else:
            when = datetime.fromisoformat(text)
            when = (when.replace(tzinfo=UTC) if utc and when.tzinfo is None else when).astimezone(UTC)
        return max(0, datetime_to_ns(when))
    except (ValueError, OverflowError, OSError):
        raise argparse.ArgumentTypeError(
            f"{text!r} is neither an age such as 90m or 2h, nor an ISO 8601 time"
        ) from None


def not_negative(text: str) -> float:
    """A finite number from 0 on. Raises ArgumentTypeError: it is none."""
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None
    if not (math.isfinite(value) and value >= 0):
        raise argparse.ArgumentTypeError("must be 0 or more")
    return value


def positive_count(text: str) -> int:
    """A whole number from 1 on. Raises ArgumentTypeError: it is none."""
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError("must be 1 or more")
    return int(text)


def _dead(arguments: argparse.Namespace, console: Console) -> Exit:
    from runtime.cli import operations  # lazy: each command loads what it needs

    if arguments.letter is not None:
        return operations.show_letter(arguments.state, arguments.letter, console, as_json=arguments.json)
    wanted = filter_in(arguments)
    return operations.show_dead(arguments.state, wanted, console, limit=arguments.limit, as_json=arguments.json)


def _each(what: str, arguments: argparse.Namespace, console: Console) -> Exit:
    from runtime.cli import operations  # lazy: each command loads what it needs

    wanted = filter_in(arguments)
    return operations.for_each(
        arguments.state, what, arguments.letter, wanted, console, everything=arguments.all, as_json=arguments.json
    )


def redrive(arguments: argparse.Namespace, console: Console) -> Exit:
    """Let the dead letters run again that were named."""
    return _each("replay", arguments, console)


def _discard(arguments: argparse.Namespace, console: Console) -> Exit:
    return _each("discard", arguments, console)


def _forget(arguments: argparse.Namespace, console: Console) -> Exit:
    from runtime.cli.forget import forget  # lazy: each command loads what it needs

    return forget(arguments.state, arguments.run, console, as_json=arguments.json)


def _cancel(arguments: argparse.Namespace, console: Console) -> Exit:
    from runtime.cli import operations  # lazy: each command loads what it needs

    return operations.cancel(arguments.state, arguments.run, console, as_json=arguments.json)


def _rerun(arguments: argparse.Namespace, console: Console) -> Exit:
    from runtime.cli import operations  # lazy: each command loads what it needs

    return operations.rerun(arguments.state, arguments.run, console, as_json=arguments.json)


def _drain(arguments: argparse.Namespace, console: Console) -> Exit:
    from runtime.cli import operations  # lazy: each command loads what it needs

    return operations.drain(
        arguments.state,
        arguments.scope,
        arguments.timeout,
        console,
        by=arguments.by,
        reason=arguments.reason,
        as_json=arguments.json,
    )


def _priority(arguments: argparse.Namespace, console: Console) -> Exit:
    from runtime.cli import operations  # lazy: each command loads what it needs

    run, class_ = arguments.run, arguments.priority
    return operations.set_priority(arguments.state, run, class_, console, as_json=arguments.json)


def _why(arguments: argparse.Namespace, console: Console) -> Exit:
    from runtime.cli import operations  # lazy: each command loads what it needs

    return operations.show_why(arguments.state, arguments.run, arguments.node, console, as_json=arguments.json)
