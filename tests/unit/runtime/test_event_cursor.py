"""What a durable subscription remembers, on logs that lose their beginning."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.protocol.errors import CallerError, DiskFull
from actors.protocol.event_errors import CursorBeyondEnd
from runtime.event_cursor import EventCursor
from runtime.event_filter import EventFilter
from runtime.storage.cursors import Cursor
from runtime.storage.verify import verify
from tests.sim.recorder import Recorder
from tests.unit.storage.openings_log import OpeningsLog


class Log(OpeningsLog):
    """Three in a segment."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, segment_bytes=200)

    def cursor(self) -> EventCursor:
        return EventCursor(self.path, "s", EventFilter(), "begin", 100, 0)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    made = Log(tmp_path)
    yield made
    made.writer.close()


def test_it_goes_on_behind_what_was_acknowledged(log: Log) -> None:
    log.write(5)
    cursor = log.cursor()
    events = cursor.reader.read()
    cursor.given(events)
    cursor.ack(events[1])
    with pytest.raises(CallerError):
        cursor.ack(events[-1]._replace(lsn=99))
    for strange in (None, "1", True, -1, 1 << 64, 1.0):
        with pytest.raises(CallerError, match="acknowledged by itself or its LSN"):
            cursor.ack(strange)  # type: ignore[arg-type]
    cursor.close()
    again = log.cursor()
    assert [event.lsn for event in again.reader.read()] == [event.lsn for event in events[2:]]
    again.close()
    assert again.file.load() == Cursor(events[1].lsn, 0, 0, 0)


def test_what_was_removed_meanwhile_is_told(log: Log) -> None:
    log.write(2)
    cursor = log.cursor()
    cursor.given(cursor.reader.read())
    cursor.ack(1)
    cursor.close()
    log.write(20)
    first = log.lose()
    again = log.cursor()
    assert again.lost == [(1, first - 1)]
    assert again.reader.read()[0].lsn == first
    again.close()
    third = log.cursor()
    assert third.lost == [], "once"
    third.close()


def test_where_nothing_is_open_the_cursor_goes_on_with_what_was_read(log: Log) -> None:
    log.write(4)
    cursor = EventCursor(log.path, "s", EventFilter(frozenset({"run.failed"})), "begin", 100, 0)
    assert cursor.reader.read() == []
    cursor.pause(held=0)
    cursor.close()
    assert cursor.file.load() == Cursor(5, -1, 0, 0)


def test_without_room_it_goes_on_and_writes_later(log: Log, caplog: pytest.LogCaptureFixture) -> None:
    """Who acknowledges by himself is told; who only reads, or is called, finds it in the program's log, once."""
    log.write(5)
    cursor = log.cursor()
    events = cursor.reader.read()
    cursor.given(events)
    with Recorder(log.path, full_at=1) as disk, caplog.at_level(logging.WARNING):
        cursor.acknowledge(events[0])
        with pytest.raises(DiskFull, match="subscription 's'"):
            cursor.save()
        for event in events[1:3]:
            cursor.acknowledge(event)
            cursor.save_with_room()
            assert not cursor.give_up(event, ValueError("no"), 5)
        assert len(caplog.messages) == 1
        assert cursor.file.load() == Cursor(1, -1, 0, 0), "as it was"
        disk.full_at = 0
        assert cursor.give_up(events[2], ValueError("no"), 5)
        cursor.save_with_room()
        assert cursor.file.load() == Cursor(events[2].lsn, 0, 0, 1)
    assert [letter["lsn"] for letter in cursor.file.dead()] == [events[2].lsn]
    cursor.close()


def test_a_log_that_lost_its_end_is_told(log: Log) -> None:
    log.write(3)
    cursor = log.cursor()
    cursor.file.save(Cursor(900))
    cursor._saved = cursor._cursor
    cursor.close()
    with pytest.raises(CursorBeyondEnd, match="'s' goes on with LSN 900, but the log ends before LSN 4") as refused:
        log.cursor()
    assert refused.value.next_lsn == 4
    (note,) = verify(log.path).notes
    assert "'s' goes on with LSN 900, but the log ends at LSN 3" in note
