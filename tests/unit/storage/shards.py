"""Logs in shards for the tests: on the fake disk, with records of many runs, and syncs in any order."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from uuid import UUID

import orjson

from actors.protocol.records import Record, RecordType
from runtime.storage.files import Files, LogFile
from runtime.storage.reader import read_log
from runtime.storage.report import RecoveryReport
from runtime.storage.segment import LogPlace, segment_name
from runtime.storage.wal import LogWriter
from tests.sim.disk import FakeDisk

UUID_HERE = UUID(int=0x1234_5678_9ABC_DEF0_0FED_CBA9_8765_4321)
PLACE = LogPlace("/log", UUID_HERE, 3)


def place_of(shards: int) -> LogPlace:
    """A log in so many shards."""
    return LogPlace("/log", UUID_HERE, shards)


def new_disk(seed: int = 0, shards: int = 3) -> FakeDisk:
    """An empty disk with the folders of a log."""
    disk = FakeDisk(seed)
    disk.make_folder("/log")
    for shard in range(shards):
        disk.make_folder(f"/log/{shard}")
    return disk


def path_of(shard: int, no: int) -> str:
    """Path of a segment."""
    return f"/log/{shard}/{segment_name(no)}"


def record_of(lsn: int, random: Random) -> Record:
    """A record of some run, or of none."""
    fill = random.randbytes(random.choice((0, 3, 40, 40, 700))).hex()
    if random.random() < 0.1:
        return Record(lsn, RecordType.POLICY, orjson.dumps([fill]))
    run = random.randrange(1, 12)
    if random.random() < 0.5:
        return Record(lsn, RecordType.COMPLETED, orjson.dumps([17, [[lsn, run, [1], [fill], 1, [2]]]]))
    return Record(lsn, RecordType.CANCEL, orjson.dumps([run, None, [], lsn, fill]))


def records_from(lsn: int, count: int, random: Random) -> list[Record]:
    """Contiguous ones."""
    return [record_of(lsn + i, random) for i in range(count)]


class AnyOrder:
    """Syncs one after the other in an order by chance, as a crash between them finds them."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def __call__(self, files: Sequence[LogFile]) -> None:
        for file in self._random.sample(list(files), len(files)):
            file.sync()


def recover(files: Files, place: LogPlace = PLACE, *, salvage: bool = False) -> tuple[list[Record], RecoveryReport]:
    """Read a log to its end."""
    log = read_log(place, files, salvage=salvage)
    return list(log), log.report()


def open_writer(files: Files, random: Random, place: LogPlace = PLACE, *, segment_bytes: int = 1 << 20) -> LogWriter:
    """Recover and open for writing."""
    return LogWriter(place, files, recover(files, place)[1], segment_bytes=segment_bytes, syncs=AnyOrder(random))
