"""Logs for the tests of the storage: on the fake disk, small, with known records."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from actors.protocol.records import Record
from runtime.storage.files import Files
from runtime.storage.reader import RecoveryReport, read_log
from runtime.storage.segment import LogPlace, segment_name
from runtime.storage.wal import LogWriter
from tests.sim.disk import FakeDisk

PLACE = LogPlace("/log", UUID(int=0x1234_5678_9ABC_DEF0_0FED_CBA9_8765_4321))
OTHER = LogPlace("/log", UUID(int=77))


def new_disk(seed: int = 0) -> FakeDisk:
    """An empty disk with a log folder."""
    disk = FakeDisk(seed)
    disk.make_folder("/log")
    return disk


def path_of(no: int) -> str:
    """Path of a segment."""
    return f"/log/{segment_name(no)}"


def records_from(lsn: int, count: int, size: int = 20) -> list[Record]:
    """Records with a payload that tells them apart."""
    return [Record(lsn + i, 1 + (lsn + i) % 8, (b"%d:" % (lsn + i)).ljust(size, b"x")) for i in range(count)]


def recover(files: Files, *, salvage: bool = False, live: bool = False) -> tuple[list[Record], RecoveryReport]:
    """Read a log to its end."""
    log = read_log(PLACE, files, salvage=salvage, live=live)
    return list(log), log.report()


def open_writer(files: Files, segment_bytes: int = 1 << 20) -> LogWriter:
    """Recover and open for writing."""
    return LogWriter(PLACE, files, recover(files)[1], segment_bytes=segment_bytes)


def write_batches(
    files: Files, sizes: Sequence[int], *, sync: bool = True, segment_bytes: int = 1 << 20
) -> list[Record]:
    """Append batches of so many records and return them. As if killed then: without closing."""
    writer = open_writer(files, segment_bytes)
    written: list[Record] = []
    for count in sizes:
        batch = records_from(writer.next_lsn, count)
        writer.write(batch, sync=sync)
        written += batch
    return written
