"""Files of runs that were let go: removed a moment later, and not by the loop.

The retention rule may let go of a run as soon as its results were told. The session that was told opens the files of
large results when it reads the message (`runtime.mail.pins`), so they stay for a moment. A busy disk takes milliseconds
to remove one, so a thread does that. What is left when the engine ends is swept by the next start.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Sequence
from typing import Final

from runtime.mail.blobs import BlobStore

STAY_S: Final = 1.0
"""From letting go to removing."""


class LeavingFiles:
    """See the module. Used in the loop's thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop, blobs: BlobStore) -> None:
        self._loop = loop
        self._blobs = blobs
        self._due: deque[tuple[float, str]] = deque()

    def add(self, run_key: str) -> None:
        """Remove the files of a run, later."""
        if not self._due:
            self._loop.call_later(STAY_S, self._look)
        self._due.append((time.monotonic() + STAY_S, run_key))

    def _look(self) -> None:
        now, keys = time.monotonic(), []
        while self._due and self._due[0][0] <= now:
            keys.append(self._due.popleft()[1])
        if keys:
            self._loop.run_in_executor(None, self._remove, keys)
        if self._due:
            self._loop.call_later(self._due[0][0] - now, self._look)

    def _remove(self, keys: Sequence[str]) -> None:
        for key in keys:
            self._blobs.remove_run(key)
