"""How far a log may be read by a process that is not the engine's program: up to what will still be there tomorrow.

What is written may be cut off again: a batch that did not fit on the disk, or what a loss of power took. So the engine
is asked, through its command socket, and only when the log has grown. Without an engine, all that is whole is made
durable here; the folder's lock is held while it is looked for, so that nobody writes.

Concurrency: one thread.
"""

from __future__ import annotations

import os
from typing import Final

from actors.protocol.errors import CallerError, EngineUnavailable, InternalError, StateFolderInUse
from runtime.host import command_socket
from runtime.storage.files import DiskFiles
from runtime.storage.folder import UNNAMED, StateFolder
from runtime.storage.reader import list_segments
from runtime.storage.segment import LogPlace, segment_name
from runtime.storage.sharded_tail import written_end

ASK_S: Final = 2.0
"""How long the engine may take to say it, before it is asked again."""


class OutsideHorizon:
    """See the module."""

    def __init__(self, state_dir: str) -> None:
        self.lsn = 0
        """The last record that may be read."""
        self.settled = False
        """Whether that was all there was, when it was last looked at."""
        self._state_dir = state_dir
        with StateFolder.open(state_dir, create=False, owner=False) as folder:
            self._place = folder.log
        self._seen = ("", 0)

    def look(self, next_lsn: int) -> int:
        """The last record that may be read; asked for anew where that is before the one wanted.

        Raises:
            StateFolderError, LogCorrupt: The folder cannot be read.
        """
        if self.lsn >= next_lsn:
            return self.lsn
        size = _size_of(self._place)
        if self.settled and size == self._seen:
            return self.lsn
        self.settled, self._seen = False, size
        try:
            self._hear(command_socket.ask(self._state_dir, command_socket.WRITTEN, {}, ASK_S))
        except (EngineUnavailable, CallerError, InternalError):  # an engine of an older version knows no such question
            self._look_alone()
        return self.lsn

    def _hear(self, told: dict[str, object]) -> None:
        lsn, last = told["lsn"], told["last"]
        if isinstance(lsn, int) and lsn > self.lsn:
            if told["durability"] != "fsync":
                _sync(self._place)
            self.lsn = lsn
        self.settled = lsn == last

    def _look_alone(self) -> None:
        """There may be no engine."""
        try:
            with StateFolder.open(self._state_dir, create=False, holder_pid=UNNAMED):
                lsn = written_end(self._place) - 1
        except StateFolderInUse:
            return  # it begins or ends just now, or is busy
        _sync(self._place)  # without the lock: what is whole stays, and whoever opens the folder need not wait
        self.lsn, self.settled = max(self.lsn, lsn), True


def _size_of(place: LogPlace) -> tuple[str, int]:
    """The newest file of the log, and the bytes of all in all shards: what tells cheaply whether there is more."""
    found = [("", 0)]
    for part in place.parts():
        with os.scandir(part.folder) as entries:
            for entry in entries:
                try:
                    found.append((entry.name, entry.stat().st_size))
                except FileNotFoundError:
                    continue
    return max(found)[0], sum(size for _, size in found)


def _sync(place: LogPlace) -> None:
    """Make what is written durable. Segments before the last one are: see `wal`."""
    for part in place.parts():
        for no in list_segments(part, DiskFiles())[-1:]:
            try:
                fd = os.open(f"{part.folder}/{segment_name(no)}", os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                continue
            try:
                os.fsync(fd)
            finally:
                os.close(fd)
