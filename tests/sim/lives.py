"""A life of a state folder: its log grows and changes segments, checkpoints are taken and the log is cut behind them, a
subscription acknowledges and buries. After each step it says what was promised; `judge` looks what a crash left of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

import orjson

from actors.protocol.records import Record, RecordType
from actors.replay import Replay
from runtime.storage.cursors import Cursor, CursorFile
from runtime.storage.files import DiskFiles
from runtime.storage.folder import StateFolder
from runtime.storage.reader import RecoveryReport
from runtime.storage.resume import resume
from runtime.storage.take import take_checkpoint
from runtime.storage.verify import verify
from runtime.storage.wal import LogWriter
from tests.states import differences
from tests.unit.storage.states import busy_log, fresh

FILES: Final = DiskFiles()
SEGMENT_BYTES: Final = 600
NAME: Final = "billing"
Note = Callable[[Any], None]


@dataclass
class Promised:
    """The last word about each thing."""

    log: int = 0
    checkpoint: int = 0
    cursor: int = 0
    dead: int = 0

    @classmethod
    def by(cls, notes: list[Any]) -> Promised:
        """What was promised with these notes."""
        return cls(**dict(notes))


@dataclass
class Life:
    """See the module. `history` is what the log has ever held, in order; LSNs begin with 1."""

    state_dir: Path
    history: list[Record] = field(default_factory=list)

    def run(self, note: Note, batches: int = 20) -> None:
        """Open the folder, recover, go on, and leave it as a crash would."""
        with StateFolder.open(self.state_dir) as folder:
            replay, report = recovered(folder)
            writer = LogWriter(folder.log, FILES, report, segment_bytes=SEGMENT_BYTES)
            try:
                self._go_on(folder, writer, note, batches, replay)
            finally:
                writer.abandon()

    def _go_on(self, folder: StateFolder, writer: LogWriter, note: Note, batches: int, replay: Replay) -> None:
        del self.history[writer.next_lsn - 1 :]
        waiting = list(story())[len([r for r in self.history if r.type != RecordType.CHECKPOINT]) :]
        cursor = CursorFile(str(self.state_dir), NAME)
        try:
            for turn in range(min(batches, len(waiting) // 2)):
                self.write(writer, waiting[2 * turn : 2 * turn + 2], note)
                if len(writer.segments()) > 2:
                    self.checkpoint(folder, writer, note)
                lsn = writer.next_lsn - 1
                cursor.save(Cursor(lsn))
                note(("cursor", lsn))
                cursor.bury({"lsn": lsn})
                note(("dead", lsn))
        finally:
            cursor.close()

    def write(self, writer: LogWriter, records: list[Record], note: Note) -> None:
        """Write a batch, durably."""
        batch = [record._replace(lsn=writer.next_lsn + place) for place, record in enumerate(records)]
        self.history += batch
        writer.write(batch, sync=True)
        note(("log", batch[-1].lsn))

    def checkpoint(self, folder: StateFolder, writer: LogWriter, note: Note) -> None:
        """Take one, say so in the log, and cut that behind it."""
        active = writer.active
        taken = take_checkpoint(folder, active.first_lsn - 1, active.no, FILES)
        note(("checkpoint", taken.lsn))
        self.write(writer, [Record(0, RecordType.CHECKPOINT, orjson.dumps([taken.lsn]))], note)
        writer.remove_below(active.no)

    def judge(self, path: Path, promised: Promised) -> RecoveryReport:
        """Look at what a crash left: all that was promised, and nothing that never was."""
        if not (path / "mainspring.json").exists():
            assert promised == Promised()
            return self._opened(path)[1]
        found = verify(path)
        assert found.sound, found.problems
        assert found.checkpoint_lsn >= promised.checkpoint
        replay, report = self._opened(path)
        assert report.next_lsn > promised.log, "an acknowledged record is gone"
        assert differences(self._state(report.next_lsn - 1), replay) == []
        cursor = CursorFile(str(path), NAME)
        try:
            at = cursor.load()
            assert (0 if at is None else at.lsn) >= promised.cursor, "an acknowledgement is gone"
            dead = [letter["lsn"] for letter in cursor.dead()]
            assert promised.dead in (*dead, 0), "a dead letter is gone"
            assert dead == sorted(dead)
        finally:
            cursor.close()
        return report

    def _state(self, lsn: int) -> Replay:
        return folded(tuple(self.history[:lsn]))

    @staticmethod
    def _opened(path: Path) -> tuple[Replay, RecoveryReport]:
        with StateFolder.open(path) as folder:
            return recovered(folder)


def recovered(folder: StateFolder) -> tuple[Replay, RecoveryReport]:
    """As an engine begins."""
    replay = fresh()
    return replay, resume(folder, replay, FILES)


@cache
def story() -> tuple[Record, ...]:
    """What is written in a life."""
    return tuple(busy_log(20))


@cache
def folded(records: tuple[Record, ...]) -> Replay:
    """The state after these records."""
    replay = fresh()
    for record in records:
        replay.fold(record)
    return replay
