"""Checkpoints: when the state is written aside, so that the log before it need not be kept or read again.

The persister asks (`look`) when segments were closed; a process of its own folds them (`runtime.storage.take`) and says
how that went. Nobody waits for it.

    state     look: enough was closed       taken      failed
    IDLE      RUNNING (TakeCheckpoint)
    RUNNING                                 IDLE       IDLE

- Enough: `bytes_min` of records in closed segments since the last one. So what a recovery reads of the log is that, the
  active segment, and what comes while a checkpoint is taken.
- After one that took t the next begins `REST_FACTOR` * t later at the earliest: under any load it has a small part of a
  core. After a failure the next begins after `RETRY_NS`, twice as long after each further one, up to `RETRY_MAX_NS`;
  the log stays meanwhile.
- When one was taken, a CHECKPOINT record says so, and the floor of the log rises behind it. The persister gives up
  segments only when that record is written.
- Where what memory lets go of is archived, the log is kept until a checkpoint has passed it, because the archive is
  made of it; but no more than HOLD_BYTES_MAX, should there be none for long. An engine without an archive that found
  what the next one may archive holds HOLD_OWED_BYTES_MAX.

Invariant: never two at once. Concurrency: none; the persister's.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import orjson

from actors.protocol import effects as fx
from actors.protocol.log_messages import CheckpointFailed, CheckpointTaken, RetryAt, TakeCheckpoint
from actors.protocol.records import RecordType

if TYPE_CHECKING:
    from actors.scheduler import Scheduler

REST_FACTOR: Final = 4
HOLD_BYTES_MAX: Final = 4 << 30
"""Of the log, for the archive's sake. A checkpoint that takes seconds begins four times as long after the last one; a
busy engine writes some 30 MB a second meanwhile. What is over this is because none can be taken."""
HOLD_OWED_BYTES_MAX: Final = 256 << 20
"""The same where no checkpoints are taken: four segments. A folder is opened so to look at it, or from now on; who only
looks writes less."""
RETRY_NS: Final = 1_000_000_000
RETRY_MAX_NS: Final = 300_000_000_000


@dataclass(frozen=True, slots=True)
class CheckpointStatistics:
    """Snapshot for reports. `trouble` is why the latest one failed; empty when it did not. `bytes_behind` are those of
    the log that no checkpoint has, the segment that is written included: what a recovery reads. `bytes_written` and
    `cpu_ns` are of all that were taken since the start."""

    lsn: int
    running: bool
    taken: int
    failed: int
    trouble: str
    bytes_behind: int
    bytes_written: int = 0
    cpu_ns: int = 0


class Checkpoints:
    """See the module.

    Args:
        bytes_min: Of records in closed segments that are worth a checkpoint; None: there are none.
        lsn: Of the checkpoint that is there.
        closed: Last LSN and bytes of each closed segment of the log, ascending.
        archives: Whether they archive what memory lets go of, or the checkpoints of another engine shall.
    """

    def __init__(
        self,
        bytes_min: int | None = None,
        lsn: int = 0,
        closed: tuple[tuple[int, int], ...] = (),
        *,
        archives: bool = False,
    ) -> None:
        self.lsn = lsn
        self._archives = archives
        self.due = False
        """Whether to `look`."""
        self._bytes_min = bytes_min
        self._closed = deque(segment for segment in closed if segment[0] > lsn)
        self._running = False
        self._begun_ns = self._not_before_ns = self._woken_ns = 0
        self._taken = self._failed = self._failed_in_a_row = 0
        self._bytes_written = self._cpu_ns = 0
        self._trouble = ""
        self._judge()

    def closed(self, last_lsn: int, size: int) -> None:
        """A segment was closed."""
        self._closed.append((last_lsn, size))
        self._judge()

    def removed(self, first_lsn: int) -> None:
        """The log now begins with this record: what was before is nothing that a recovery reads."""
        while self._closed and self._closed[0][0] < first_lsn:
            self._closed.popleft()
        self._judge()

    def floor(self, lsn: int) -> int:
        """Where the log may begin, of which no run needs anything below this LSN."""
        hold = HOLD_BYTES_MAX if self._bytes_min is not None else HOLD_OWED_BYTES_MAX
        if not self._archives or self._behind() > hold:
            return lsn
        return min(lsn, self.lsn + 1)

    def look(self, segment_no: int, first_lsn: int, now_ns: int) -> TakeCheckpoint | RetryAt | None:
        """Begin one if it is time; else ask, once, to be called again. The active segment is that of this number; it
        begins with this record."""
        if now_ns < self._not_before_ns:
            asked, self._woken_ns = self._woken_ns, self._not_before_ns
            return None if asked == self._not_before_ns else RetryAt(self._not_before_ns)
        self._running, self.due, self._begun_ns = True, False, now_ns
        return TakeCheckpoint(first_lsn - 1, segment_no)

    def ended(self, event: CheckpointTaken | CheckpointFailed, now_ns: int) -> None:
        """The one that was begun was taken, or not."""
        self._running = False
        if isinstance(event, CheckpointTaken):
            self.lsn = max(self.lsn, event.lsn)
            self._taken += 1
            self._bytes_written += event.bytes
            self._cpu_ns += event.cpu_ns
            self._failed_in_a_row, self._trouble = 0, ""
            self._not_before_ns = now_ns + REST_FACTOR * (now_ns - self._begun_ns)
            self.removed(event.lsn + 1)
        else:
            self._failed += 1
            self._trouble = event.message
            self._not_before_ns = now_ns + min(RETRY_NS << min(self._failed_in_a_row, 32), RETRY_MAX_NS)
            self._failed_in_a_row += 1
        self._judge()

    def statistics(self, active_bytes: int = 0) -> CheckpointStatistics:
        """Frozen snapshot.

        Args:
            active_bytes: In the segment that is written.
        """
        behind = self._behind() + active_bytes
        done = (self._taken, self._failed, self._trouble, behind, self._bytes_written, self._cpu_ns)
        return CheckpointStatistics(self.lsn, self._running, *done)

    def _behind(self) -> int:
        return sum(size for _, size in self._closed)

    def _judge(self) -> None:
        least = self._bytes_min
        self.due = not self._running and least is not None and self._behind() >= least > 0


def on_taken(scheduler: Scheduler, event: CheckpointTaken) -> None:
    """The log need not keep what is in the checkpoint."""
    scheduler.log(RecordType.CHECKPOINT, orjson.dumps([event.lsn]))
    scheduler.put(fx.RaiseFloor(event.lsn + 1))
