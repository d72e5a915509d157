"""Events of a state folder, read from its log in this process, from any place on. Waits for nothing.

Whoever reads more (a stream, a subscription, the command line) says how far the log may be read and when to look again.
Opening takes no lock: a folder can be read beside its engine, or without one.
"""

from __future__ import annotations

import os
import time
from datetime import datetime
from typing import TYPE_CHECKING, Final, Self

from actors.event_kinds import Event
from actors.protocol.errors import MainspringError
from actors.protocol.event_errors import CursorBeyondEnd
from actors.protocol.moments import precise_moment
from actors.protocol.records import LSN_FIRST, Record
from runtime.event_filter import EventFilter, Since, check_since, moment_ns
from runtime.mail.blobs import BlobStore
from runtime.storage.files import DiskFiles
from runtime.storage.folder import StateFolder
from runtime.storage.openings import read_openings
from runtime.storage.sharded_tail import open_tail, written_end

if TYPE_CHECKING:
    from actors.event_fold import EventFold
    from actors.replay import Replay

PORTION_EVENTS: Final = 2000
"""A reading of the log is told by so many events, and those of the record that reaches it."""


class EventReader:
    """See the module.

    Args:
        state_dir: The state folder.
        wanted: Which events.
        since: Where to begin; see `event_filter.Since`.
        place: Events of the record `since` that were had already: those up to this place.

    Raises:
        CursorTooOld, CursorBeyondEnd: The log does not have that place. StateFolderError: It cannot be read.
    """

    def __init__(
        self, state_dir: str | os.PathLike[str], wanted: EventFilter, since: Since = "begin", place: int = -1
    ) -> None:
        check_since(since)
        self._path = os.fspath(state_dir)
        with StateFolder.open(state_dir, create=False, owner=False) as folder:
            self._tail = open_tail(folder.log)
            self._blobs = BlobStore(folder.blobs_path, fsync=False)
        self._wanted = wanted
        self._unclocked = 0
        self._records: list[Record] = []
        self._at = 0
        self._broken: MainspringError | None = None
        self._matches = wanted.matcher() if wanted.looks_at_each else None
        self._from_ns = 0
        try:
            first = self._tail.next_lsn
            start = self._start(since, first)
            self._had = (start, place)
            self._fold = self._begun(start, first)
        except BaseException:
            self._tail.close()
            raise

    def _start(self, since: Since, first: int) -> int:
        """Go where reading begins; returns the LSN of its first record."""
        tail = self._tail
        if since == "begin":
            return first
        if isinstance(since, (float, datetime)):
            self._from_ns = moment_ns(since)
            if self._from_ns > time.time_ns():
                end = written_end(tail.place)
                raise CursorBeyondEnd(f"{precise_moment(self._from_ns)} has not come; the next LSN is {end}", end)
            start = tail.before_time(self._from_ns)
        else:
            start = written_end(tail.place) if isinstance(since, str) else since
        tail.seek(start)
        return start

    @property
    def next_lsn(self) -> int:
        """The record that is read next."""
        return self._records[self._at].lsn if self._at < len(self._records) else self._tail.next_lsn

    def read(self, upto_lsn: int | None = None) -> list[Event]:
        """The next events; none: there are no more records, as far as the log may be read.

        Args:
            upto_lsn: The last record to be read; None: as far as there are whole ones.

        Raises:
            CursorTooOld: What comes next was removed before it was read. LogCorrupt: the log is damaged there.
        """
        if self._unclocked:  # not at the opening: it may look through the log
            before = self._unclocked - 1
            openings = read_openings(self._path)
            opening = None if openings is None else openings.before(before)
            self._fold.set_clock(*self._tail.clock_at(before, opening))
            self._unclocked = 0
        matches = self._matches
        while found := self._portion(upto_lsn):
            if matches is not None:
                found = [event for event in found if matches(event)]
            if self._from_ns:
                found = self._since_then(found)
            if self._had[1] >= 0:
                lsn, place = self._had
                found = [event for event in found if event.lsn > lsn or event.place > place]
                self._had = (lsn, -1)
            if found:
                return found
        return []

    def _portion(self, upto_lsn: int | None) -> list[Event]:
        """Events of the next records, of wanted kinds; none: there are no more records.

        Few at a time: who has dealt with them lets them go before the collector of cycles has looked at them twice.
        """
        found: list[Event] = []
        events = self._fold.events
        while len(found) < PORTION_EVENTS:
            if self._at == len(self._records):
                if found:
                    break
                self._records, self._at = self._tail.read(upto_lsn), 0
                if not self._records:
                    break
            if self._broken is not None:
                raise self._broken
            record = self._records[self._at]
            try:
                found += events(record)
            except MainspringError as broken:
                self._broken = broken
                if found:
                    break
                raise
            self._at += 1
        return found

    def skip_to(self, lsn: int) -> None:
        """Go on with this record: what was before it is not kept any more."""
        self._tail.seek(lsn)
        self._records, self._at, self._broken = [], 0, None
        self._fold = self._begun(lsn, self._tail.first_lsn)

    def _begun(self, start: int, first: int) -> EventFold:
        """What makes events of records from this one on."""
        tail = self._tail
        from actors.event_fold import EventFold  # lazy: the fold of the log, which few programs need

        begins = start <= first == LSN_FIRST
        fold = EventFold(
            self._wanted.kinds, tail.submission, tail.below, self._blobs.open, begins=begins, base=self._load_checkpoint
        )
        self._unclocked = start if start > first else 0
        return fold

    def _load_checkpoint(self, replay: Replay, upto_lsn: int | None) -> int:
        from runtime.storage.resume import begin_if_cut  # lazy: few programs need the fold of the log

        with StateFolder.open(self._path, create=False, owner=False) as folder:
            return begin_if_cut(folder, replay, DiskFiles(), upto_lsn)

    def _since_then(self, found: list[Event]) -> list[Event]:
        """Without what was before the time that was asked for; what follows the first event since then is all had."""
        for index, event in enumerate(found):
            if event.at_ns >= self._from_ns:
                self._from_ns = 0
                return found[index:]
        return []

    def close(self) -> None:
        """Let go of the files."""
        self._tail.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
