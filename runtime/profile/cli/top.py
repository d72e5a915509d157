"""`top`: processes as they are now, again and again: cores, waiting for one, memory, what they hold and create.

On a terminal the table stays in its place, elsewhere each look is printed below the one before.
"""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Sequence
from typing import Any, Final

import orjson

from runtime.cli.console import Console
from runtime.cli.report import align
from runtime.cli.status import bytes_text
from runtime.profile.captures.capture import pass_time
from runtime.profile.cli.app import ProfileExit
from runtime.profile.cli.shared import state_of, until_interrupted
from runtime.profile.cli.stacks import process_json
from runtime.profile.ledger.kinds import DESCRIPTOR, LEASE, MESSAGE, RUN, TASK, THREAD
from runtime.profile.presence.processes import Looked, ProcessChange, changes, looked

SHOWN_KINDS: Final = (TASK, RUN, LEASE, MESSAGE, THREAD, DESCRIPTOR)
HEADS: Final = ("tasks", "runs", "leases", "messages", "threads", "files")
LEAVE_FIRST: Final = ("messages", "leases", "profiler %", "threads", "runs", "files", "tasks")


def show_top(arguments: Namespace, console: Console) -> int:
    """The command `top`."""
    state = state_of(arguments)
    with until_interrupted() as stop:
        before, left = looked(state), arguments.looks
        while not (stop() or console.gone or console.lost) and (left is None or left > 0):
            pass_time(arguments.delay, stop)
            after = looked(state)
            rows, before = changes(before, after), after
            if arguments.json:
                console.say(orjson.dumps([row_json(row) for row in rows]).decode())
            else:
                console.redraw([state, *table(rows, width_of_terminal())])
            left = None if left is None else left - 1
    return ProfileExit.OK


def width_of_terminal() -> int | None:
    """Columns that a line may have; None where it goes elsewhere."""
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or None
    except (AttributeError, OSError, ValueError):
        return None


def table(rows: Sequence[ProcessChange], width: int | None = None) -> list[str]:
    """The table, with a line of sums; without the columns that matter least where all of them do not fit."""
    head = ("pid", "process", "cpu %", "wants %", "memory", *HEADS, "profiler %", "")
    cells = [_cells(row) for row in rows]
    total = (
        "",
        f"{len(rows)} processes",
        f"{sum(row.cpu for row in rows):.1%}".rstrip("%"),
        f"{sum(row.wait for row in rows):.1%}".rstrip("%"),
        bytes_text(sum(row.now.rss_bytes for row in rows)),
        *(f"{sum(_held(row.now, kind) for row in rows):,}" for kind in SHOWN_KINDS),
        f"{sum(row.self_cpu for row in rows):.2%}".rstrip("%"),
        "",
    )
    lines, at = [head, *cells, total], list(range(len(head)))
    found = align(lines, left=2)
    for name in LEAVE_FIRST:
        if width is None or max(map(len, found)) <= width:
            break
        at.remove(head.index(name))
        found = align([[line[place] for place in at] for line in lines], left=2)
    return found if width is None else [line[:width] for line in found]


def _held(now: Looked, kind: str) -> int:
    """How many of a kind; threads as the kernel counts them where it does, which are those that `ps` shows."""
    return now.threads if kind == THREAD and now.threads else now.live(kind)


def _cells(row: ProcessChange) -> tuple[str, ...]:
    now = row.now
    return (
        str(now.process.pid),
        now.process.title,
        f"{row.cpu:.1%}".rstrip("%"),
        f"{row.wait:.1%}".rstrip("%"),
        bytes_text(now.rss_bytes),
        *(f"{_held(now, kind):,}" if now.counts else "–" for kind in SHOWN_KINDS),
        f"{row.self_cpu:.2%}".rstrip("%"),
        "stopped" if now.state in ("T", "t") else "",
    )


def row_json(row: ProcessChange) -> dict[str, Any]:
    """A row as data."""
    created = {kind: rate for kind, rate in row.created.items() if rate}
    return process_json(row.now) | {"cpu": row.cpu, "wait": row.wait, "self_cpu": row.self_cpu, "created": created}
