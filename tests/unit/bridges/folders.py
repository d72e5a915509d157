"""State folders for the tests of bridges: logs of openings, which are an event each, and a stream that fails."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from runtime.bridges.cursor import BridgeCursor
from runtime.bridges.outlet import OutletDisturbed, OutletLost
from runtime.bridges.standing import StreamStanding
from runtime.bridges.wire import BridgeMessage, BridgeSource, StreamPosition
from runtime.event_filter import EventFilter, Since
from tests.unit.storage.openings_log import OpeningsLog


class Openings(OpeningsLog):
    """Some eight in a segment."""

    def __init__(self, path: Path, shards: int | None = None) -> None:
        super().__init__(path, 600, shards)

    def cursor(self, since: Since = "begin", name: str = "b") -> BridgeCursor:
        """Open a bridge's cursor."""
        return BridgeCursor(self.path, name, EventFilter(), since, 0)

    @property
    def positions(self) -> list[StreamPosition]:
        """Of all events that the log keeps."""
        with closing(BridgeCursor(self.path, "reader", EventFilter(), "begin", 0)) as cursor:
            found: list[StreamPosition] = []
            while batch := cursor.batch():
                found += [message.at for message in batch]
                cursor.confirmed(batch[-1].at)
            return found


class BrokenStream:
    """A server's stream that keeps what it has, and connections that fail as they are told.

    Args:
        failures: For each call of `publish`: how many messages are taken before it fails, how it fails ("lost",
            "disturbed", "" not at all), and how many of the last entries the server loses then.
    """

    def __init__(self, failures: Sequence[tuple[int, str, int]] = ()) -> None:
        self.entries: list[StreamPosition] = []
        self.sources: set[BridgeSource] = set()
        self.opened = 0
        self.repeats = 0
        self.refuses = 0
        self._failures = list(failures)

    def outlet(self, source: BridgeSource) -> BrokenStream:
        """A connection."""
        self.sources.add(source)
        return self

    async def open(self) -> None:
        """Connect, unless it refuses."""
        if self.refuses:
            self.refuses -= 1
            raise OutletLost("refused")
        self.opened += 1

    async def standing(self) -> StreamStanding:
        """What it has."""
        return StreamStanding(self.entries[-1] if self.entries else None)

    async def publish(self, messages: Sequence[BridgeMessage]) -> None:
        """Take what is behind the last entry."""
        taken, how, loses = self._failures.pop(0) if self._failures else (len(messages), "", 0)
        for message in messages[:taken] if how else messages:
            if self.entries and message.at <= self.entries[-1]:
                raise AssertionError(f"{message.at} is there already")
            self.entries.append(message.at)
        if how:
            del self.entries[max(1, len(self.entries) - loses) :]
            raise OutletLost("gone") if how == "lost" else OutletDisturbed("disturbed")

    async def close(self) -> None:
        """Nothing to let go of."""
