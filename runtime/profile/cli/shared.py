"""What commands have in common: the folder that is meant, tables of processes, stacks as text, Ctrl-C as an end."""

from __future__ import annotations

import os
import re
import signal
import threading
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any, Final

from actors.protocol.errors import CallerError
from runtime.cli.console import Console
from runtime.profile.model import Frame
from runtime.profile.presence.find import state_dir_of
from runtime.profile.presence.processes import looked

ALIKE_MAX: Final = 3
"""Notes that are alike."""
_OF_ONE: Final = re.compile(r".+? \(\d+\): (.*)")
"""A note on one process: its title, its number, and what is to be said of it."""
_FIGURE: Final = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?(?:e[+-]\d+)?")
SITE_PARTS: Final = 3
"""Of the path of a file, as it is shown."""


def state_of(arguments: Namespace, console: Console | None = None) -> str:
    """The state folder that is meant; the console is told which where nobody says. Raises ProfileUnavailable where
    nobody says and there are several, or none."""
    state = state_dir_of(arguments.state)
    if console is not None and arguments.state is None:
        console.note(f"state folder: {state}")
    return state


def pids_of(arguments: Namespace, state: str) -> frozenset[int] | None:
    """Processes that were named; None: all. Raises CallerError where one is not of that folder."""
    if not arguments.pid:
        return None
    there = {row.process.pid: row.process.title for row in looked(state, fresh=False)}
    if strange := [str(pid) for pid in arguments.pid if pid not in there]:
        known = ", ".join(f"{pid} {title}" for pid, title in there.items())
        raise CallerError(f"no process of {state} is {' or '.join(strange)}; there are {known}")
    return frozenset(arguments.pid)


def names_of(text: str) -> tuple[str, ...]:
    """Names in a list with commas."""
    return tuple(name for name in (part.strip() for part in text.split(",")) if name)


def frame_text(frame: Frame) -> str:
    """A place, its path cut: "fetch  app/net/http.py:31"."""
    if not frame.file:
        return frame.name
    path = Path(frame.file).parts[-SITE_PARTS:]
    return f"{frame.name}  {os.path.join(*path)}" + (f":{frame.line}" if frame.line else "")


def stack_lines(stack: Sequence[Frame]) -> Iterator[str]:
    """A stack, the innermost place first, as Go shows it."""
    if not stack:
        yield "    (no Python stack)"
    for frame in reversed(stack):
        yield f"    {frame_text(frame)}"


def note_all(console: Console, notes: Sequence[str]) -> None:
    """Notes of a profile, to standard error; of what is said of many processes alike only a few."""
    console.note(f"note: {note}" for note in shortened(notes))


def shortened(notes: Sequence[str]) -> Iterator[str]:
    """Notes, of those that differ in figures and process only the ones with the highest figures; files have all."""
    groups: dict[str, list[str]] = {}
    for note in notes:
        found = _OF_ONE.fullmatch(note)
        groups.setdefault(_FIGURE.sub("#", found[1]) if found else note, []).append(note)
    for alike in groups.values():
        yield from sorted(alike, key=_first_figure, reverse=True)[:ALIKE_MAX]
        if len(alike) > ALIKE_MAX:
            yield f"+{len(alike) - ALIKE_MAX} more like these, with lower figures"


def _first_figure(note: str) -> float:
    said = _OF_ONE.fullmatch(note)
    found = _FIGURE.search(said[1]) if said else None
    return float(found[0].replace(",", "")) if found else 0.0


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
