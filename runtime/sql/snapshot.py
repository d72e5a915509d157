"""What a state folder knew at some LSN, found from its checkpoint and its log, and kept up as the log grows.

    FolderState.now(upto)      checkpoint ──► fold the log up to there; the next call folds what came since
    FolderState.then(moment)   the same, anew, up to that moment; the latest of these is kept

Nothing is asked of the engine and nothing is written. Records are folded by the code of recovery (`actors.replay`), so
what is told here is what a start would find. Segments that are removed while they are read let it begin anew, at the
checkpoint behind which they were removed; no file is held open between two calls, so what is removed gives its room
back.

Invariants: what is folded ends between two records; after any error the next call begins anew.
Concurrency: one thread at a time; an engine may write, checkpoint and cut meanwhile.
Known limits: all of the state is in memory, as in the engine. Nobody knows what ran: the log tells of ends, not of
starts. A moment of the past has no runs that were forgotten since, where the log they were in is gone.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from actors.owed import ALL_RUNS, owed_below
from actors.protocol.event_errors import CursorTooOld
from actors.protocol.records import Record
from actors.released import released
from actors.run import Run
from actors.scheduler import Scheduler
from runtime.mail.blobs import BlobStore
from runtime.sql.archive_source import GoneRun
from runtime.sql.budget import Budget
from runtime.storage.files import DiskFiles
from runtime.storage.folder import StateFolder
from runtime.storage.moments import BEGIN, NOW, DatedReplay, Moment, MomentReading
from runtime.storage.resume import until_whole
from runtime.storage.sharded_tail import open_tail

NOTHING_GONE: Final[Mapping[int, GoneRun]] = MappingProxyType({})
TURN_RECORDS: Final = 256
"""Records between two looks at the time; then the effects that an engine would carry out are thrown away."""


class Snapshot(NamedTuple):
    """What was known behind the record `lsn`; `at_ns` is when the latest record was written that says so, 0: none.

    `gone` are the runs that memory let go of since the folder has an archive, and that may not be there yet.
    """

    lsn: int
    at_ns: int
    scheduler: Scheduler
    gone: Mapping[int, GoneRun] = NOTHING_GONE


class Following(DatedReplay):
    """A replay that is looked at between records, for as long as somebody likes.

    It lets go of what only an engine needs: submissions of sessions that will not come again, and effects.

    Args:
        budget: Looked at every `TURN_RECORDS` records.
        blobs: Where large values are.
    """

    def __init__(self, budget: Budget, blobs: BlobStore) -> None:
        super().__init__(blobs.open)
        self.budget = budget
        self.gone: dict[int, GoneRun] = {}
        self.keeps_gone = False
        """Whether runs that are let go of are kept, because there is an archive; else those of which the log says that
        there will be one."""

    def fold(self, record: Record) -> None:
        super().fold(record)
        if not self.records % TURN_RECORDS:
            self.scheduler.taken()
            self.budget.check()

    def snapshot(self) -> Snapshot:
        """What is known now."""
        scheduler = self.scheduler
        scheduler.taken()
        scheduler.keys.expire(scheduler.wall_ns)
        return Snapshot(scheduler.lsn, self.told_ns, scheduler, self.gone)

    def archived(self, upto_lsn: int | None) -> None:
        """The archive has what records up to this one let go of; None: there is none yet."""
        self.keeps_gone = upto_lsn is not None
        self.gone = {no: gone for no, gone in self.gone.items() if gone.lsn > (upto_lsn or 0)}

    def _released(self, record: Record) -> None:
        book, ended_ns = self.scheduler.book, self.scheduler.ended_ns
        below = ALL_RUNS if self.keeps_gone else owed_below(self.opened, ALL_RUNS, archives=False)
        for no in released(record.payload) if below else ():
            if no < below and (run := book.finished.get(no)) is not None:
                self.gone[no] = GoneRun(record.lsn, run, ended_ns.get(no))
        super()._released(record)

    def _opened(self, record: Record) -> None:
        super()._opened(record)
        self.scheduler.book.forget_sessions("")

    def _keys(self, record: Record) -> None:
        super()._keys(record)
        self.scheduler.keys.again.clear()

    def _debounced(self, record: Record) -> None:
        super()._debounced(record)
        self.scheduler.keys.again.clear()

    def _close(self, run: Run, record: Record, ended_ns: int) -> None:
        super()._close(run, record, ended_ns)
        if not run.open:
            self.scheduler.schedules.reopened(run)  # its schedule need not know it any more


class FolderState:
    """See the module.

    Args:
        path: The state folder.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = os.fspath(path)
        self._now: Following | None = None
        self._then: tuple[Moment, Snapshot] | None = None

    def now(self, upto_lsn: int | None, budget: Budget, archived_lsn: int | None = None) -> Snapshot:
        """What is known now.

        Args:
            upto_lsn: The last record that may be read; None: all that is written.
            budget: Ends it.
            archived_lsn: Up to where the archive has what was let go of; None: there is none.

        Raises:
            QueryTooLong: It took too long. StateFolderError, LogCorrupt, CheckpointUnusable: it cannot be read.
        """
        followed, self._now = self._now, None  # whatever goes wrong, the next call begins anew
        if followed is not None and archived_lsn is not None and not followed.keeps_gone:
            followed = None  # there is an archive by now: what was let go of behind it was not kept
        if followed is not None:
            followed.budget = budget
            followed.archived(archived_lsn)
            try:
                self._follow(followed, upto_lsn)
            except CursorTooOld:  # a checkpoint was taken, and the log cut behind it
                followed = None
        if followed is None:
            followed = self._begin(NOW, upto_lsn, budget, archived_lsn)
        if upto_lsn is not None:  # else a recovery may cut off what is written and not durable
            self._now = followed
        return followed.snapshot()

    def then(self, moment: Moment, upto_lsn: int | None, budget: Budget, archived_lsn: int | None = None) -> Snapshot:
        """What was known at a moment.

        Args:
            moment: An LSN, or a time.
            upto_lsn: As for `now`.
            budget: Ends it.
            archived_lsn: As for `now`.

        Raises:
            UnknownMoment: The log does not reach there. Otherwise as `now`.
        """
        if self._then is not None and self._then[0] == moment:
            return self._then[1]
        self._then = None
        found = self._begin(moment, upto_lsn, budget, archived_lsn).snapshot()
        if moment.lsn is not None and moment != BEGIN:  # what else is meant may be another moment later
            self._then = moment, found
        return found

    # --- reading --------------------------------------------------------------------------------------------------

    def _follow(self, followed: Following, upto_lsn: int | None) -> None:
        """Fold what came since."""
        if upto_lsn is not None and upto_lsn <= followed.scheduler.lsn:
            return
        with (
            StateFolder.open(self._path, create=False, owner=False) as folder,
            open_tail(folder.log) as tail,
        ):
            tail.seek(followed.scheduler.lsn + 1)
            while records := tail.read(upto_lsn):
                for record in records:
                    followed.fold(record)

    def _begin(self, moment: Moment, upto_lsn: int | None, budget: Budget, archived_lsn: int | None) -> Following:
        """Read from the beginning up to a moment."""
        with StateFolder.open(self._path, create=False, owner=False) as folder:
            blobs = BlobStore(folder.blobs_path, fsync=False)

            def read() -> Following | None:
                replay = Following(budget, blobs)
                replay.archived(archived_lsn)
                reading = MomentReading(folder, DiskFiles(), replay, (moment,), upto_lsn=upto_lsn)
                next(reading.reached(), None)
                return None if reading.overtaken else replay

            return until_whole(folder, read)
