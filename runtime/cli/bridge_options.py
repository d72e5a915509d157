"""The options of `bridge`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runtime.cli.operations_options import add_event_filter, not_negative, positive_count

if TYPE_CHECKING:
    from runtime.cli.console import Console
    from runtime.cli.exits import Exit


def add_bridge(commands: Any) -> None:
    """Add the command.

    Args:
        commands: The sub-parsers of the program.
    """
    text = "publish events to a NATS JetStream stream or a Redis stream, each once and in order"
    more = (
        "Goes on where the stream is, whatever was killed meanwhile; ends in order with SIGTERM. The stream is this "
        "bridge's alone. Needs mainspring[nats] or mainspring[redis]."
    )
    options = commands.add_parser("bridge", help=text, description=f"{text[0].upper()}{text[1:]}.", epilog=more)
    options.add_argument("state", type=Path, metavar="STATE", help="state folder, with or without a running engine")
    options.add_argument("--to", required=True, metavar="URL", help="nats://host:4222, or redis://host:6379/0")
    options.add_argument("--stream", metavar="NAME", help="the stream, or key of Redis (default: mainspring)")
    options.add_argument("--subject", metavar="PREFIX", help="NATS: before the kind (default: the stream's name)")
    options.add_argument("--as", dest="own", metavar="NAME", help="of the bridge (default: nats-STREAM, redis-STREAM)")
    options.add_argument(
        "--since", default="begin", metavar="WHERE", help="LSN, time, begin (default) or now, for a new one"
    )
    add_event_filter(options)
    options.add_argument("--keep", type=positive_count, metavar="N", help="events that the stream keeps, about")
    options.add_argument("--credentials", type=Path, metavar="FILE", help="NATS: the user's credentials")
    options.add_argument(
        "--patience",
        type=not_negative,
        default=10.0,
        metavar="S",
        help="seconds without a server at first (default 10)",
    )
    options.add_argument("--once", action="store_true", help="end with what is durable by now")
    options.add_argument("--json", action="store_true", help="one JSON object at the end instead of text")
    options.set_defaults(command=_bridge)


def _bridge(arguments: argparse.Namespace, console: Console) -> Exit:
    from runtime.cli.bridge import run_bridge  # lazy: each command loads what it needs

    return run_bridge(arguments, console)
