"""State folders that are not there, or only since a moment: what to say of them, and what not to leave behind.

Concurrency: who opens a folder between its closing and its removal by `unless_failed` finds it gone, as before it was
made. What a crash leaves behind: the folder, empty.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from actors.protocol.errors import MainspringError, StateFolderError

TO_MOVE: Final = "name a folder; or move what is in its place"
TO_READ: Final = "name the folder that a Runtime was opened with"
TO_RESTORE: Final = "restore mainspring.json from a copy of the folder; it is written once, and is not made anew"


def check_place(name: str, *, create: bool) -> None:
    """Refuse what can never become a folder, with a better word than the system has.

    Args:
        name: The whole path.
        create: Whether it would be made; else it is only read.

    Raises:
        StateFolderError: A file is there, or above it, or a link to nothing.
    """
    above, text = name, ""
    while not os.path.lexists(above):
        above = os.path.dirname(above)
    if os.path.islink(name) and not os.path.exists(name):
        text = " is a symbolic link to nothing"
    elif os.path.exists(above) and not os.path.isdir(above):
        text = f": {above} is a file"
    if text:
        raise StateFolderError(f"state folder {name}{text}").hinting(TO_MOVE if create else TO_READ)


@contextmanager
def unless_failed(path: str | os.PathLike[str]) -> Iterator[None]:
    """Remove the folder when what is done in here is refused, if it was not there before.

    Args:
        path: The state folder, closed again when this ends.
    """
    there = os.path.lexists(path)
    try:
        yield
    except MainspringError:
        if not there:
            shutil.rmtree(path, ignore_errors=True)
        raise
