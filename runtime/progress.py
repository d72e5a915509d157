"""A progress bar for `Runtime.run`, on a terminal: with rich where it is installed, else one line that is written over.

The bar shows what the engine shows in shared memory, or reports by itself ten times a second; it asks nothing.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Final

from actors.protocol.errors import WaitTimeout
from runtime.views import Counts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runtime.handle import RunHandle

REFRESH_S: Final = 0.1
WIDTH: Final = 30

Update = Callable[[Counts], None]


def show_progress(handle: RunHandle, name: str, deadline: float | None, wanted: bool | None) -> None:
    """Wait for the end of a run, or the deadline, and show how far it is.

    Args:
        handle: The run.
        name: Shown in front.
        deadline: On the monotonic clock; None for none.
        wanted: None shows a bar when the standard error stream is a terminal.
    """
    if not (sys.stderr.isatty() if wanted is None else wanted):
        return
    with _bar(name) as update:
        while not handle.done() and (deadline is None or time.monotonic() < deadline):
            try:
                handle.wait(REFRESH_S)
            except WaitTimeout:
                pass
            shown = handle._shown()
            if shown is not None:
                update(shown.counts)


def _bar(name: str) -> AbstractContextManager[Update]:
    try:
        import rich.progress  # lazy: 60 ms, and only on a terminal
    except ImportError:
        return _plain_bar(name)
    return _rich_bar(name, rich.progress.Progress)


@contextmanager
def _rich_bar(name: str, progress_class: type) -> Iterator[Update]:
    from rich.console import Console  # lazy: as above
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn  # lazy: as above

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    bar = progress_class(*columns, TextColumn("{task.fields[bad]}"), console=Console(stderr=True), auto_refresh=False)
    with bar:
        task = bar.add_task(name, total=None, bad="")

        def update(counts: Counts) -> None:
            bar.update(task, completed=counts.done, total=counts.total, bad=_bad(counts), refresh=True)

        yield update


@contextmanager
def _plain_bar(name: str) -> Iterator[Update]:
    def update(counts: Counts) -> None:
        filled = WIDTH * counts.done // max(counts.total, 1)
        bar = "#" * filled + "." * (WIDTH - filled)
        sys.stderr.write(f"\r{name} [{bar}] {counts.done}/{counts.total} {_bad(counts)}")
        sys.stderr.flush()

    try:
        yield update
    finally:
        sys.stderr.write("\n")
        sys.stderr.flush()


def _bad(counts: Counts) -> str:
    parts = {"failed": counts.failed, "cancelled": counts.cancelled, "skipped": counts.skipped}
    return ", ".join(f"{count} {word}" for word, count in parts.items() if count)
