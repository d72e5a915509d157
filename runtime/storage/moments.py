"""A state folder read up to some moment, from its checkpoint and its log: for whoever asks what was known then.

    checkpoint (LSN 0 to C) ──► load ──┐
    log        (LSN f to n) ──────────►└── fold ──► moment ──► fold ──► moment ──► ... ──► end

The checkpoint is passed over where the log is whole and a moment lies before it. Records are folded by the code of a
recovery (`actors.replay`): there is no second implementation of what a record means. Nothing is changed, and an engine
may write, checkpoint and cut meanwhile; who was overtaken by that reads again (`resume.until_whole`).

Concurrency: one thread for each reading.
Known limits: nobody knows what ran, since the log tells of ends and not of starts. A moment has no runs that were
forgotten since, where the log they were in is gone.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

from actors.protocol.errors import CheckpointUnusable, ConfigurationError, UnknownMoment
from actors.protocol.moments import precise_moment
from actors.protocol.records import LSN_FIRST, Record, RecordType
from actors.record_times import RecordTimes
from actors.replay import Replay
from actors.saved import load
from runtime.storage.checkpoint import CheckpointFile
from runtime.storage.files import Files
from runtime.storage.folder import StateFolder
from runtime.storage.reader import read_log
from runtime.storage.recovery import scheduler_of_all
from runtime.storage.resume import first_lsn, missing_checkpoint
from runtime.units import datetime_to_ns


class Moment(NamedTuple):
    """A moment of a log: behind the record with this LSN, or before the first one that tells of something later than
    this time (ns since 1970). With neither it is now: the end of the log."""

    lsn: int | None = None
    wall_ns: int | None = None

    def is_before(self, lsn: int, at_ns: int | None) -> bool:
        """Whether a record tells of something later. `at_ns` is when it was written, as far as it says so."""
        if self.lsn is not None:
            return lsn > self.lsn
        return self.wall_ns is not None and at_ns is not None and at_ns > self.wall_ns

    def __str__(self) -> str:
        return f"LSN {self.lsn:,}" if self.lsn is not None else precise_moment(self.wall_ns or 0)


NOW: Final = Moment()
BEGIN: Final = Moment(lsn=-1)
"""The first one that a folder still knows: behind the first record of its log, or of what its checkpoint has."""


def moment_of(at: object, what: str) -> Moment:
    """The moment that somebody means: an LSN, a time with a time zone, "begin", or "now" or None for now.

    Args:
        at: What was given.
        what: For what, in words.

    Raises:
        ConfigurationError: It is none of them.
    """
    if at is None or at == "now":
        return NOW
    if at == "begin":
        return BEGIN
    if isinstance(at, Moment):
        return at
    if isinstance(at, datetime) and at.tzinfo is not None:
        return Moment(wall_ns=datetime_to_ns(at))
    if type(at) is int:
        return Moment(lsn=at)
    raise ConfigurationError(
        f"{what} must be an LSN, a datetime with a time zone (datetime.now(UTC) - timedelta(hours=2)), "
        f'"begin" or "now", not {at!r:.60}'
    )


class DatedReplay(Replay):
    """A replay for somebody who only reads: it keeps whatever the log says, and knows when that was written.

    Args:
        load_blob: Reads what records have in files.
    """

    def __init__(self, load_blob: Any) -> None:
        super().__init__(scheduler_of_all(), load_blob)
        self.times = RecordTimes()
        self._latest: Record | None = None
        """The latest record that says when it was written."""

    def fold(self, record: Record) -> None:
        super().fold(record)
        if self.times.tells(record):
            self._latest = record
        if record.type == RecordType.OPENED:
            self.times.at(record)

    def load(self, data: dict[str, Any]) -> None:
        super().load(data)
        self.times.offset_ns = self.offset_ns or None

    @property
    def told_ns(self) -> int:
        """When the latest record that says so was written (wall clock); 0: none did."""
        return (self.scheduler.wall_ns if self._latest is None else self.times.at(self._latest)) or 0


class MomentReading:
    """One reading of a state folder, up to one moment after the other.

    Args:
        folder: The state folder.
        files: The seam to the disk that has the log.
        replay: Fresh.
        moments: Where it stops, in whatever order.
        upto_lsn: The last record that may be read; None: all that is written.
        whole: Read all of a log that is whole, also where the checkpoint would do.

    Attributes:
        first_lsn: The first record that was read; 0: none yet.
        last_lsn: The last one, or that of the checkpoint.
    """

    def __init__(
        self,
        folder: StateFolder,
        files: Files,
        replay: DatedReplay,
        moments: Sequence[Moment],
        *,
        upto_lsn: int | None = None,
        whole: bool = False,
    ) -> None:
        self.replay = replay
        self.first_lsn = self.last_lsn = 0
        self._folder = folder
        self._files = files
        self._moments = moments
        self._timed = any(moment.wall_ns is not None for moment in moments)
        self._upto_lsn = (1 << 62) if upto_lsn is None else upto_lsn
        self._whole = whole
        self.overtaken = False
        """Whether the log was cut while it was read, so that something is missing."""

    def reached(self) -> Iterator[int]:
        """Read on; gives the place of each moment when the replay is there. Ends early when it was overtaken.

        Raises:
            UnknownMoment: The log does not reach there. CheckpointUnusable: what was before the log is not there.
            LogCorrupt, NewerFormat, StateFolderError: it cannot be read.
        """
        replay = self.replay
        self.last_lsn = base_lsn = self._begin()
        moments = self._moments
        reader = read_log(self._folder.log, self._files, live=True, after_lsn=base_lsn)
        ahead, open_ = [place for place, moment in enumerate(moments) if moment != NOW], len(moments)
        for record in reader:
            if record.lsn > self._upto_lsn:
                break
            at_ns = None
            # What results say of their time is costly to read, and is of no use where moments are LSNs.
            if self._timed or not self.first_lsn or record.type == RecordType.OPENED:
                at_ns = replay.times.at(record)
            if not self.first_lsn:
                self.first_lsn = record.lsn
                if not base_lsn:
                    self._refuse_early(record.lsn, at_ns or 0)
            self.last_lsn = record.lsn
            for place in [place for place in ahead if moments[place].is_before(record.lsn, at_ns)]:
                self.overtaken = reader.passed_over
                yield place
                ahead.remove(place)
                open_ -= 1
            if open_:
                replay.fold(record)
        self.overtaken = reader.passed_over
        if self.overtaken:
            return
        for place in (place for place, moment in enumerate(moments) if moment == NOW or place in ahead):
            lsn, wall_ns = moments[place]
            if lsn is not None and lsn > self.last_lsn:
                raise UnknownMoment(f"LSN {lsn:,} is beyond the end of the log, which is LSN {self.last_lsn:,}")
            if wall_ns is not None and wall_ns > time.time_ns():
                raise UnknownMoment(f"{moments[place]} has not come; the log ends with LSN {self.last_lsn:,}")
            yield place

    def _begin(self) -> int:
        """Begin with the checkpoint, where the log goes on from it and no moment is before it; its LSN, or 0."""
        begins = first_lsn(self._folder, self._files) or LSN_FIRST
        if begins == LSN_FIRST:
            self._resolve(LSN_FIRST)
        if begins == LSN_FIRST and (self._whole or self._timed):
            return 0
        checkpoint = CheckpointFile.read(self._folder.path, self._folder.uuid)
        if checkpoint is not None:
            with checkpoint:
                known = [moment.lsn for moment in self._moments if moment.lsn is not None and moment != BEGIN]
                early = min(known, default=checkpoint.lsn)
                if begins == LSN_FIRST and early < checkpoint.lsn:
                    return 0
                if begins <= checkpoint.lsn + 1:
                    load(self.replay, checkpoint.parts())
                    self._resolve(checkpoint.lsn)
                    self._refuse_cut(checkpoint.lsn)
                    return checkpoint.lsn
        if begins != LSN_FIRST and (why := missing_checkpoint(self._folder, self._files, begins)) is not None:
            raise CheckpointUnusable(why)
        return 0

    def _resolve(self, lsn: int) -> None:
        """The first moment that there is is that of this record."""
        self._moments = [Moment(lsn=lsn) if moment == BEGIN else moment for moment in self._moments]

    def _refuse_cut(self, checkpoint_lsn: int) -> None:
        """Raise UnknownMoment when a moment is before the checkpoint that was loaded."""
        scheduler = self.replay.scheduler
        told_ns = max(scheduler.wall_ns, max(scheduler.ended_ns.values(), default=0))
        for moment in self._moments:
            if moment.lsn is not None and moment.lsn < checkpoint_lsn:
                since = f"LSN {checkpoint_lsn:,}"
            elif moment.wall_ns is not None and moment.wall_ns < told_ns:
                since = f"LSN {checkpoint_lsn:,}, {precise_moment(told_ns)}"
            else:
                continue
            raise UnknownMoment(f"{moment} is not kept: the log was cut behind a checkpoint as of {since}")

    def _refuse_early(self, lsn: int, at_ns: int) -> None:
        """Raise UnknownMoment when a moment is before the log, which begins with this record."""
        for moment in self._moments:
            if (moment.lsn is not None and moment.lsn < lsn) or (moment.wall_ns is not None and moment.wall_ns < at_ns):
                raise UnknownMoment(f"{moment} is before the log begins: LSN {lsn:,}, {precise_moment(at_ns)}")
