"""A private copy of a SQLite file and its journal, for readers that may not put right what a crash left there.

    copied ──► opened: SQLite rolls the journal back ──► removed, while it is open

So nothing is left to remove, however the reader ends: what is open has no name. Only who is killed while it copies
leaves a folder. Each is locked as long as somebody makes it, and whoever makes the next one removes those that nobody
holds.

Concurrency: any number of readers. Known limits: needs the room of the file in the folder for temporary files, until
the connection is closed.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import sqlite3
import tempfile
from contextlib import suppress
from typing import Final
from urllib.parse import quote

from actors.protocol.errors import StateFolderError

PREFIX: Final = "mainspring-copy-"
_FILES: Final = ("", "-journal")


def open_copy(path: str) -> sqlite3.Connection:
    """Open a copy of a file, with what its journal says put right.

    Raises:
        sqlite3.Error: SQLite cannot read it. StateFolderError: It cannot be copied.
    """
    try:
        _sweep()
        folder, held = _made()
    except OSError as fault:
        raise StateFolderError(f"no copy of {path} can be made: {fault}") from fault
    try:
        for suffix in _FILES:
            with suppress(FileNotFoundError):
                shutil.copyfile(path + suffix, os.path.join(folder, os.path.basename(path) + suffix))
        name = os.path.join(folder, os.path.basename(path))
        database = sqlite3.connect(f"file:{quote(name)}?mode=rw", uri=True, isolation_level=None)
        try:
            database.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except BaseException:
            database.close()
            raise
        return database
    except OSError as fault:
        raise StateFolderError(f"no copy of {path} can be made: {fault}") from fault
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(held)


def _made() -> tuple[str, int]:
    """A new folder, and the descriptor that holds it."""
    while True:
        folder = tempfile.mkdtemp(prefix=PREFIX)
        held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        with suppress(OSError):
            fcntl.flock(held, fcntl.LOCK_EX)
            if os.path.samestat(os.fstat(held), os.stat(folder)):
                return folder, held
        os.close(held)  # somebody swept in between


def _sweep() -> None:
    """Remove what readers left that were killed."""
    place = tempfile.gettempdir()
    for name in os.listdir(place):
        if name.startswith(PREFIX):
            _remove_if_left(os.path.join(place, name))


def _remove_if_left(folder: str) -> None:
    with suppress(OSError):
        held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            if os.fstat(held).st_uid == os.geteuid():
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(held)
