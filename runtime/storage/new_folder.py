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

from actors.protocol.errors import MainspringError

TO_READ: Final = "name the folder that a Runtime was opened with"
TO_RESTORE: Final = "restore mainspring.json from a copy of the folder; it is written once, and is not made anew"


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
