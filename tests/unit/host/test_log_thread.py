"""The log's thread: what is done at once, what is delivered, and that it always answers."""

from __future__ import annotations

import queue
from types import SimpleNamespace
from typing import Any

import pytest

from actors.protocol import log_messages as log
from actors.protocol.errors import DiskFull, LogFailed, StateFolderError
from actors.protocol.records import Record
from runtime.host.log_thread import LogThread

RECORDS = [Record(1, 2, b"a"), Record(2, 3, b"b")]


class Writer:
    """A `LogWriter` that fails as told."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.changes_segment = False
        self.active = SimpleNamespace(no=4, first_lsn=1)
        self.written: list[bool] = []
        self.removed: list[int] = []
        self.closed = False

    def write(self, records: Any, *, sync: bool) -> None:
        if self.error:
            raise self.error
        self.written.append(sync)

    def segments(self) -> list[Any]:
        return [self.active]

    def remove_below(self, no: int) -> None:
        if self.error:
            raise self.error
        self.removed.append(no)

    def close(self) -> None:
        self.closed = True


def thread(writer: Writer) -> tuple[LogThread, queue.SimpleQueue[Any]]:
    heard: queue.SimpleQueue[Any] = queue.SimpleQueue()
    return LogThread(writer, heard.put), heard  # type: ignore[arg-type]


def test_without_sync_it_is_done_at_once() -> None:
    made, _ = thread(Writer())
    assert made.write(RECORDS, sync=False) == log.Written(2, 4, 1)
    made.close()


def test_with_sync_it_is_delivered() -> None:
    made, heard = thread(Writer())
    assert made.write(RECORDS, sync=True) is None
    assert heard.get(timeout=5) == log.Written(2, 4, 1)
    made.close()


def test_a_change_of_segment_is_not_waited_for_in_the_loop() -> None:
    writer = Writer()
    writer.changes_segment = True
    made, heard = thread(writer)
    assert made.write(RECORDS, sync=False) is None
    assert heard.get(timeout=5) == log.Written(2, 4, 1)
    made.close()


@pytest.mark.parametrize(
    ("error", "event"),
    [(DiskFull("no room"), log.NoSpace), (LogFailed("fsync"), log.LogBroken), (RuntimeError("bug"), log.LogBroken)],
)
def test_every_failure_is_answered(error: Exception, event: type) -> None:
    made, heard = thread(Writer(error))
    made.write(RECORDS, sync=True)
    assert isinstance(heard.get(timeout=5), event)
    made.close()


def test_a_removal_that_fails_does_not_end_the_thread() -> None:
    writer = Writer(StateFolderError("permission"))
    made, heard = thread(writer)
    made.remove_below(3)
    writer.error = None
    made.write(RECORDS, sync=True)
    assert isinstance(heard.get(timeout=5), (log.Written, log.LogBroken))
    made.close()
    assert writer.closed


def test_segments_that_others_need_are_not_removed() -> None:
    writer, heard = Writer(), queue.SimpleQueue[Any]()
    made = LogThread(writer, heard.put, lambda segments, below: below - len(segments))  # type: ignore[arg-type]
    made.remove_below(4)
    made.close()
    assert writer.removed == [3]
