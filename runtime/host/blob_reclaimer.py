"""Files of runs that were let go: removed a moment later, and not by the loop.

The retention rule may let go of a run as soon as its results were told. The session that was told opens the files of
large results when it reads the message (`runtime.mail.pins`), so they stay for a moment. A busy disk takes milliseconds
to remove one, so a thread does that. What is left when the engine ends is swept by the next start.

    let go ──► STAY_S ──► removed
                      └── with an archive: those that have files wait until a checkpoint has passed the record that
                          says so, and are removed then

The checkpoint links what it archives (`runtime.storage.archiving`). Should there be none for very long, the oldest go.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable
from typing import Any, Final, NamedTuple

from runtime.mail.blobs import BlobStore

STAY_S: Final = 1.0
"""From letting go to removing."""
WAITING_MAX: Final = 1_000_000
"""Runs with files that wait for a checkpoint; some 200 bytes each."""


class Reclaimable(NamedTuple):
    """Files of a run, or of a submission, that nobody will ask for: of its folder those from before `let_go_ns`."""

    lsn: int
    run_key: str
    let_go_ns: int
    run_no: int = 0


class BlobReclaimer:
    """See the module. Used in the loop's thread.

    Args:
        loop: Of the engine.
        blobs: Where the files are.
        rule: How long runs stay in the archive, to which checkpoints take them; None: there is none.
        waiting: What was let go of before this engine, and no checkpoint has passed yet, in order.
        stay: Runs whose files are not this engine's to remove (`owed_files`).
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        blobs: BlobStore,
        *,
        rule: dict[str, Any] | None = None,
        waiting: Iterable[Reclaimable] = (),
        stay: Collection[str] = (),
    ) -> None:
        self.loop = loop
        self.rule = rule
        self._blobs = blobs
        self._waiting = deque(waiting)
        self._stay = stay
        self._passed_lsn = 0
        self._due: deque[tuple[float, Reclaimable]] = deque()

    def add(self, run_key: str, lsn: int = 0) -> None:
        """Remove the files of a run, later. What was logged up to this LSN says that it was let go of."""
        if run_key in self._stay:
            return
        if not self._due:
            self.loop.call_later(STAY_S, self._look)
        self._due.append((time.monotonic() + STAY_S, Reclaimable(lsn, run_key, time.time_ns())))

    @property
    def waiting(self) -> list[Reclaimable]:
        """Those that wait for a checkpoint, in order."""
        return list(self._waiting)

    def passed(self, lsn: int) -> None:
        """A checkpoint has passed this record."""
        self._passed_lsn = max(self._passed_lsn, lsn)
        gone = []
        while self._waiting and self._waiting[0].lsn <= lsn:
            gone.append(self._waiting.popleft())
        self._give(self._remove, gone)

    def _look(self) -> None:
        now, found = time.monotonic(), []
        while self._due and self._due[0][0] <= now:
            found.append(self._due.popleft()[1])
        self._give(self._remove if self.rule is None else self._sort, found)
        if self._due:
            self.loop.call_later(self._due[0][0] - now, self._look)

    def _give(self, work: Callable[[list[Reclaimable]], None], found: list[Reclaimable]) -> None:
        """To a thread."""
        if found:
            self.loop.run_in_executor(None, work, found)

    def _sort(self, found: list[Reclaimable]) -> None:
        """In a thread: most runs have no files, and need not be remembered."""
        there = [entry for entry in found if self._blobs.has_run(entry.run_key)]
        if there:
            self.loop.call_soon_threadsafe(self._wait, there)

    def _wait(self, there: list[Reclaimable]) -> None:
        self._waiting.extend(there)
        over = [self._waiting.popleft() for _ in range(len(self._waiting) - WAITING_MAX)]
        self._give(self._remove, over)
        self.passed(self._passed_lsn)

    def _remove(self, found: Iterable[Reclaimable]) -> None:
        for entry in found:
            self._blobs.remove_run(entry.run_key, None if self.rule is None else entry.let_go_ns)
