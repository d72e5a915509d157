"""What a durable subscription remembers: what it gave out, what was acknowledged, and what it lost.

    given(events) ──► not acknowledged ──► ack(event) ──► cursor ──► file, every SAVE_S and whenever there is a pause

An acknowledgement is for the event and all before it. What is not acknowledged is given out again by whoever reads the
subscription next. Where nothing is open, the cursor goes on with what was read, also of events that nobody wanted.

Concurrency: `ack` from any thread.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from dataclasses import replace
from typing import Final

from actors.event_kinds import Event
from actors.protocol import limits
from actors.protocol.errors import CallerError, ConfigurationError, DiskFull
from actors.protocol.event_errors import CursorBeyondEnd, CursorTooOld, SubscriberTooSlow
from actors.protocol.words import counted
from runtime.checks import is_whole
from runtime.event_filter import LSN_MAX, EventFilter, Since
from runtime.event_reader import EventReader
from runtime.profile.ledger.books import LEDGER
from runtime.profile.ledger.kinds import SUBSCRIPTION
from runtime.profile.ledger.named import Named
from runtime.profile.ledger.sites import user_place
from runtime.storage.cursors import Cursor, CursorFile

_LOG: Final = logging.getLogger("mainspring")
SAVE_S: Final = 0.05
"""Between two writes of the cursor while events are acknowledged: a write waits for the disk."""


class EventCursor:
    """See the module. Opens the subscription and its reader.

    Args:
        state_dir: The state folder.
        name: Of the subscription.
        wanted: Which events.
        since: Where a new one begins.
        window: Events that may be given out and not acknowledged.
        keep_bytes: Log that is kept for it, see `Cursor`.

    Raises:
        ConfigurationError, SubscriptionInUse, StateFolderError, CursorBeyondEnd: As they say.
    """

    def __init__(
        self, state_dir: str, name: str, wanted: EventFilter, since: Since, window: int, keep_bytes: int
    ) -> None:
        problems = []
        if not is_whole(window, 1, limits.EVENTS_HELD_MAX):
            problems.append(f"window must be a whole number from 1 to {limits.EVENTS_HELD_MAX:,}, not {window!r:.60}")
        if not is_whole(keep_bytes, 0, 1 << 62):
            problems.append(f"keep_bytes must be a whole number, not {keep_bytes!r:.60}")
        if problems:
            raise ConfigurationError("subscription: " + "; ".join(problems))
        self.window = window
        self.lost: list[tuple[int, int]] = []
        """LSNs, from and to, that were removed before they were read."""
        self.file = CursorFile(state_dir, name)
        self._lock = threading.Lock()
        self._open: deque[Event] = deque()
        self._saved_s = 0.0
        self._full = False
        try:
            self.reader = self._opened(state_dir, wanted, since, keep_bytes)
        except BaseException:
            self.file.close()
            raise
        code, lasti = user_place()
        self._token = LEDGER.track(SUBSCRIPTION, Named(self, name), code=code, lasti=lasti)
        self._saved: Cursor | None = None
        self.save()

    def _opened(self, state_dir: str, wanted: EventFilter, since: Since, keep_bytes: int) -> EventReader:
        found = self.file.load()
        if found is None:
            reader = EventReader(state_dir, wanted, since)
            self._cursor = Cursor(reader.next_lsn, -1, keep_bytes)
            return reader
        self._cursor = replace(found, keep_bytes=keep_bytes)
        try:
            return EventReader(state_dir, wanted, found.lsn, found.place)
        except CursorTooOld as gone:
            self._lose(found.lsn, gone.first_lsn)
            return EventReader(state_dir, wanted, "begin")
        except CursorBeyondEnd as beyond:
            raise CursorBeyondEnd(
                f"subscription {self.file.name!r} goes on with LSN {found.lsn}, but the log ends before LSN "
                f"{beyond.next_lsn}: it has lost its end, or is that of another folder; unsubscribe to begin anew",
                beyond.next_lsn,
            ) from beyond

    def skip(self, gone: CursorTooOld) -> None:
        """The log went on without it: go on with what is kept."""
        first = self.reader.next_lsn
        self.reader.skip_to(gone.first_lsn)
        self._lose(first, gone.first_lsn)

    def _lose(self, lsn: int, first: int) -> None:
        self.lost.append((lsn, first - 1))
        self._cursor = replace(self._cursor, lsn=first, place=-1)
        _LOG.warning("subscription %s: LSNs %d to %d went before they were read", self.file.name, lsn, first - 1)

    # --- given and acknowledged -----------------------------------------------------------------------------------

    @property
    def unacknowledged(self) -> int:
        """Events that were given out and not acknowledged."""
        return len(self._open)

    @property
    def dead(self) -> int:
        """Events that were given up."""
        return self._cursor.dead

    def room(self, most: int) -> int:
        """How many of so many events may be given out now. Raises SubscriberTooSlow: none."""
        left = self.window - len(self._open)
        if left <= 0:
            raise SubscriberTooSlow(f"{counted(len(self._open), 'event')} are not acknowledged; ack() makes room")
        return min(most, left)

    def given(self, events: list[Event]) -> None:
        """These were given out."""
        with self._lock:
            self._open.extend(events)

    def ack(self, upto: Event | int) -> None:
        """This event, or all of a record, and what was given out before it, is dealt with; write that now and then.

        Raises:
            CallerError: It was not given out.
        """
        if self.acknowledge(upto):
            self.save()

    def acknowledge(self, upto: Event | int) -> bool:
        """The same without writing it; returns whether it should be written now.

        Raises:
            CallerError: It was not given out.
        """
        if not isinstance(upto, Event) and not is_whole(upto, 0, LSN_MAX):
            raise CallerError(f"an event is acknowledged by itself or its LSN, not by {upto!r:.80}")
        last = (upto.lsn, upto.place) if isinstance(upto, Event) else (upto, 1 << 62)
        with self._lock:
            waiting = self._open
            newest = waiting[-1] if waiting else None
            if newest is not None and isinstance(upto, Event) and last > (newest.lsn, newest.place):
                raise CallerError(f"event {last} was not given out; the last one is {newest.lsn, newest.place}")
            done: Event | None = None
            while waiting and (waiting[0].lsn, waiting[0].place) <= last:
                done = waiting.popleft()
            if done is not None:
                self._cursor = replace(self._cursor, lsn=done.lsn, place=done.place)
        return time.monotonic() - self._saved_s >= SAVE_S

    def give_up(self, event: Event, error: BaseException, attempts: int) -> bool:
        """A callback failed on this event for good: it is a dead letter. False: there is no room for that now."""
        try:
            self.file.bury({**event._asdict(), "error": repr(error)[:2000], "attempts": attempts, "at": time.time_ns()})
        except DiskFull as full:
            self._tell_full(full)
            return False
        with self._lock:
            self._cursor = replace(self._cursor, dead=self._cursor.dead + 1)
        text = "subscription %s: event %s of LSN %d was given up: %r"
        _LOG.warning(text, self.file.name, event.kind, event.lsn, error)
        return True

    def pause(self, held: int) -> None:
        """There is time: nothing more to give out for now."""
        with self._lock:
            if not self._open and not held and self.reader.next_lsn > self._cursor.lsn:
                self._cursor = replace(self._cursor, lsn=self.reader.next_lsn, place=-1)
        if self._is_worth_it():
            self.save_with_room()

    def _is_worth_it(self) -> bool:
        """Whether the file is behind in what was acknowledged, or far behind in what was read."""
        saved, now = self._saved, self._cursor
        return saved is None or (now != saved and (now.place >= 0 or now.lsn - saved.lsn > 1000))

    def save(self) -> None:
        """Write the cursor, if it moved."""
        with self._lock:
            cursor = self._cursor
        if cursor != self._saved:
            self.file.save(cursor)
            self._saved, self._saved_s = cursor, time.monotonic()

    def save_with_room(self) -> None:
        """The same for whoever has nobody to tell: a full disk is told in the program's log, and tried again later."""
        try:
            self.save()
            self._full = False
        except DiskFull as full:
            self._tell_full(full)
            self._saved_s = time.monotonic()

    def _tell_full(self, full: DiskFull) -> None:
        if not self._full:
            self._full = True
            _LOG.warning("%s; events are delivered, and what is not written is tried again", full.message)

    def close(self) -> None:
        """Write it and let others read the subscription."""
        token, self._token = self._token, 0
        if token:
            LEDGER.release(token)
        try:
            self.save()
        finally:
            self.reader.close()
            self.file.close()
