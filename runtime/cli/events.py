"""`events`: what happened in a state folder, and with --follow what happens. Reads only, beside an engine or without.

It shows what is written; beside a running engine that may be a moment ahead of what is durable.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final

from actors.event_kinds import Event
from actors.protocol.errors import ConfigurationError
from actors.protocol.moments import precise_moment
from runtime.cli.console import Console
from runtime.cli.exits import NAME, Exit
from runtime.cli.operations_options import since as age_or_time
from runtime.event_filter import Since, filter_of
from runtime.event_reader import EventReader
from runtime.event_stream import EventStream

CAUSE_SHOWN_CHARS: Final = 160
_PATTERN: Final = re.compile(r"[*?\[]")
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
    left, found = arguments.limit, False
    reader = EventReader(str(arguments.state), wanted, since)
    begins = reader.next_lsn
    with EventStream(reader, follow=arguments.follow) as events:
        for event in events:
            found = True
            console.say(line(event))
            left = None if left is None else left - 1
            if left == 0:
                break
    if not found:
        console.note(_nothing(arguments, begins, reader.next_lsn - 1))
    return Exit.OK


def _nothing(arguments: argparse.Namespace, first: int, last: int) -> list[str]:
    """Where no such event is: a run that the log let go of has none there, and an id may be mistyped."""
    from runtime.storage.past_runs import past_of  # lazy: there is nothing else to show

    lines = [
        f"no such event in LSNs {first:,} to {last:,}" if first <= last else f"nothing is there from LSN {first:,}"
    ]
    for run in [run for run in arguments.run or () if not _PATTERN.search(run)]:
        if past_of(arguments.state).scheduler_with(run) is not None:
            lines.append(f"run {run} is in the archive only; its story: {NAME} replay {arguments.state} --run {run}")
    return lines


def read_since(text: str) -> Since:
    """An LSN, "begin", "now", an age, or a moment as ISO 8601; without a time zone it is UTC.

    Raises:
        ConfigurationError: It is none of them.
    """
    if text in ("begin", "now"):
        return text
    if _LSN.match(text):
        return int(text)
    try:
        return datetime.fromtimestamp(0, UTC) + timedelta(microseconds=age_or_time(text, utc=True) // 1000)
    except argparse.ArgumentTypeError:
        raise ConfigurationError(
            f"events: --since {text!r:.60} is neither an LSN, an age (90m, 2h), an ISO 8601 time, nor begin or now"
        ) from None


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
