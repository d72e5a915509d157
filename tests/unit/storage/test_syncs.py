"""Syncs side by side: all are done, and a failure of any is told."""

from __future__ import annotations

import errno

import pytest

from runtime.storage.syncs import SyncThreads


def test_a_failure_in_a_thread_is_raised_after_all_have_synced() -> None:
    done: list[int] = []

    class File:
        def __init__(self, no: int, failure: BaseException | None = None) -> None:
            self.no, self.failure = no, failure

        def sync(self) -> None:
            if self.failure is not None:
                raise self.failure
            done.append(self.no)

    syncs = SyncThreads(3)
    try:
        for bad in range(3):
            done.clear()
            files = [File(no, OSError(errno.EIO, "bad") if no == bad else None) for no in range(3)]
            with pytest.raises(OSError, match="bad"):
                syncs(files)  # type: ignore[arg-type]
            assert sorted(done) == [no for no in range(3) if no != bad]
    finally:
        syncs.close()
