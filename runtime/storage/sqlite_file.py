"""What our SQLite files have in common: how they are opened, and what their errors mean.

A reader that may not write finds the journal that a crash left, which only a writer can put right: it looks at a copy
of both files.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from contextlib import suppress
from typing import Final, NoReturn
from urllib.parse import quote

from actors.protocol.errors import DiskFull, EnvironmentFault, StateFolderError

BUSY_S: Final = 30.0
"""How long another process may hold a file before a transaction gives up (SQLITE_BUSY, which is StateFolderError)."""
_FILES: Final = ("", "-journal")
_OUTSIDE: Final = ("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_CANTOPEN", "SQLITE_IOERR", "SQLITE_READONLY", "SQLITE_PERM")
"""How errors begin that say nothing of what is in the file."""


def connect(path: str, mode: str) -> sqlite3.Connection:
    """Open a file; `mode` is "ro", "rw" or "rwc" (made where missing). Transactions are the caller's."""
    uri = f"file:{quote(path)}?mode={mode}"
    return sqlite3.connect(uri, uri=True, timeout=BUSY_S, isolation_level=None)


def copied(path: str) -> str:
    """A copy of a file and its journal in a folder of its own, which the caller removes; returns the folder."""
    folder = tempfile.mkdtemp(prefix="mainspring-")
    try:
        for suffix in _FILES:
            with suppress(FileNotFoundError):
                shutil.copyfile(path + suffix, os.path.join(folder, os.path.basename(path) + suffix))
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return folder


def needs_copy(error: sqlite3.Error) -> bool:
    """Whether this error of a reader means that there is a journal to be put right."""
    return getattr(error, "sqlite_errorname", "").startswith("SQLITE_READONLY")


def explain(what: str, path: str, error: sqlite3.Error, damaged: type[EnvironmentFault]) -> NoReturn:
    """Raise our own error for one of SQLite.

    Args:
        what: The file, in a word.
        path: Its path.
        error: What SQLite raised.
        damaged: The error for a damaged one.

    Raises:
        DiskFull: There is no room. StateFolderError: it says nothing of what is in the file. Else `damaged`.
    """
    name = getattr(error, "sqlite_errorname", "")
    if name == "SQLITE_FULL":
        raise DiskFull(f"no space for the {what} {path}") from error
    if name.startswith(_OUTSIDE):
        raise StateFolderError(f"the {what} {path} cannot be used: {error} ({name})") from error
    raise damaged(f"{path} is damaged: {error}") from error
