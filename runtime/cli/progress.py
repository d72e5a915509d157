"""Progress of a run on the message stream: a bar on a terminal, now and then a plain line elsewhere.

Plain lines carry no control characters, at most one a second, and become rarer the longer a run lasts, so that the log
of a long night is not full of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, Protocol

from rich.console import Console as RichConsole
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from actors.protocol.words import counted
from runtime.cli.console import Console, printable
from runtime.cli.report import duration_text

REFRESH_S: Final = 0.1
"""Between two looks at how far it is."""
LINE_S: Final = 1.0
"""Least time between two plain lines."""
LINE_SHARE: Final = 0.05
"""And at least this share of the time since the start: 20 lines for the first 20 s, then ever fewer."""


class Meter(Protocol):
    """Shows how far a run is."""

    def show(self, done: int, total: int, held: int, failed: int) -> None:
        """The present numbers of nodes. `held` are with workers: few of these run, the others are next there."""

    def note(self, text: str) -> None:
        """A line that stays."""

    def close(self) -> None:
        """Nothing more comes."""


def meter_for(console: Console, title: str, *, quiet: bool = False) -> Meter:
    """The meter that suits the stream."""
    if quiet or console.err is None:
        return NoMeter()
    return BarMeter(console, title) if console.lively else LineMeter(console, title)


class NoMeter:
    """Shows nothing."""

    def show(self, done: int, total: int, held: int, failed: int) -> None:
        """Nothing."""

    def note(self, text: str) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing."""


class LineMeter:
    """Plain lines.

    Args:
        console: Where to print.
        title: What runs.
        clock: Seconds, monotonic.
    """

    def __init__(self, console: Console, title: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._title = title
        self._clock = clock
        self._started = self._last = clock()
        self._shown = self._seen = (-1, -1, -1, -1)

    def show(self, done: int, total: int, held: int, failed: int) -> None:
        """Print a line, if it is time and something changed."""
        now = self._clock()
        since = now - self._started
        numbers = self._seen = (done, total, held, failed)
        if numbers == self._shown or now - self._last < max(LINE_S, since * LINE_SHARE):
            return
        self._last = now
        self._print(since)

    def _print(self, since: float) -> None:
        self._shown = done, total, held, failed = self._seen
        bad = f", {failed:,} failed" if failed else ""
        percent = done * 100 // total if total else 0
        self._console.note(
            f"{self._title}: {done:,} of {counted(total, 'node')} ({percent} %){bad}, {held:,} with workers, "
            f"{duration_text(int(since * 1e9))}"
        )

    def note(self, text: str) -> None:
        """Print it."""
        self._console.note(text)

    def close(self) -> None:
        """The last numbers, if the run did not end, and somebody was told others; else the report follows."""
        done, total, *_ = self._seen
        if done < total and self._shown not in (self._seen, (-1, -1, -1, -1)):
            self._print(self._clock() - self._started)


class BarMeter:
    """A bar that is redrawn in place and removed at the end."""

    def __init__(self, console: Console, title: str) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TextColumn("{task.fields[more]}"),
            TimeElapsedColumn(),
            console=RichConsole(file=console.err),
            transient=True,
            refresh_per_second=1 / REFRESH_S,
            expand=True,
        )
        self._task: TaskID = self._progress.add_task(escape(printable(title)), total=None, more="")
        self._progress.start()

    def show(self, done: int, total: int, held: int, failed: int) -> None:
        """Redraw."""
        bad = f", [red]{failed:,} failed[/red]" if failed else ""
        self._progress.update(self._task, completed=done, total=total, more=f"{held:,} with workers{bad}")

    def note(self, text: str) -> None:
        """Print it above the bar."""
        self._progress.print(escape(printable(text)), highlight=False)

    def close(self) -> None:
        """Remove the bar and show the cursor again."""
        self._progress.stop()
