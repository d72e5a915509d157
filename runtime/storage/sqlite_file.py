"""What our SQLite files have in common: how they are opened, what is in each of them, and what their errors mean.

    meta(name, value)                           format, uuid, lsn, and what else a file says of itself
    part(run, col, at, digest, packed, body)    as `actors.saved` makes them; `packed`: how, see `packing`

A digest is seeded by the folder's uuid and covers the place of its part, so that none can stand for another.

A reader that may not write finds the journal that a crash left, which only a writer can put right: it looks at a copy
of both files (`private_copy`).
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import ClassVar, Final, NoReturn, Self
from urllib.parse import quote
from uuid import UUID

import xxhash

from actors.protocol.errors import DiskFull, EnvironmentFault, NewerFormat, StateFolderError
from runtime.storage.packing import Packer
from runtime.storage.private_copy import open_copy

BUSY_S: Final = 30.0
"""How long another process may hold a file before a transaction gives up (SQLITE_BUSY, which is StateFolderError)."""
META_TABLE: Final = "CREATE TABLE meta(name TEXT PRIMARY KEY, value)"
PART_TABLE: Final = """CREATE TABLE part(
    run INTEGER, col TEXT, at INTEGER, digest BLOB, packed INTEGER, body BLOB, PRIMARY KEY (run, col, at)
)"""
_OUTSIDE: Final = ("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_CANTOPEN", "SQLITE_IOERR", "SQLITE_READONLY", "SQLITE_PERM")
"""How errors begin that say nothing of what is in the file."""


class PartsFile:
    """An opened file with parts of runs. Made by `read`, or by a `write` of its own; `close` it.

    Args:
        path: Of the file.
        uuid: Of the state folder.
        database: Opened.
        copied: It is a copy.

    Attributes:
        lsn: The latest record that it has seen; 0: it is new.
        packer: How parts are packed.
        file_name: In the state folder.
        what: The file, in a word.
        format_max: The latest format that is read; the one that is written.
        damaged: What is raised where it is.
    """

    file_name: ClassVar[str]
    what: ClassVar[str]
    format_max: ClassVar[int]
    damaged: ClassVar[type[EnvironmentFault]]

    def __init__(self, path: str, uuid: UUID, database: sqlite3.Connection, *, copied: bool = False) -> None:
        self.path = path
        self.lsn = 0
        self.packer = Packer()
        self._uuid = str(uuid)
        self._seed = uuid.int & 0xFFFF_FFFF_FFFF_FFFF
        self._database, self._reads = database, False
        self._copied = copied

    @classmethod
    def read(cls, folder: str, uuid: UUID) -> Self | None:
        """Open the file of a state folder to look at it; None when there is none. Changes nothing.

        Raises:
            CheckpointUnusable, ArchiveUnusable: It is damaged, or of another folder.
            NewerFormat: A newer version wrote it. StateFolderError: It cannot be opened.
        """
        path = os.path.join(folder, cls.file_name)
        if not os.path.exists(path):
            return None
        try:
            found = cls(path, uuid, connect(path, "ro"))
            try:
                there = found._begins()
            except sqlite3.OperationalError as error:
                if not needs_copy(error):
                    raise
                found.close()
                found = cls(path, uuid, open_copy(path), copied=True)
                there = found._begins()
        except sqlite3.Error as error:
            cls._explain(path, error)
        if there:
            found._reads = True
            return found
        found.close()
        return None

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """One transaction that writes: all of it or nothing.

        Raises:
            DiskFull: There is no room. CheckpointUnusable, ArchiveUnusable, StateFolderError: SQLite refuses.
        """
        database = self._database
        try:
            database.execute("BEGIN IMMEDIATE")
            try:
                yield database
                database.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    database.execute("ROLLBACK")
                raise
        except sqlite3.Error as error:
            self._explain(self.path, error)

    def close(self) -> None:
        """Close. Closing twice is harmless."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _begins(self) -> bool:
        """As `_begin`; closed when that raises."""
        try:
            return self._begin()
        except BaseException:
            self.close()
            raise

    def _begin(self) -> bool:
        """Look what it is; False when it is empty."""
        return self._identify() is not None

    def _identify(self) -> int | None:
        """The format of what is there, whose LSN is known from now on; None when it is empty."""
        if not self._database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            return None
        meta = dict(self._database.execute("SELECT name, value FROM meta"))
        format_, lsn = meta.get("format"), meta.get("lsn")
        if not isinstance(format_, int) or format_ < 1 or not isinstance(lsn, int):
            raise self.damaged(f"{self.path} is damaged: it does not say what it is")
        if format_ > self.format_max:
            raise NewerFormat(f"{self.path} has format {format_}; this version reads up to {self.format_max}")
        if meta.get("uuid") != self._uuid:
            raise self.damaged(f"{self.path} belongs to another state folder ({meta.get('uuid')})")
        self.lsn = lsn
        return format_

    def _digest(self, run: int, column: str, at: int, content: bytes) -> bytes:
        hasher = xxhash.xxh3_64(f"{run} {column} {at} ".encode(), seed=self._seed)
        hasher.update(content)
        return hasher.digest()

    @classmethod
    def _explain(cls, path: str, error: sqlite3.Error) -> NoReturn:
        """Raise our own error for one of SQLite."""
        explain(cls.what, path, error, cls.damaged)


def connect(path: str, mode: str) -> sqlite3.Connection:
    """Open a file; `mode` is "ro", "rw" or "rwc" (made where missing). Transactions are the caller's."""
    uri = f"file:{quote(path)}?mode={mode}"
    return sqlite3.connect(uri, uri=True, timeout=BUSY_S, isolation_level=None)


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
