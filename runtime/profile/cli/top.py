"""`top`: processes as they are now, again and again: cores, waiting for one, memory, what they hold and create.

On a terminal the table stays in its place, elsewhere each look is printed below the one before.
"""

from __future__ import annotations

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
from runtime.profile.presence.processes import ProcessChange, changes, looked

SHOWN_KINDS: Final = (TASK, RUN, LEASE, MESSAGE, THREAD, DESCRIPTOR)


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
                console.redraw([state, *table(rows)])
            left = None if left is None else left - 1
    return ProfileExit.OK


def table(rows: Sequence[ProcessChange]) -> list[str]:
    """The table, with a line of sums."""
    head = ("pid", "process", "cpu %", "wants %", "memory", *(f"{kind}s" for kind in SHOWN_KINDS), "profiler %", "")
    cells = [_cells(row) for row in rows]
    total = (
        "",
        f"{len(rows)} processes",
        f"{sum(row.cpu for row in rows):.1%}".rstrip("%"),
        f"{sum(row.wait for row in rows):.1%}".rstrip("%"),
        bytes_text(sum(row.now.rss_bytes for row in rows)),
        *(f"{sum(row.now.live(kind) for row in rows):,}" for kind in SHOWN_KINDS),
        f"{sum(row.self_cpu for row in rows):.2%}".rstrip("%"),
        "",
    )
    return align([head, *cells, total], left=2)


def _cells(row: ProcessChange) -> tuple[str, ...]:
    now = row.now
    return (
        str(now.process.pid),
        now.process.title,
        f"{row.cpu:.1%}".rstrip("%"),
        f"{row.wait:.1%}".rstrip("%"),
        bytes_text(now.rss_bytes),
        *(f"{now.live(kind):,}" if now.counts else "–" for kind in SHOWN_KINDS),
        f"{row.self_cpu:.2%}".rstrip("%"),
        "stopped" if now.state in ("T", "t") else "",
    )


def row_json(row: ProcessChange) -> dict[str, Any]:
    """A row as data."""
    created = {kind: rate for kind, rate in row.created.items() if rate}
    return process_json(row.now) | {"cpu": row.cpu, "wait": row.wait, "self_cpu": row.self_cpu, "created": created}
