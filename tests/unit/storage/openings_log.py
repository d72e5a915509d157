"""State folders whose logs have openings only, which are an event each, for tests of who reads events."""

from __future__ import annotations

from pathlib import Path

import orjson

from actors.protocol.records import Record, RecordType
from runtime.storage.files import DiskFiles
from runtime.storage.folder import StateFolder
from runtime.storage.reader import read_log
from runtime.storage.wal import LogWriter


class OpeningsLog:
    """A state folder with such a log. No engine has it open.

    Args:
        path: Of the folder.
        segment_bytes: After which a segment is closed.
        shards: Of its log; openings are in the first one.
    """

    def __init__(self, path: Path, segment_bytes: int, shards: int | None = None) -> None:
        self.path = str(path)
        with StateFolder.open(self.path, log_shards=shards) as folder:
            self.uuid = str(folder.uuid)
            log = read_log(folder.log, DiskFiles())
            list(log)
            self.writer = LogWriter(folder.log, DiskFiles(), log.report(), segment_bytes=segment_bytes)

    def write(self, count: int) -> None:
        """Log so many openings."""
        for _ in range(count):
            lsn = self.writer.next_lsn
            opened = orjson.dumps({"now_ns": 1, "wall_ns": lsn, "next_run_no": 1})
            self.writer.write([Record(lsn, RecordType.OPENED, opened)], sync=False)

    def lose(self) -> int:
        """All but the last segment goes; returns the first LSN that is kept."""
        self.writer.remove_below(self.writer.active.no)
        return self.writer.active.first_lsn

    def close(self) -> None:
        """End writing."""
        self.writer.close()
