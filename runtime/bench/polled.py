"""Tasks in an SQLite table that workers poll: what programs have that keep their queue in a database.

Each worker process claims one task at a time with one statement, `UPDATE ... WHERE id = (SELECT ... LIMIT 1)
RETURNING`, runs it, and stores its result with a second one. When there is nothing to claim it waits `POLL_S` and looks
again. As a competent programmer would write it: write-ahead log, an index over what waits, one connection for each
process, looks that are spread over the interval. Tenants that are paused stand in a second table.

Every task counts how often it was started, so a double start shows. A crash of a worker leaves its task claimed for
ever; there are no retries, timeouts or results by reference.
"""

from __future__ import annotations

import multiprocessing
import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from multiprocessing.synchronize import Event, Semaphore
from pathlib import Path
from typing import Final, NamedTuple

from runtime.bench.figures import BenchError
from runtime.bench.handlers import increment
from runtime.bench.workloads.base import SECONDS_MAX
from runtime.config import Durability

POLL_S: Final = 1.0
"""Between two looks of a worker that found nothing: the default of River, Oban and DBOS."""
LOOK_S: Final = 0.02
"""Between two looks of whoever waits for the end; no faster, because a look is in the workers' way."""
SYNCHRONOUS: Final = (("fsync", "FULL"), ("os", "NORMAL"), ("none", "OFF"))
"""What SQLite is told, for the same promise as the engine's."""

_TABLES: Final = """
CREATE TABLE tasks (
    id INTEGER PRIMARY KEY, tenant TEXT NOT NULL, value INTEGER NOT NULL, state INTEGER NOT NULL DEFAULT 0,
    starts INTEGER NOT NULL DEFAULT 0, started_ns INTEGER, ended_ns INTEGER, result INTEGER
);
CREATE INDEX waiting ON tasks (state, id);
CREATE TABLE paused (tenant TEXT PRIMARY KEY);
"""
_CLAIM: Final = """
UPDATE tasks SET state = 1, starts = starts + 1 WHERE id = (
    SELECT id FROM tasks WHERE state = 0 AND tenant NOT IN (SELECT tenant FROM paused) ORDER BY id LIMIT 1
) RETURNING id, value
"""
_FINISH: Final = "UPDATE tasks SET state = 2, result = ?, started_ns = ?, ended_ns = ? WHERE id = ?"
_ENDED: Final = (
    "SELECT value, result, starts, started_ns, ended_ns FROM tasks WHERE state = 2 AND tenant = ? ORDER BY id"
)


class Ended(NamedTuple):
    """A task that has a result."""

    value: int
    result: int
    starts: int
    started_ns: int
    ended_ns: int


class PolledTable:
    """The side of whoever submits. Times are of the monotonic clock, which all processes share."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def pause(self, tenant: str) -> None:
        """Start nothing more of a tenant."""
        self._connection.execute("INSERT INTO paused VALUES (?)", (tenant,))

    def resume(self, tenant: str) -> None:
        """End that."""
        self._connection.execute("DELETE FROM paused WHERE tenant = ?", (tenant,))

    def submit(self, tenant: str, values: Iterable[int]) -> None:
        """Add tasks in one transaction."""
        with self._connection:
            self._connection.execute("BEGIN IMMEDIATE")
            self._connection.executemany(
                "INSERT INTO tasks (tenant, value) VALUES (?, ?)", ((tenant, value) for value in values)
            )

    def ended(self, tenant: str) -> list[Ended]:
        """The tasks of a tenant that have a result, in the order of submission."""
        return [Ended(*row) for row in self._connection.execute(_ENDED, (tenant,))]

    def wait(self, tenant: str, count: int, seconds: float) -> bool:
        """Wait until so many of a tenant have a result; false when the time is over before."""
        until = time.monotonic() + seconds
        asked = "SELECT count(*) FROM tasks WHERE state = 2 AND tenant = ?"
        while self._connection.execute(asked, (tenant,)).fetchone()[0] < count:
            if time.monotonic() > until:
                return False
            time.sleep(LOOK_S)
        return True


@contextmanager
def open_table(folder: Path, workers: int, durability: Durability | None) -> Iterator[PolledTable]:
    """A new table with worker processes that poll it; they have ended when this returns."""
    path, synchronous = str(folder / "tasks.sqlite"), dict(SYNCHRONOUS)[durability or "none"]
    context = multiprocessing.get_context("spawn")
    stop, ready = context.Event(), context.Semaphore(0)
    with closing(_connect(path, synchronous)) as connection:
        connection.executescript(_TABLES)
        arguments = [(path, synchronous, POLL_S * number / workers, ready, stop) for number in range(workers)]
        processes = [context.Process(target=_serve, args=each, daemon=True) for each in arguments]
        for process in processes:
            process.start()
        try:
            if not all(ready.acquire(timeout=SECONDS_MAX) for _ in processes):
                raise BenchError(f"the workers of the table did not start within {SECONDS_MAX:.0f} s")
            yield PolledTable(connection)
        finally:
            stop.set()
            for process in processes:
                process.join(SECONDS_MAX)
        if any(process.exitcode for process in processes):
            raise BenchError(f"workers of the table ended with status {[process.exitcode for process in processes]}")


def _connect(path: str, synchronous: str) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=60.0, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(f"PRAGMA synchronous = {synchronous}")
    return connection


def _serve(path: str, synchronous: str, first_wait_s: float, ready: Semaphore, stop: Event) -> None:
    """A worker process."""
    with closing(_connect(path, synchronous)) as connection:
        ready.release()
        stop.wait(first_wait_s)
        while not stop.is_set():
            claimed = connection.execute(_CLAIM).fetchone()
            if claimed is None:
                stop.wait(POLL_S)
                continue
            task, value = claimed
            started_ns = time.monotonic_ns()
            result = increment(value)
            connection.execute(_FINISH, (result, started_ns, time.monotonic_ns(), task))
