"""The log's own thread: one write at a time, so that the loop never waits for the disk.

The thread holds the interpreter lock only between system calls. Results come back to the loop as the persister's
events. Without sync there is mostly nothing to wait for but a copy into the page cache: such a write is done in the
loop, unless it begins a segment (which syncs) or the thread holds the writer to remove old ones.

Concurrency: `write` and `remove_below` from the loop only. The persister has at most one write out.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from typing import Any

from actors.protocol import log_messages as log
from actors.protocol.errors import DiskFull, EnvironmentFault, LogFailed
from actors.protocol.records import Record
from runtime.storage.segment import SegmentInfo
from runtime.storage.wal import LogWriter


class LogThread:
    """Runs a writer of the log.

    Args:
        writer: The writer.
        deliver: Called in this thread with each event.
        kept: The oldest segment that others need, of those below a number; called when some are to be removed.
    """

    def __init__(
        self,
        writer: LogWriter,
        deliver: Callable[[Any], None],
        kept: Callable[[Sequence[SegmentInfo], int], int] = lambda segments, below: below,
    ) -> None:
        self._kept = kept
        self._writer = writer
        self._deliver = deliver
        self._removals_asked = 0
        self._removals_done = 0
        self._asked: queue.SimpleQueue[Callable[[], Any] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="mainspring-log", daemon=True)
        self._thread.start()

    def write(self, records: Sequence[Record], *, sync: bool) -> Any:
        """Write a batch.

        Returns the event when it was done at once, None when the event will be delivered.
        """
        if not (sync or self._writer.changes_segment or self._removals_asked != self._removals_done):
            return self._written(records, False)
        self._asked.put(lambda: self._written(records, sync))
        return None

    def remove_below(self, segment: int) -> None:
        """Remove old segments, in the thread. A failure is left for the next time."""
        self._removals_asked += 1
        self._asked.put(lambda: self._removed(segment))

    def close(self) -> None:
        """Finish what was asked, then close the file."""
        self._asked.put(None)
        self._thread.join()
        self._writer.close()

    def _written(self, records: Sequence[Record], sync: bool) -> Any:
        try:
            self._writer.write(records, sync=sync)
        except DiskFull as full:
            return log.NoSpace(full.message)
        except LogFailed as failed:
            return log.LogBroken(failed.message)
        except Exception as bug:  # the thread must answer, or the engine would wait for ever
            return log.LogBroken(f"writing the log failed: {bug!r}")
        active = self._writer.active
        return log.Written(records[-1].lsn, active.no, active.first_lsn)

    def _removed(self, segment: int) -> None:
        try:
            self._writer.remove_below(self._kept(self._writer.segments(), segment))
        except (OSError, EnvironmentFault):
            return
        finally:
            self._removals_done += 1

    def _run(self) -> None:
        while (job := self._asked.get()) is not None:
            event = job()
            if event is not None:
                self._deliver(event)
