"""Tables of the archive, and a run as a row of them: see `archive`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import orjson
import xxhash

from actors.archived import ArchivedRun
from actors.protocol.archive_errors import ArchiveUnusable
from actors.saved import SavedPart
from runtime.storage.sqlite_file import META_TABLE, PART_TABLE

PLAIN: Final = ArchivedRun._fields[:-1]
COLUMNS: Final = (*PLAIN, "node_types", "bytes", "expires_ns", "blobs", "parts", "digest")
SELECT: Final = f"SELECT {', '.join(COLUMNS)} FROM run"
SCHEMA: Final = (
    META_TABLE,
    """CREATE TABLE run(
        no INTEGER PRIMARY KEY, run_id TEXT, name TEXT, form TEXT, tenant TEXT, priority TEXT, state TEXT, session TEXT,
        seq INTEGER, covers INTEGER, submitted_ns INTEGER, started_ns INTEGER, ended_ns INTEGER, nodes INTEGER,
        succeeded INTEGER, failed INTEGER, cancelled INTEGER, skipped INTEGER, node_types TEXT, bytes INTEGER,
        expires_ns INTEGER, blobs TEXT, parts BLOB, digest BLOB
    )""",
    "CREATE INDEX run_by_id ON run(run_id)",
    "CREATE INDEX run_by_seq ON run(session, seq)",
    "CREATE INDEX run_by_expiry ON run(expires_ns) WHERE expires_ns IS NOT NULL",
    "CREATE INDEX run_by_end ON run(ended_ns)",
    PART_TABLE,
    "CREATE TABLE going(run INTEGER PRIMARY KEY)",
    "CREATE TABLE leaving(name TEXT PRIMARY KEY)",
    "CREATE TABLE forgotten(run INTEGER PRIMARY KEY, there INTEGER)",
)


class ArchiveEntry(NamedTuple):
    """A run to be put: its row, when it goes, its parts in order, and the names of its large values."""

    run: ArchivedRun
    expires_ns: int | None
    parts: Sequence[SavedPart]
    blobs: Sequence[str] = ()


def digest_of(row: Sequence[Any], seed: int) -> bytes:
    """Of all of a row that stands before its digest, but when the run goes, which another rule changes."""
    at = COLUMNS.index("expires_ns")
    said = [*row[:at], row[at + 1], row[at + 2].hex()]
    return xxhash.xxh3_64(orjson.dumps(said), seed=seed).digest()


def run_of(row: Sequence[Any], seed: int) -> ArchivedRun:
    """The run of a row with all columns. Raises ArchiveUnusable: it is not what was put."""
    try:
        if digest_of(row, seed) != row[-1]:
            raise ArchiveUnusable(f"the row of run {row[0]} in the archive is damaged")
        return ArchivedRun._make([*row[: len(PLAIN)], tuple(orjson.loads(row[len(PLAIN)]))])
    except (ValueError, TypeError, AttributeError) as broken:
        raise ArchiveUnusable(f"the row of run {row[0]!r} in the archive is damaged: {broken}") from broken
