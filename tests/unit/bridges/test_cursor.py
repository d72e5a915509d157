"""What a bridge remembers, on logs that lose their beginning and streams that lose their end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from actors.protocol import limits
from actors.protocol.errors import ConfigurationError, NotAStateFolder, StateFolderError
from actors.protocol.event_errors import BridgeConflict, SubscriptionInUse
from runtime.bridges.standing import StreamStanding
from runtime.bridges.wire import StreamPosition
from runtime.event_filter import EventFilter
from runtime.storage.cursors import Cursor, load
from tests.unit.bridges.folders import BridgeCursor, Openings


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Openings]:
    made = Openings(tmp_path)
    yield made
    made.close()


def lsns(cursor: BridgeCursor) -> list[int]:
    return [message.at.lsn for message in cursor.batch()]


def saved(log: Openings) -> Cursor | None:
    return load(f"{log.path}/subscriptions", "b")


def test_what_is_not_confirmed_is_given_out_again(log: Openings) -> None:
    log.write(5)
    with closing(log.cursor()) as cursor:
        assert lsns(cursor) == lsns(cursor) == [1, 2, 3, 4, 5]
        cursor.confirmed(StreamPosition(2, 0))
        assert lsns(cursor) == [3, 4, 5]
        with pytest.raises(SubscriptionInUse):
            log.cursor()
    assert saved(log) == Cursor(2, 0, 0, note="2-0")
    with closing(log.cursor()) as cursor:
        assert lsns(cursor) == [3, 4, 5]


def test_batches_are_bounded_by_number_and_by_bytes(log: Openings, monkeypatch: pytest.MonkeyPatch) -> None:
    log.write(5)
    with closing(log.cursor()) as cursor:
        monkeypatch.setattr(limits, "BRIDGE_BATCH_EVENTS", 2)
        assert lsns(cursor) == [1, 2]
        monkeypatch.setattr(limits, "BRIDGE_BATCH_BYTES", 1)
        assert lsns(cursor) == [1], "one goes always"


def test_the_stream_says_where_to_go_on(log: Openings) -> None:
    log.write(6)
    with closing(log.cursor()) as cursor:
        cursor.resume(StreamStanding(StreamPosition(4, 0)))
        assert lsns(cursor) == [5, 6], "it was published, and the bridge died"
        cursor.confirmed(StreamPosition(6, 0))
        cursor.resume(StreamStanding(StreamPosition(2, 0)))
        assert lsns(cursor) == [3, 4, 5, 6], "the server lost it"
        cursor.resume(StreamStanding(StreamPosition(5, 0)))
        assert lsns(cursor) == [6], "a batch of which the answer was lost"
        cursor.resume(StreamStanding(None, sure=False))
        assert lsns(cursor) == [6]
        cursor.resume(StreamStanding(None))
        assert lsns(cursor) == [6]


def test_a_stream_that_is_ahead_of_the_log_is_refused(log: Openings) -> None:
    log.write(3)
    with closing(log.cursor()) as cursor:
        with pytest.raises(BridgeConflict):
            cursor.resume(StreamStanding(StreamPosition(4, 0)))
        assert lsns(cursor) == [1, 2, 3]


def test_what_goes_before_it_is_read_is_told(log: Openings) -> None:
    log.write(3)
    with closing(log.cursor()) as cursor:
        assert lsns(cursor) == [1, 2, 3]
        cursor.confirmed(StreamPosition(3, 0))
        log.write(20)
        first = log.lose()
        seen: list[int] = []
        while found := lsns(cursor):  # what it has open is read to its end
            seen += found
            cursor.confirmed(StreamPosition(found[-1], 0))
        ((begin, end),) = cursor.lost
        assert (seen, end) == ([*range(4, begin), *range(first, 24)], first - 1)
    with closing(log.cursor()) as cursor:
        assert (lsns(cursor), cursor.lost) == ([], [])


def test_a_bridge_that_was_away_too_long_is_told_what_went(log: Openings) -> None:
    log.write(3)
    with closing(log.cursor()) as cursor:
        lsns(cursor)
        cursor.confirmed(StreamPosition(3, 0))
    log.write(20)
    first = log.lose()
    with closing(log.cursor()) as cursor:
        assert cursor.lost == [(3, first - 1)]
        assert lsns(cursor)[0] == first


def test_what_a_server_lost_and_the_log_does_not_keep_is_told(log: Openings) -> None:
    log.write(20)
    with closing(log.cursor()) as cursor:
        lsns(cursor)
        cursor.confirmed(StreamPosition(19, 0))
        first = log.lose()
        assert first <= 19
        cursor.resume(StreamStanding(StreamPosition(2, 0)))
        assert cursor.lost == [(2, 18)]
        assert lsns(cursor) == [20]
        assert cursor.noted == StreamPosition(2, 0), "what the stream has; else it would be told again"
        cursor.resume(StreamStanding(StreamPosition(2, 0)))
        assert cursor.lost == [(2, 18)]


@pytest.mark.slow
def test_events_that_nobody_wants_move_it_on(log: Openings) -> None:
    wanted = EventFilter(frozenset({"policy.changed"}))
    log.write(2000)
    with closing(BridgeCursor(log.path, "b", wanted, "begin", 0)) as cursor:
        while cursor.next_lsn <= 2000:
            assert cursor.batch() == []
        found = saved(log)
        assert found is not None
        assert found.lsn > 1000


def test_without_following_it_ends_with_what_was_durable(log: Openings) -> None:
    log.write(3)
    with closing(log.cursor()) as cursor:
        batch = cursor.batch(follow=False)
        log.write(3)
        assert not cursor.at_end
        cursor.confirmed(batch[-1].at)
        assert cursor.batch(follow=False) == []
        assert cursor.at_end
        assert batch[-1].at.lsn == 3


def test_folders_and_names_that_cannot_be(log: Openings, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="a name is"):
        log.cursor(name="a/b")
    with pytest.raises(ConfigurationError, match="keep_bytes"):
        BridgeCursor(log.path, "b", EventFilter(), "begin", -1)
    with pytest.raises(StateFolderError):
        BridgeCursor(f"{tmp_path}/none", "b", EventFilter(), "begin", 0)
    other = tmp_path / "other"
    other.mkdir()
    (other / "file").touch()
    with pytest.raises(NotAStateFolder):
        BridgeCursor(str(other), "b", EventFilter(), "begin", 0)
    assert not (other / "subscriptions").exists()
