"""Events for blocking callers: an iterator over what the log tells, from any place on and live.

    for event in rt.events(kinds="*.failed"):                 # from now on, until it is closed
        page(event.run, event.cause)

    with rt.events(run=handle, since="begin", follow=False) as events:
        story = list(events)

An event is given out when it is durable. `EventStream` reads the log itself, in the thread that asks for the next
event; from the engine it hears only how far it may read. So a slow or raising subscriber harms nobody, and costs the
engine one small frame a turn.

Concurrency: one thread reads a stream; `close` and `statistics` from any. After a fork a stream of the parent ends.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Self

from actors.event_kinds import Event
from actors.protocol import limits
from actors.protocol.event_errors import CursorTooOld, SubscriberTooSlow
from runtime.event_batches import Batching
from runtime.event_buffer import EventBuffer, EventKey, EventStatistics, WhenFull
from runtime.event_cursor import EventCursor
from runtime.event_reader import EventReader
from runtime.host.horizon import FIRST_WORD_S
from runtime.profile.ledger.kinds import SUBSCRIPTION
from runtime.profile.ledger.named import enter, leave
from runtime.profile.ledger.sites import user_place

if TYPE_CHECKING:
    from runtime.host.client import EngineClient

POLL_S = 0.02
"""Between two looks at a log of which no engine tells us anything."""


class EventStream:
    """See the module.

    Args:
        reader: Where events come from; the stream closes it.
        client: Who hears from the engine; None: nobody, the log is looked at every `POLL_S`.
        follow: Wait for more at the end; else the stream ends with what is durable by now.
        when_full, holds, key: What becomes of events that it is late for; see `runtime.event_buffer`.
        cursor: Of a durable subscription.
    """

    def __init__(
        self,
        reader: EventReader,
        client: EngineClient | None = None,
        *,
        follow: bool = True,
        when_full: WhenFull = "block",
        holds: int = limits.EVENTS_HELD,
        key: EventKey = "node",
        cursor: EventCursor | None = None,
    ) -> None:
        self.closed = True
        self._cursor = cursor
        try:
            self._buffer = EventBuffer(reader, when_full, holds, key)
        except BaseException:
            reader.close()
            raise
        self.closed = False
        self._reader = reader
        self._client = client
        self._follow = follow
        self._upto: int | None = None
        self._busy = threading.Lock()
        self._entry = 0 if cursor is not None else enter(SUBSCRIPTION, self, "events", user_place())
        self._token = object()  # not the stream, which would never be forgotten
        if client is not None:
            client.horizon.watch(self._token, client.lock)
            self._words = 0 if follow else client.horizon.refresh(client.lock)

    # --- reading --------------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        event = self.get()
        if event is None:
            raise StopIteration
        return event

    def get(self, timeout: float | None = None) -> Event | None:
        """The next event.

        Args:
            timeout: Seconds to wait; None waits as long as it takes.

        Returns:
            None: the time is over, or there will be none, because the stream or its runtime is closed, or does not
            follow.

        Raises:
            CursorTooOld: What comes next was removed before it was read. SubscriberTooSlow: by its policy.
        """
        found = self._take(1, None if timeout is None else time.monotonic() + timeout)
        return found[0] if found else None

    def batches(
        self, most: int = 1000, *, window: float = 0.0, by: EventKey | None = None, latest: bool = False
    ) -> Iterator[list[Event]]:
        """Events by the batch.

        Args:
            most: Events in a batch at most.
            window: Seconds that a batch waits for more after its first event; 0: it takes what is there.
            by: Give out events of one "run", "node", "kind" or "name", or of what a function says of an event,
                together: what would be one batch is then one for each of them.
            latest: Of each of them (of each node, where `by` is None) only the last event of the batch.

        Returns:
            An iterator that ends as the stream does.

        Raises:
            ConfigurationError: It cannot be; at once. While iterating: as `get`.
        """
        return self._batches(Batching(most, window, by, latest))

    def _batches(self, batching: Batching) -> Iterator[list[Event]]:
        while events := self._take(batching.most, None):
            until = time.monotonic() + batching.window
            while batching.window and len(events) < batching.most:
                more = self._take(batching.most - len(events), until)
                if not more:
                    break
                events += more
            yield from batching.groups(events)

    def _take(self, most: int, deadline: float | None) -> list[Event]:
        """Some events; none: the time is over, or it has ended."""
        with self._busy:
            while not self.closed:
                horizon = None if self._client is None else self._client.horizon
                ended = horizon is not None and horizon.closed
                if self._fill():
                    return self._given(most)
                if self._cursor is not None:
                    self._cursor.pause(self._buffer.held)
                if ended or not self._follow:
                    return []
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    return []
                self._wait(left)
            return []

    def _given(self, most: int) -> list[Event]:
        """Give out what is held."""
        if self._cursor is None:
            return self._buffer.take(most)
        events = self._buffer.take(self._cursor.room(most))
        self._cursor.given(events)
        return events

    def _fill(self) -> bool:
        while True:
            try:
                return self._buffer.fill(self._readable())
            except CursorTooOld as gone:
                if self._cursor is None:
                    raise
                self._cursor.skip(gone)
            except SubscriberTooSlow:
                self._release()
                raise

    def _readable(self) -> int | None:
        """The last record that may be read; None: all that is there."""
        if self._client is None or self._client.horizon.closed:
            return None
        horizon = self._client.horizon
        if not horizon.lsn and not horizon.wait(0, FIRST_WORD_S, self._is_closed):
            return None
        if self._upto is None and not self._follow:
            horizon.wait(1 << 62, FIRST_WORD_S, lambda: self.closed or horizon.words > self._words)
            self._upto = horizon.lsn
        return horizon.lsn if self._follow else self._upto

    def _wait(self, left: float | None) -> None:
        if self._client is None:
            threading.Event().wait(POLL_S if left is None else min(left, POLL_S))
        else:
            self._client.horizon.wait(self._reader.next_lsn - 1, left, self._is_closed)

    def _is_closed(self) -> bool:
        return self.closed

    # --- the end --------------------------------------------------------------------------------------------------

    def statistics(self) -> EventStatistics:
        """What it read, gave out and dropped, and where it is."""
        cursor = self._cursor
        if cursor is None:
            return self._buffer.statistics()
        return self._buffer.statistics(cursor.unacknowledged, cursor.dead)

    def close(self) -> None:
        """End it; who waits in it is woken. Again is harmless."""
        self.closed = True
        if self._client is not None:
            self._client.horizon.nudge()
        with self._busy:
            self._release()

    def _release(self) -> None:
        self.closed = True
        self._entry = leave(self._entry)
        if self._client is not None:
            self._client.horizon.leave(self._token, self._client.lock)
        self._reader.close()
        if self._cursor is not None:
            self._cursor.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if not self.closed and self._client is not None:
            self._reader.close()
            if self._cursor is not None:
                self._cursor.file.close()
            self._client.reader.later(partial(self._client.horizon.leave, self._token, self._client.lock))
