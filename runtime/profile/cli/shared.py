"""What commands have in common: the folder that is meant, tables of processes, stacks as text, Ctrl-C as an end."""

from __future__ import annotations

import os
import signal
import threading
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any, Final

from runtime.cli.console import Console
from runtime.profile.model import Frame
from runtime.profile.presence.find import state_dir_of

SITE_PARTS: Final = 3
"""Of the path of a file, as it is shown."""


def state_of(arguments: Namespace) -> str:
    """The state folder that is meant. Raises ProfileUnavailable where nobody says and there are several, or none."""
    return state_dir_of(arguments.state)


def pids_of(arguments: Namespace) -> frozenset[int] | None:
    """Processes that were named; None: all."""
    return frozenset(arguments.pid) if arguments.pid else None


def names_of(text: str) -> tuple[str, ...]:
    """Names in a list with commas."""
    return tuple(name for name in (part.strip() for part in text.split(",")) if name)


def frame_text(frame: Frame) -> str:
    """A place, its path cut: "fetch  app/net/http.py:31"."""
    if not frame.file:
        return frame.name
    path = Path(frame.file).parts[-SITE_PARTS:]
    return f"{frame.name}  {os.path.join(*path)}" + (f":{frame.line}" if frame.line else "")


def stack_lines(stack: Sequence[Frame], indent: str = "    ") -> Iterator[str]:
    """A stack, the innermost place first, as Go shows it."""
    if not stack:
        yield f"{indent}(no Python stack)"
    for frame in reversed(stack):
        yield indent + frame_text(frame)


def note_all(console: Console, notes: Sequence[str]) -> None:
    """Notes of a profile, to standard error."""
    console.note(f"note: {note}" for note in notes)


@contextmanager
def until_interrupted() -> Iterator[Callable[[], bool]]:
    """Within it the first Ctrl-C, or SIGTERM, makes what it gives say True, so that what was recorded so far is kept.
    The second one ends in the usual way."""
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    asked = [False]
    before: dict[int, Any] = {}

    def note(signum: int, frame: FrameType | None) -> None:
        asked[0] = True
        for one, handler in before.items():
            signal.signal(one, handler)

    for one in (signal.SIGINT, signal.SIGTERM):
        before[one] = signal.getsignal(one)
        signal.signal(one, note)
    try:
        yield lambda: asked[0]
    finally:
        for number, handler in before.items():
            with suppress(TypeError):
                signal.signal(number, handler)
