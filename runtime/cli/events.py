"""`events`: what happened in a state folder, and with --follow what happens. Reads only, beside an engine or without.

It shows what is written; beside a running engine that may be a moment ahead of what is durable.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from actors.event_kinds import Event
from actors.protocol.errors import ConfigurationError
from actors.protocol.moments import precise_moment
from runtime.cli.archived import is_in_archive
from runtime.cli.console import Console
from runtime.cli.exits import NAME, Exit
from runtime.event_filter import Since, filter_of
from runtime.event_reader import EventReader
from runtime.event_stream import EventStream

CAUSE_SHOWN_CHARS: Final = 160
_LSN: Final = re.compile(r"\d+\Z")


def show_events(arguments: argparse.Namespace, console: Console) -> Exit:
    """Read and print, until the end, or with `--follow` until Ctrl-C or `--limit`.

    Args:
        arguments: `state`, `kind`, `run`, `name`, `since`, `follow`, `limit`, `json`.
        console: Where to print.
    """
    wanted = filter_of(arguments.kind or None, arguments.run or None, arguments.name or None)
    since = read_since(arguments.since or ("now" if arguments.follow else "begin"))
    line: Callable[[Event], str] = event_json if arguments.json else event_line
    left, seen = arguments.limit, False
    with EventStream(EventReader(str(arguments.state), wanted, since), follow=arguments.follow) as events:
        for event in events:
            seen = True
            console.say(line(event))
            left = None if left is None else left - 1
            if left == 0:
                break
    for run in () if seen else arguments.run or ():
        if is_in_archive(arguments.state, run):
            console.note(f"{NAME}: the log has no event of run {run} any more; replay --run shows its story")
    return Exit.OK


def read_since(text: str) -> Since:
    """An LSN, "begin", "now", or a moment as ISO 8601; without a time zone it is UTC.

    Raises:
        ConfigurationError: It is none of them.
    """
    if text in ("begin", "now"):
        return text
    if _LSN.match(text):
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigurationError(
            f'events: --since {text!r:.60} is no LSN, no time like 2026-11-30T12:00, not "begin" and not "now"'
        ) from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def event_json(event: Event) -> str:
    """One event as one JSON object."""
    return json.dumps(event._asdict())


def event_line(event: Event) -> str:
    """One event as one line: when, what, of which run and node, by what name, why."""
    node = f" node {event.node_id}" if event.node is not None else ""
    cause = " ".join(event.cause.split())
    if len(cause) > CAUSE_SHOWN_CHARS:
        cause = f"{cause[: CAUSE_SHOWN_CHARS - 1]}…"
    parts = [
        f"{event.lsn:>8}",
        precise_moment(event.at_ns),
        f"{event.kind:<17}",
        f"{event.run or ''}{node}",
        event.name,
        cause,
    ]
    return "  ".join(part for part in parts if part).rstrip()
