"""The options of `simulate`. What the command does is in `runtime.cli.simulate`, which is loaded when it is used."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from actors.protocol.errors import ConfigurationError

if TYPE_CHECKING:
    from runtime.cli.console import Console
    from runtime.cli.exits import Exit

_MORE = (
    "Reads only, also beside a running engine. What arrived arrives when it did, and tasks take what they took; who "
    "runs when is decided by the engine's own code on a virtual clock. What is not changed is as it was recorded."
)


def add_simulate(commands: Any) -> None:
    """Add the command.

    Args:
        commands: The sub-parsers of the program.
    """
    text = "what would have happened with other workers, quotas, weights or rates"
    options = commands.add_parser("simulate", help=text, description=f"Say {text}.", epilog=_MORE)
    options.add_argument("state", type=Path, metavar="STATE", help="state folder, with or without a running engine")
    for name, metavar, meaning in (
        ("workers", "[TYPE=]N", "workers of a node type, or of each that is not named"),
        ("slots", "[TYPE=]N", "tasks at once in each asyncio worker"),
        ("prefetch", "[TYPE=]N", "most tasks that a worker holds ahead"),
        ("quota", "SCOPE=N", "most tasks at once: low=2, class:low=2, tenant:acme=8, key:printer=1, or =none"),
        ("weight", "TENANT=W", "turns that a tenant gets, or =none for 1"),
        ("rate", "KEY=R[:BURST]", "how often tasks of a rate key start in a second, or =none"),
        ("share", "CLASS=LEAST[:MOST]", "what a class has of the slots, or =none"),
    ):
        options.add_argument(f"--{name}", metavar=metavar, action="append", default=[], help=meaning)
    options.add_argument("--report", type=Path, metavar="OUT.HTML", help="write a page with tables and charts, too")
    options.add_argument("--json", action="store_true", help="one JSON object instead of text")
    options.set_defaults(command=_simulate)


def _simulate(arguments: argparse.Namespace, console: Console) -> Exit:
    from runtime.cli.simulate import show_simulation  # lazy: each command loads what it needs
    from runtime.planning.setting import EVERY, Setting, scope_of

    problems: list[str] = []

    def numbers(what: str) -> dict[str, int]:
        found = {}
        for text in getattr(arguments, what):
            name, _, value = text.rpartition("=")
            if value.isdecimal() and len(value) < 10:
                found[name or EVERY] = int(value)
            else:
                problems.append(f"--{what} {text!r}: {value!r} is not a whole number")
        return found

    def entries(what: str) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for text in getattr(arguments, what):
            name, equals, value = text.rpartition("=")
            try:
                if not equals:
                    raise ValueError(text)
                parts = None if value == "none" else [_number(part) for part in value.split(":")]
                found[scope_of(name) if what == "quota" else name] = _entry(what, parts)
            except ValueError:
                problems.append(f"--{what} {text!r} is not of the form NAME=NUMBER")
        return found

    tables = {"quotas": entries("quota"), "weights": entries("weight"), "rates": entries("rate")}
    tables["shares"] = entries("share")
    setting = Setting(
        workers=numbers("workers"),
        slots=numbers("slots"),
        prefetch=numbers("prefetch"),
        policy={name: table for name, table in tables.items() if table},
    )
    if problems:
        raise ConfigurationError(f"simulate: {'; '.join(problems)}")
    return show_simulation(arguments.state, setting, console, page_to=arguments.report, as_json=arguments.json)


def _number(text: str) -> float:
    value = float(text)
    return int(value) if value.is_integer() else value


def _entry(what: str, parts: list[float] | None) -> Any:
    """In the form of `actors.policy.policy`. Raises ValueError: there are too many parts."""
    if parts is None:
        return None
    if what in ("quota", "weight"):
        (single,) = parts
        return single
    if len(parts) > 2:
        raise ValueError(parts)
    second = None if len(parts) == 1 else parts[1]
    return [parts[0], 1 if second is None else second]
