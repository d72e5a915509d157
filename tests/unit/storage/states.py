"""State folders with the log of a small engine in many segments, and checkpoints of it."""

from __future__ import annotations

from pathlib import Path

import orjson

from actors.protocol import messages as msg
from actors.protocol.records import Record
from actors.replay import Replay
from actors.saved import kept_runs, save
from actors.scheduler import Scheduler
from runtime.storage.checkpoint import CheckpointFile
from runtime.storage.files import DiskFiles
from runtime.storage.folder import StateFolder
from runtime.storage.reader import read_log
from runtime.storage.segment import SegmentInfo
from runtime.storage.wal import LogWriter
from tests.unit.actors.rig import Rig, kind

FILES = DiskFiles()
SEGMENT_BYTES = 500


def busy_log(runs: int = 8, rig: Rig | None = None) -> list[Record]:
    """Runs that ended, one after the other."""
    rig = rig or Rig()
    for seq in range(1, runs + 1):
        rows = [[seq, 1, "i" * 40]]
        rig.say(msg.KindDefined("s", 1, kind()), msg.TasksSubmitted("s", rows, orjson.dumps(rows)))
        for worker, serial, node in rig.leases():
            rig.succeed(worker, serial, node, "v" * 40, run=seq)
    return rig.records


def fresh() -> Replay:
    return Replay(Scheduler(["default"]))


def fold(records: list[Record]) -> Replay:
    replay = fresh()
    for record in records:
        replay.fold(record)
    return replay


def make_folder(path: Path, records: list[Record]) -> tuple[SegmentInfo, ...]:
    """A state folder with this log; returns its segments."""
    with StateFolder.open(path) as folder:
        log = read_log(folder.log, FILES)
        list(log)
        writer = LogWriter(folder.log, FILES, log.report(), segment_bytes=SEGMENT_BYTES)
        for record in records:
            writer.write([record], sync=False)
        writer.close()
        log = read_log(folder.log, FILES)
        list(log)
        return log.report().segments


def put_checkpoint(path: Path, records: list[Record], lsn: int) -> None:
    """A checkpoint as of a record."""
    replay = fold([record for record in records if record.lsn <= lsn])
    with (
        StateFolder.open(path, owner=False, create=False) as folder,
        CheckpointFile.write(folder.path, folder.uuid) as checkpoint,
    ):
        checkpoint.put(lsn, save(replay), kept_runs(replay))


def cut(path: Path, below: int) -> None:
    """Remove the segments with smaller numbers."""
    for file in (path / "log").iterdir():
        if int(file.stem) < below:
            file.unlink()
