"""`checkpoint.db`: the state as of some LSN, in SQLite, so that recovery reads that and the log behind it.

    meta(name, value)                               format, uuid, lsn, digest (of the lsn and the sum of all digests)
    part(run, col, at, digest, packed, body)        as `actors.saved` makes them; `packed`: how, see `packing`
    delta(run, col, at, digest, spent, body)        what leads from that part to what it is now, where there is one

A checkpoint is one transaction, synced: whatever is killed, and whenever, what is read is the old one or the new one,
whole. A part that did not change is not written again, and of one that did only the difference to what is in `part`: so
a checkpoint costs what changed. What is known not to have changed is not even made to be compared: who puts parts says
that it stays. When the differences of a part (`spent`) come to as much as itself it is written whole, and what was
written for it is then never more than twice the least that could have been. So it is when it takes up the changes that
came to a run (`actors.saved_again`): to search it for differences takes longer than all these changes took.

Checked when read: each part, as it is now, against its digest, which is seeded by the folder's uuid and covers its
place; all digests together against `meta`; and SQLite's own structure as far as it is read. Damage is
`CheckpointUnusable`.

The sum of digests is their XOR: it is brought up to date by those of parts that come and go, and each digest has the
place of its part in it, so that parts that are missing or in each other's places are found by it as by any other.

Formats: 1 had no differences, and packed by zlib; 1 and 2 had a digest of all digests one after the other. They are
read, and become 3 when they are written.

Concurrency: one writer; readers beside it see the checkpoint before or after. A reader that may not write finds the
journal that a crash left and looks at a copy of both files.
Known limits: reading holds the writer up until it is over, and is held up by a commit, `BUSY_S` at most.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import chain, groupby
from operator import attrgetter
from typing import Any, Final, Self
from uuid import UUID

import xxhash

from actors.protocol.errors import CheckpointUnusable, StateFolderError
from actors.saved import ENGINE, SavedPart
from actors.saved_again import Unchanged
from actors.saved_run import CHANGE
from runtime.storage.packing import PLAIN, PackingBroken
from runtime.storage.sqlite_file import META_TABLE, PART_TABLE, PartsFile, connect

CHECKPOINT_NAME: Final = "checkpoint.db"
CHECKPOINT_FORMAT: Final = 3
DELTA_BASE_BYTES_MIN: Final = 256
"""What takes less is written whole."""
FREE_PAGES_MIN: Final = 1024
"""So many free pages, and a quarter of the file, are given back to the file system."""
_TABLES: Final = ("part", "delta")
_PAGES: Final = ("freelist_count", "page_count")
_SCHEMA: Final = (META_TABLE, PART_TABLE)
_DELTAS: Final = """CREATE TABLE IF NOT EXISTS delta(
    run INTEGER, col TEXT, at INTEGER, digest BLOB, spent INTEGER, body BLOB, PRIMARY KEY (run, col, at)
)"""
_BOTH: Final = "part LEFT JOIN delta USING (run, col, at)"
_ALL_1: Final = "SELECT run, col, at, digest, packed, body, NULL, NULL FROM part ORDER BY run, col, at"
"""In the first format."""
_ALL: Final = f"""SELECT run, col, at, part.digest, packed, part.body, delta.digest, delta.body FROM {_BOTH}
                  ORDER BY run, col, at"""
_DIGESTS: Final = f"SELECT coalesce(delta.digest, part.digest) FROM {_BOTH}"
_OF_RUN: Final = f"SELECT col, at, coalesce(delta.digest, part.digest) FROM {_BOTH} WHERE run = ?"
_BASE: Final = f"SELECT packed, part.body, coalesce(spent, 0) FROM {_BOTH} WHERE run = ? AND col = ? AND at = ?"


class CheckpointFile(PartsFile):
    """An opened checkpoint. Made by `read` or `write`; `close` it."""

    file_name = CHECKPOINT_NAME
    what = "checkpoint"
    format_max = CHECKPOINT_FORMAT
    damaged = CheckpointUnusable

    def __init__(self, path: str, uuid: UUID, database: sqlite3.Connection, *, copied: bool = False) -> None:
        super().__init__(path, uuid, database, copied=copied)
        self._format = CHECKPOINT_FORMAT
        self._sum: int | None = None
        """Of the digests of all parts, when all were read or written here."""
        self._moved = 0
        """What the transaction makes of it."""

    @classmethod
    def write(cls, folder: str, uuid: UUID) -> Self:
        """Open the checkpoint of a state folder to go on with it, made where missing.

        Raises:
            CheckpointUnusable, StateFolderError: As `read`. DiskFull: There is no room.
        """
        path = os.path.join(folder, CHECKPOINT_NAME)
        try:
            database = connect(path, "rwc")
        except sqlite3.Error as error:
            cls._explain(path, error)
        found = cls(path, uuid, database)
        try:
            database.execute("PRAGMA auto_vacuum=INCREMENTAL")  # before there is a table
            database.execute("PRAGMA synchronous=EXTRA")
            found._begins()
            database.execute("COMMIT")
        except sqlite3.Error as error:
            found.close()
            cls._explain(path, error)
        return found

    def parts(self) -> Iterator[SavedPart]:
        """All parts, those of a run together, each column in order.

        Raises:
            CheckpointUnusable: Damaged; what came before is of no use, either.
        """
        self._sum, sum_ = None, 0
        in_order = xxhash.xxh3_64(f"{self.lsn} ".encode(), seed=self._seed)
        try:
            rows = self._database.execute(_ALL_1 if self._format == 1 else _ALL)
            for run, column, at, digest, packed, body, later, delta in rows:
                content = self.packer.unpack(packed, body)
                if later is not None:
                    digest, content = later, self.packer.changed(content, delta)
                if self._digest(run, column, at, content) != digest:
                    raise CheckpointUnusable(f"{self.path} is damaged: column {column!r} of run {run} at {at}")
                sum_ ^= int.from_bytes(digest)
                in_order.update(digest)
                yield SavedPart(run, column, at, content)
        except (PackingBroken, TypeError) as broken:
            raise CheckpointUnusable(f"{self.path} is damaged: {broken}") from broken
        except sqlite3.Error as error:
            self._explain(self.path, error)
        total = in_order.digest() if self._format < 3 else self._total(self.lsn, sum_)
        if total != self._meta("digest"):
            raise CheckpointUnusable(f"{self.path} is damaged: parts of it are missing")
        self._sum = sum_

    def put(self, lsn: int, parts: Iterable[SavedPart | Unchanged], kept: Iterable[int]) -> int:
        """Write the next checkpoint in one transaction.

        Args:
            lsn: The latest record that the state has seen.
            parts: Of the runs that changed and of what is no run's, run by run: all parts, or what says that others
                stay (which comes first where it is all that are there).
            kept: Numbers of all runs that are there. The parts of others go.

        Returns:
            Bytes written, as they are stored. A crash or an error leaves the checkpoint before it.

        Raises:
            DiskFull: There is no room. CheckpointUnusable, StateFolderError: SQLite refuses.
        """
        sum_, self._sum, self._moved = self._sum, None, 0
        with self.transaction():
            written, sum_ = self._put(lsn, parts, set(kept), sum_)
        self.lsn, self._sum = lsn, sum_
        return written

    def give_back(self) -> None:
        """Make the file smaller where much of it is free. A failure is left for the next time."""
        with suppress(sqlite3.Error):
            free, pages = (self._database.execute(f"PRAGMA {name}").fetchone()[0] for name in _PAGES)
            if free >= FREE_PAGES_MIN and 4 * free >= pages:
                self._database.executescript("PRAGMA incremental_vacuum")  # `execute` takes one step, a page

    def _begin(self) -> bool:
        """Begin a transaction that sees one state of the file; False when it is empty."""
        self._database.execute("BEGIN")
        found = self._identify()
        if found is None:
            return False
        self._format = found
        return True

    def _meta(self, name: str) -> Any:
        row = self._database.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
        return None if row is None else row[0]

    def _total(self, lsn: int, sum_: int) -> bytes:
        return xxhash.xxh3_64(f"{lsn} {sum_}".encode(), seed=self._seed).digest()

    def _put(
        self, lsn: int, parts: Iterable[SavedPart | Unchanged], kept: set[int], sum_: int | None
    ) -> tuple[int, int]:
        """Returns the bytes written, and the sum of all digests, which before was this (None: it is not known)."""
        database = self._database
        if not database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            for statement in _SCHEMA:
                database.execute(statement)
        elif self._meta("lsn") != self.lsn:
            raise StateFolderError(f"another process wrote the checkpoint {self.path}")
        database.execute(_DELTAS)
        there = {run for (run,) in database.execute("SELECT DISTINCT run FROM part")}
        for run in there - kept - {ENGINE}:
            self._drop(run, self._there(run))
        written = sum(self._put_run(run, group) for run, group in groupby(parts, key=attrgetter("run")))
        if sum_ is None:
            sum_ = 0
            for (digest,) in database.execute(_DIGESTS):
                sum_ ^= int.from_bytes(digest)
        else:
            sum_ ^= self._moved
        meta = {"format": CHECKPOINT_FORMAT, "uuid": self._uuid, "lsn": lsn, "digest": self._total(lsn, sum_)}
        database.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", meta.items())
        self._format = CHECKPOINT_FORMAT
        return written, sum_

    def _put_run(self, run: int, parts: Iterator[SavedPart | Unchanged]) -> int:
        """Write what is new or changed of a run; returns how many bytes that took."""
        first = next(parts)
        old = {} if isinstance(first, Unchanged) and first.column is None else self._there(run)
        anew = any(column == CHANGE for column, _ in old)
        written = 0
        for part in chain((first,), parts):
            if isinstance(part, Unchanged):
                old = {key: digest for key, digest in old.items() if not part.covers(*key)}
                continue
            digest, before = self._digest(*part), old.pop(part[1:3], None)
            if before != digest:
                written += self._put_part(part, digest, new=before is None, anew=anew)
                self._moved ^= int.from_bytes(digest) ^ int.from_bytes(before or b"")
        if old:
            self._drop(run, old)
        return written

    def _there(self, run: int) -> dict[tuple[str, int], bytes]:
        """Digests of the parts of a run that are there."""
        return {(column, at): digest for column, at, digest in self._database.execute(_OF_RUN, (run,))}

    def _drop(self, run: int, parts: Mapping[tuple[str, int], bytes]) -> None:
        """Remove parts of a run."""
        for digest in parts.values():
            self._moved ^= int.from_bytes(digest)
        places = [(run, *place) for place in parts]
        for table in _TABLES:
            self._database.executemany(f"DELETE FROM {table} WHERE run = ? AND col = ? AND at = ?", places)

    def _put_part(self, part: SavedPart, digest: bytes, *, new: bool, anew: bool) -> int:
        """Write a part that is new, or changed, and then whole if `anew`; returns how many bytes that took."""
        run, column, at, content = part
        if not new and not anew and (taken := self._put_delta(part, digest)):
            return taken
        code, body = self.packer.pack(column, content)
        row = (run, column, at, digest, code, body)
        self._database.execute(f"INSERT {'' if new else 'OR REPLACE '}INTO part VALUES (?, ?, ?, ?, ?, ?)", row)
        if not new:
            self._database.execute("DELETE FROM delta WHERE run = ? AND col = ? AND at = ?", part[:3])
        return len(body)

    def _put_delta(self, part: SavedPart, digest: bytes) -> int:
        """Write the difference to the part that is there, if it is worth it; returns the bytes, 0 when it is not."""
        packed, body, spent = self._database.execute(_BASE, part[:3]).fetchone()
        if packed == PLAIN or len(body) < DELTA_BASE_BYTES_MIN or spent >= len(body):
            return 0
        try:
            difference = self.packer.difference(self.packer.unpack(packed, body), part.body)
        except PackingBroken:  # what is there is damaged, and written anew
            return 0
        spent += len(difference)
        if spent > len(body):
            return 0
        row = (*part[:3], digest, spent, difference)
        self._database.execute("INSERT OR REPLACE INTO delta VALUES (?, ?, ?, ?, ?, ?)", row)
        return len(difference)
