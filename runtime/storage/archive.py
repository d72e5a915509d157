"""`archive.db`: finished runs that the engine's memory let go of, in SQLite, until their time is over.

    meta(name, value)                               format, uuid, lsn (of the last record whose runs are here), rule
    run(no, run_id, ..., bytes, expires_ns, ...)    one row each, see `actors.archived`; `blobs` names its large values
    part(run, col, at, digest, packed, body)        its columns in chunks, as `actors.saved` makes them: no row per task
    going(run)                                      tombstones: the row is gone, parts go step by step (`archive_trim`)
    leaving(name)                                   orphans: large values that nothing refers to any more
    forgotten(run, there)                           deleted by hand, from here or before it came: it does not come

Large values are hard links in the folder `archive/`, by the names that they have in `blobs/`. Tables: `archive_rows`.

A run is put by its number, so putting it twice is putting it once. This file commits before the checkpoint does: a
crash in between archives the same runs again, and no crash loses one (`archiving`).

Checked when read: each part against its digest, which is seeded by the folder's uuid and covers its place; row and
parts together against the digest of the run. Damage is `ArchiveUnusable`, and concerns this file only.

Concurrency: several processes, one transaction at a time (SQLite's lock, `sqlite_file.BUSY_S` at most). Readers hold no
transaction between two pages, so a listing that takes long holds nobody up; a run that goes meanwhile is not in it.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final, Self
from uuid import UUID

import orjson
import xxhash

from actors.archived import ArchivedRun, ArchiveRule
from actors.protocol.archive_errors import ArchiveUnusable
from actors.saved import SavedPart
from runtime.storage.archive_rows import COLUMNS, PLAIN, SCHEMA, SELECT, ArchiveEntry, digest_of, run_of
from runtime.storage.folder import ARCHIVE_NAME
from runtime.storage.packing import PackingBroken
from runtime.storage.private_copy import open_copy
from runtime.storage.sqlite_file import PartsFile, connect, needs_copy

ARCHIVE_FORMAT: Final = 1
PAGE_ROWS: Final = 500


class ArchiveFile(PartsFile):
    """An opened archive. Made by `read` or `write`; `close` it.

    Attributes:
        lsn: The last record whose runs are here, as of opening.
    """

    file_name = ARCHIVE_NAME
    what = "archive"
    format_max = ARCHIVE_FORMAT
    damaged = ArchiveUnusable

    def __init__(self, path: str, uuid: UUID, database: sqlite3.Connection, *, copied: bool = False) -> None:
        super().__init__(path, uuid, database, copied=copied)
        self._passed: list[int] = []

    @classmethod
    def write(cls, folder: str, uuid: UUID) -> Self:
        """Open the archive of a state folder to change it, made where missing.

        Raises:
            ArchiveUnusable, NewerFormat, StateFolderError: As `read`. DiskFull: There is no room.
        """
        path = os.path.join(folder, ARCHIVE_NAME)
        try:
            found = cls(path, uuid, connect(path, "rwc"))
            try:
                for setting in ("auto_vacuum=INCREMENTAL", "synchronous=EXTRA", "secure_delete=OFF"):
                    found._database.execute(f"PRAGMA {setting}")
                with found.transaction() as database:
                    if not found._begin():
                        for statement in SCHEMA:
                            database.execute(statement)
                        meta = {"format": ARCHIVE_FORMAT, "uuid": found._uuid, "lsn": 0, "rule": ""}
                        database.executemany("INSERT INTO meta VALUES (?, ?)", meta.items())
            except BaseException:
                found.close()
                raise
        except sqlite3.Error as error:
            cls._explain(path, error)
        return found

    # --- reading --------------------------------------------------------------------------------------------------

    def summaries(
        self, run_id: str | None = None, state: str | None = None, before_no: int | None = None
    ) -> Iterator[ArchivedRun]:
        """The rows, latest run first, page by page.

        Args:
            run_id: Of this id only: there may be several, where an id was used again.
            state: Of runs that ended so only.
            before_no: Of runs with smaller numbers only.

        Raises:
            ArchiveUnusable: Damaged.
        """
        wanted = {"run_id = ?": run_id, "state = ?": state}
        terms = [term for term, value in wanted.items() if value is not None]
        values = [value for value in wanted.values() if value is not None]
        below = (1 << 62) if before_no is None else before_no
        statement = f"{SELECT} WHERE {' AND '.join([*terms, 'no < ?'])} ORDER BY no DESC LIMIT {PAGE_ROWS}"
        while True:
            rows = self._rows(statement, (*values, below))
            for row in rows:
                yield run_of(row, self._seed)
            if len(rows) < PAGE_ROWS:
                return
            below = rows[-1][0]

    def find(self, key: str) -> ArchivedRun | None:
        """The run of a public key, also when that is one task of a bundle; the latest where there are several."""
        rows = self._rows(f"{SELECT} WHERE run_id = ? ORDER BY no DESC LIMIT 1", (key,))
        session, _, number = key.rpartition("-")
        if not rows and session and number.isascii() and number.isdigit() and len(number) < 19:
            covering = f"{SELECT} WHERE session = ? AND seq <= ? ORDER BY seq DESC LIMIT 1"
            rows = self._rows(covering, (session, int(number)))
            rows = [row for row in rows if int(number) < row[PLAIN.index("seq")] + row[PLAIN.index("covers")]]
        return run_of(rows[0], self._seed) if rows else None

    def run(self, no: int) -> list[SavedPart]:
        """All parts of a run, each column in order; none: it is not here, or no longer.

        Raises:
            ArchiveUnusable: Damaged.
        """
        parts, total = [], self._total()
        with self._one_state():
            rows = self._rows(f"{SELECT} WHERE no = ?", (no,))
            if not rows:
                return []
            statement = "SELECT col, at, digest, packed, body FROM part WHERE run = ? ORDER BY col, at"
            for column, at, digest, packed, body in self._rows(statement, (no,)):
                try:
                    content = self.packer.unpack(packed, body)
                    sound = self._digest(no, column, at, content) == digest
                except (PackingBroken, TypeError) as broken:
                    raise ArchiveUnusable(f"{self.path} is damaged: {column!r} of run {no}: {broken}") from broken
                if not sound:
                    raise ArchiveUnusable(f"{self.path} is damaged: column {column!r} of run {no} at {at}")
                total.update(digest)
                parts.append(SavedPart(no, column, at, content))
        run_of(rows[0], self._seed)
        if total.digest() != rows[0][COLUMNS.index("parts")]:
            raise ArchiveUnusable(f"{self.path} is damaged: run {no} is not whole")
        return parts

    def numbers(self) -> list[int]:
        """Of all runs, ascending, also of those that are damaged. Raises ArchiveUnusable: SQLite cannot read them."""
        return [no for (no,) in self._rows("SELECT no FROM run ORDER BY no")]

    def blobs(self, no: int) -> list[str]:
        """Names of the large values of a run."""
        rows = self._rows("SELECT blobs FROM run WHERE no = ?", (no,))
        return [] if not rows or not rows[0][0] else list(orjson.loads(rows[0][0]))

    @property
    def rule(self) -> ArchiveRule | None:
        """By which it was kept last; None: nothing was said yet."""
        rows = self._rows("SELECT value FROM meta WHERE name = 'rule'", ())
        return ArchiveRule.of(orjson.loads(rows[0][0])) if rows and rows[0][0] else None

    def totals(self) -> tuple[int, int, int]:
        """How many runs and nodes there are, and in how many bytes."""
        ((runs, nodes, size),) = self._rows("SELECT count(*), sum(nodes), sum(bytes) FROM run")
        return runs, nodes or 0, size or 0

    def due_ns(self, bytes_max: int | None) -> int | None:
        """When something is to be trimmed (`archive_trim`): 0: at once; None: never, as it stands."""
        rows = self._rows("SELECT min(expires_ns), EXISTS(SELECT 1 FROM going) FROM run")
        ((first_ns, tombstones),) = rows
        over = bytes_max is not None and self.totals()[2] > bytes_max
        return 0 if tombstones or over else first_ns

    def check(self) -> list[str]:
        """What SQLite finds wrong with its own structure."""
        return [text for (text,) in self._rows("PRAGMA quick_check(20)") if text != "ok"]

    # --- writing --------------------------------------------------------------------------------------------------

    def put(self, entries: Iterable[ArchiveEntry]) -> int:
        """Put runs, in one transaction; those that are there are replaced, those that were forgotten are passed over.

        Args:
            entries: The runs.

        Returns:
            Bytes of their parts, as they are stored. A crash or an error leaves the archive as it was.

        Raises:
            DiskFull: There is no room. ArchiveUnusable, StateFolderError: SQLite refuses.
        """
        with self.transaction() as database:
            gone = self.forgotten()
            return sum((self._pass_over if entry.run.no in gone else self._put)(database, entry) for entry in entries)

    def settle(self, lsn: int, rule: ArchiveRule) -> None:
        """All runs up to this record are here, and stay by this rule from now on; one transaction. Raises as `put`.

        Those that were forgotten and would have come have passed by then, and those that were here do not come again.
        """
        with self.transaction() as database:
            self._obey(database, rule)
            database.execute("DELETE FROM forgotten WHERE there")
            database.executemany("DELETE FROM forgotten WHERE run = ?", [(no,) for no in self._passed])
            database.execute("UPDATE meta SET value = ? WHERE name = 'lsn'", (lsn,))
        self.lsn = lsn

    def obey(self, rule: ArchiveRule) -> None:
        """Runs that are here stay by this rule from now on; one transaction. Raises as `put`."""
        with self.transaction() as database:
            self._obey(database, rule)

    def forgotten(self) -> set[int]:
        """Numbers of runs that were deleted by hand, and might still come."""
        return {no for (no,) in self._rows("SELECT run FROM forgotten")}

    def forget(self, no: int) -> bool:
        """Delete a run now, and keep it from coming again; one transaction. False: it was not here. Raises as `put`."""
        with self.transaction() as database:
            there = self.let_go(database, [no]) > 0
            database.execute(f"INSERT OR {'REPLACE' if there else 'IGNORE'} INTO forgotten VALUES (?, ?)", (no, there))
            return there

    @staticmethod
    def let_go(database: sqlite3.Connection, numbers: Iterable[int]) -> int:
        """Delete the rows of runs; what else there is of them goes with `archive_trim`. Returns how many there were."""
        count = 0
        for no in numbers:
            row = database.execute("SELECT blobs FROM run WHERE no = ?", (no,)).fetchone()
            if row is None:
                continue
            count += 1
            names = orjson.loads(row[0]) if row[0] else ()
            database.executemany("INSERT OR IGNORE INTO leaving VALUES (?)", [(name,) for name in names])
            database.execute("DELETE FROM run WHERE no = ?", (no,))
            database.execute("INSERT OR IGNORE INTO going VALUES (?)", (no,))
        return count

    def give_back(self, pages: int) -> int:
        """Give so many free pages back to the file system; returns how many are left."""
        try:
            self._database.executescript(f"PRAGMA incremental_vacuum({pages})")  # `execute` takes one step, a page
            return int(self._database.execute("PRAGMA freelist_count").fetchone()[0])
        except sqlite3.Error as error:
            self._explain(self.path, error)

    # --- parts of it ----------------------------------------------------------------------------------------------

    @contextmanager
    def _one_state(self) -> Iterator[None]:
        """What is read in here is of one moment."""
        self._rows("BEGIN")
        try:
            yield
        finally:
            with suppress(sqlite3.Error):
                self._database.execute("COMMIT")

    def _rows(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        try:
            return self._database.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            if not (self._reads and not self._copied and needs_copy(error)):
                self._explain(self.path, error)
        self._go_to_copy()
        return self._rows(statement, values)

    def _go_to_copy(self) -> None:
        """Whoever wrote was killed since it was opened: read on in a copy, where its journal can be put right."""
        within = self._database.in_transaction
        try:
            copy = open_copy(self.path)
        except sqlite3.Error as error:
            self._explain(self.path, error)
        self._database.close()
        self._database, self._copied = copy, True
        if within:
            self._rows("BEGIN")

    def _pass_over(self, database: sqlite3.Connection, entry: ArchiveEntry) -> int:
        self._passed.append(entry.run.no)
        database.executemany("INSERT OR IGNORE INTO leaving VALUES (?)", [(name,) for name in entry.blobs])
        return 0

    def _put(self, database: sqlite3.Connection, entry: ArchiveEntry) -> int:
        no, size, total, rows = entry.run.no, 0, self._total(), []
        for _, column, at, body in sorted(entry.parts, key=lambda part: part[1:3]):
            digest = self._digest(no, column, at, body)
            total.update(digest)
            packed, stored = self.packer.pack(column, body)
            rows.append((no, column, at, digest, packed, stored))
            size += len(stored)
        row: list[Any] = [*entry.run[:-1], orjson.dumps(entry.run.node_types).decode(), size, entry.expires_ns]
        row += [orjson.dumps(list(entry.blobs)).decode() if entry.blobs else "", total.digest()]
        for table in ("part", "going"):
            database.execute(f"DELETE FROM {table} WHERE run = ?", (no,))
        database.executemany("DELETE FROM leaving WHERE name = ?", [(name,) for name in entry.blobs])
        database.executemany("INSERT INTO part VALUES (?, ?, ?, ?, ?, ?)", rows)
        marks = ", ".join("?" * len(COLUMNS))
        statement = f"INSERT OR REPLACE INTO run({', '.join(COLUMNS)}) VALUES ({marks})"
        database.execute(statement, (*row, digest_of(row, self._seed)))
        return size

    def _obey(self, database: sqlite3.Connection, rule: ArchiveRule) -> None:
        said = orjson.dumps(rule.to_json(), option=orjson.OPT_SORT_KEYS).decode()
        if database.execute("SELECT value FROM meta WHERE name = 'rule'").fetchone() == (said,):
            return
        for state, types in database.execute("SELECT DISTINCT state, node_types FROM run").fetchall():
            stay = rule.stay_ns(state, orjson.loads(types))
            database.execute(
                "UPDATE run SET expires_ns = ended_ns + ? WHERE state = ? AND node_types = ?", (stay, state, types)
            )
        database.execute("INSERT OR REPLACE INTO meta VALUES ('rule', ?)", (said,))

    def _total(self) -> Any:
        return xxhash.xxh3_64(seed=self._seed)
