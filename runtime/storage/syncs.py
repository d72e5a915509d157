"""Syncs of several files at once: a commit of a log in shards waits for the slowest disk, not for all in turn.

Concurrency: one commit at a time; threads live as long as who syncs, and none is started for one file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from runtime.storage.files import LogFile

Syncs = Callable[[Sequence[LogFile]], None]
"""Makes all of some files durable, or raises OSError when one of them is not."""


class SyncThreads:
    """`Syncs` side by side: the caller takes one file, a thread each of the others.

    Args:
        shards: Files at most.
    """

    def __init__(self, shards: int) -> None:
        self._threads = ThreadPoolExecutor(max(1, shards - 1), "mainspring-log-sync")

    def __call__(self, files: Sequence[LogFile]) -> None:
        if len(files) == 1:
            files[0].sync()
            return
        others = [self._threads.submit(file.sync) for file in files[1:]]
        try:
            files[0].sync()
        finally:
            failures = [failure for other in others if (failure := other.exception()) is not None]
        for failure in failures:
            raise failure

    def close(self) -> None:
        """End the threads."""
        self._threads.shutdown()
