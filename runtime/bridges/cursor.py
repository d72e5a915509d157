"""The log as a bridge reads it, and what it remembers: messages that are read and not confirmed, and the cursor file.

    batch() ──► sent ──► confirmed(position) ──► cursor, written every SAVE_S and whenever there is a pause
    resume(standing) ──► goes on where the stream is, with what is read already where that fits

The cursor is that of a durable subscription (`runtime.storage.cursors`), with a note of the last event that the stream
has: behind it are only events that nobody wanted. So the log is kept for a bridge as for a subscription, and one bridge
of a name runs at a time.

Concurrency: one thread, which waits for the disk.
"""

from __future__ import annotations

import logging
import os
import time
from collections import deque
from dataclasses import replace
from typing import Final

from actors.event_kinds import Event
from actors.protocol import limits
from actors.protocol.errors import ConfigurationError
from actors.protocol.event_errors import BridgeConflict, CursorTooOld
from runtime.bridges.horizon import OutsideHorizon
from runtime.bridges.standing import StreamStanding, going_on
from runtime.bridges.wire import BridgeMessage, BridgeSource, StreamPosition, messages_of, read_position
from runtime.checks import is_whole
from runtime.event_filter import EventFilter, Since
from runtime.event_reader import EventReader
from runtime.storage.cursors import Cursor, CursorFile
from runtime.storage.folder import StateFolder
from runtime.storage.sharded_tail import written_end

_LOG: Final = logging.getLogger("mainspring")
SAVE_S: Final = 0.05
"""Between two writes of the cursor while events are confirmed: a write waits for the disk."""
AHEAD_LSNS: Final = 1000
"""Records without an event that is wanted, after which the cursor is written in a pause."""


class BridgeCursor:
    """See the module. Opens the bridge of this name.

    Args:
        state_dir: The state folder.
        name: Of the bridge.
        wanted: Which events.
        since: Where a new one begins.
        keep_bytes: Log that is kept for it.

    Raises:
        ConfigurationError, SubscriptionInUse, StateFolderError, CursorBeyondEnd: As they say.
    """

    def __init__(self, state_dir: str, name: str, wanted: EventFilter, since: Since, keep_bytes: int) -> None:
        if not is_whole(keep_bytes, 0, 1 << 62):
            raise ConfigurationError(f"bridge: keep_bytes must be a whole number, not {keep_bytes!r:.60}")
        self.lost: list[tuple[int, int]] = []
        """LSNs, from and to, that were removed from the log before they were published."""
        with StateFolder.open(state_dir, create=False, owner=False) as folder:
            self._path, self._place = folder.path, folder.log
            self.source = BridgeSource(str(folder.uuid), name)
        self._wanted = wanted
        self._ahead: deque[BridgeMessage] = deque()
        self._upto: int | None = None
        self._saved_s = 0.0
        self._horizon = OutsideHorizon(self._path)
        self._file = CursorFile(self._path, name)
        try:
            found = self._file.load()
            self._is_new = found is None
            if found is None:
                self._reader = EventReader(self._path, wanted, since)
                self._cursor = Cursor(self._reader.next_lsn, -1, keep_bytes)
            else:
                self._cursor = replace(found, keep_bytes=keep_bytes)
                self._reader = self._reader_at(found.lsn, found.place)
        except BaseException:
            self._file.close()
            raise
        self.noted = read_position(self._cursor.note)
        """The last event that the server confirmed."""
        self._saved: Cursor | None = None
        self.save()

    # --- where ----------------------------------------------------------------------------------------------------

    def resume(self, standing: StreamStanding) -> None:
        """Go on behind what the stream has.

        Raises:
            BridgeConflict: The stream is ahead of the log.
        """
        goal = going_on(self.noted, standing)
        if goal is None or goal == self.noted:
            if standing.last is None and standing.sure and self.noted is not None:
                text = "bridge %s: the stream is empty, events up to %s were published; going on behind them"
                _LOG.warning(text, self.source.bridge, self.noted.text)
            return
        if self.noted is not None and goal < self.noted:
            text = "bridge %s: the stream has lost events behind %s; sending them again"
            _LOG.warning(text, self.source.bridge, goal.text)
        if self._ahead and self._ahead[0].at <= goal <= self._ahead[-1].at:
            self.confirmed(goal)
            return
        end = written_end(self._place)
        if goal.lsn >= end:
            raise BridgeConflict(
                f"the stream has events of this folder up to LSN {goal.lsn}, and its log ends before {end}: "
                "the folder is an older copy"
            )
        self._go_to(goal)

    def _go_to(self, goal: StreamPosition) -> None:
        """Read on behind an event of the stream."""
        back = self.noted is not None and goal < self.noted
        self._ahead.clear()
        self._reader.close()
        after = self._cursor.lsn
        try:
            self._reader = EventReader(self._path, self._wanted, goal.lsn, goal.place)
            self._note(goal)
        except CursorTooOld:
            start, place = (after, self._cursor.place) if back else goal
            if back:
                self._lose(goal.lsn, after)
            self._cursor = replace(self._cursor, lsn=start, place=place, note=goal.text)
            self.noted = goal
            self._reader = self._reader_at(start, place)
        self.save()

    def _reader_at(self, lsn: int, place: int) -> EventReader:
        """Reads on from there, or from where the log begins by now."""
        try:
            return EventReader(self._path, self._wanted, lsn, place)
        except CursorTooOld as gone:
            self._lose(lsn, gone.first_lsn)
            self._cursor = replace(self._cursor, lsn=gone.first_lsn, place=-1)
            return EventReader(self._path, self._wanted, "begin")

    def _lose(self, lsn: int, first: int) -> None:
        self.lost.append((lsn, first - 1))
        _LOG.warning("bridge %s: LSNs %d to %d went before they were read", self.source.bridge, lsn, first - 1)

    # --- reading --------------------------------------------------------------------------------------------------

    @property
    def next_lsn(self) -> int:
        """The record that is read next."""
        return self._reader.next_lsn

    def batch(self, *, follow: bool = True) -> list[BridgeMessage]:
        """The next messages to be sent; the same ones again until they are confirmed. None: there are none now.

        Args:
            follow: Read what comes; else only what was durable when it was first asked so.

        Raises:
            LogCorrupt, StateFolderError: The log cannot be read.
        """
        if not self._ahead:
            self._ahead.extend(messages_of(self._read(self._readable(follow=follow))))
        found: list[BridgeMessage] = []
        size = 0
        for message in self._ahead:
            size += len(message.body)
            if found and (len(found) >= limits.BRIDGE_BATCH_EVENTS or size > limits.BRIDGE_BATCH_BYTES):
                break
            found.append(message)
        if not found:
            self._pause()
        return found

    @property
    def at_end(self) -> bool:
        """Whether nothing is left of what was durable when it was first asked for without following."""
        return not self._ahead and self._upto is not None and self._reader.next_lsn > self._upto

    def _readable(self, *, follow: bool) -> int:
        if follow:
            return self._horizon.look(self._reader.next_lsn)
        if self._upto is None:
            lsn = self._horizon.look(1 << 62)
            if lsn or self._horizon.settled:
                self._upto = lsn
        return self._upto or 0

    def _read(self, upto_lsn: int) -> list[Event]:
        while True:
            try:
                return self._reader.read(upto_lsn)
            except CursorTooOld as gone:
                self._lose(self._reader.next_lsn, gone.first_lsn)
                self._reader.skip_to(gone.first_lsn)
                self._cursor = replace(self._cursor, lsn=gone.first_lsn, place=-1)

    # --- remembering ----------------------------------------------------------------------------------------------

    def confirmed(self, at: StreamPosition) -> None:
        """The stream has this event, and all before it."""
        while self._ahead and self._ahead[0].at <= at:
            self._ahead.popleft()
        self._note(at)
        if time.monotonic() - self._saved_s >= SAVE_S:
            self.save()

    def _note(self, at: StreamPosition) -> None:
        self.noted = at
        self._cursor = replace(self._cursor, lsn=at.lsn, place=at.place, note=at.text)

    def _pause(self) -> None:
        """There is time: nothing to send for now."""
        now, saved, next_lsn = self._cursor, self._saved, self._reader.next_lsn
        if next_lsn > now.lsn:
            now = self._cursor = replace(now, lsn=next_lsn, place=-1)
        if saved is None or now.note != saved.note or now.lsn - saved.lsn > AHEAD_LSNS:
            self.save()

    def save(self) -> None:
        """Write the cursor, if it moved."""
        if self._cursor != self._saved:
            self._file.save(self._cursor)
            self._saved, self._saved_s = self._cursor, time.monotonic()

    def close(self) -> None:
        """Write it and let others run the bridge. Again is harmless."""
        try:
            if os.path.isdir(self._path):
                self.save()
        finally:
            self._reader.close()
            self._file.close()

    def give_up(self) -> None:
        """The same of a bridge that never began: one that is new is forgotten, and no log is kept for it."""
        if self._is_new and os.path.isdir(self._path):
            self._reader.close()
            self._file.remove()
            self._file.close()
        else:
            self.close()
