"""Durable subscriptions for blocking callers: events that are delivered at least once, over restarts of the program.

    with rt.subscribe("billing", "run.succeeded") as events:
        for event in events:
            charge(event.run)
            events.ack(event)

    rt.subscribe("mail", "*.failed").run(send_mail, attempts=5)       # acknowledges by itself; gives up after five

What is not acknowledged is delivered again to the next reader of that name. See `runtime.event_cursor`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any, Final

from actors.event_kinds import Event
from actors.protocol import limits
from actors.protocol.errors import ConfigurationError
from runtime.checks import is_number, is_whole
from runtime.event_buffer import EventKey, WhenFull
from runtime.event_cursor import EventCursor
from runtime.event_stream import EventStream
from runtime.host.client import EngineClient

PAUSE_S: Final = 0.1
PAUSE_S_MAX: Final = 30.0
ATTEMPTS: Final = 5


class Subscription(EventStream):
    """An `EventStream` with a cursor that is kept."""

    def __init__(
        self,
        cursor: EventCursor,
        client: EngineClient,
        *,
        follow: bool = True,
        when_full: WhenFull = "block",
        holds: int = limits.EVENTS_HELD,
        key: EventKey = "node",
    ) -> None:
        try:
            super().__init__(
                cursor.reader, client, follow=follow, when_full=when_full, holds=holds, key=key, cursor=cursor
            )
        except BaseException:
            cursor.close()
            raise
        self._kept = cursor
        self._stopped = threading.Event()

    @property
    def lost(self) -> list[tuple[int, int]]:
        """LSNs, from and to, that were removed from the log before they were read."""
        return list(self._kept.lost)

    def ack(self, upto: Event | int) -> None:
        """This event, and all that were given out before it, are dealt with: they are not delivered again.

        Args:
            upto: The event; or an LSN, for all events of its record, too.

        Raises:
            CallerError: The event was not given out. DiskFull: it is acknowledged, and not written yet.

        What a crash leaves behind: the latest acknowledgements, of some 50 ms, may be forgotten; these events are
        delivered again.
        """
        self._kept.ack(upto)

    def dead(self) -> Iterator[dict[str, Any]]:
        """The events that `run` gave up, oldest first, with `error` and `attempts`."""
        return self._kept.file.dead()

    def run(self, callback: Callable[[Event], object], *, attempts: int = ATTEMPTS, pause: float = PAUSE_S) -> None:
        """Call a function for each event, and acknowledge it; until the subscription or its runtime is closed.

        Args:
            callback: Called in this thread, for one event at a time, in order. What it raises means: try again.
            attempts: Calls for one event; then it is a dead letter, see `dead`, and the next one has its turn.
            pause: Seconds before the second call; each further pause is twice as long, up to 30.

        A full disk does not end it: what is acknowledged is written when there is room, and a dead letter waits for it.

        Raises:
            ConfigurationError: It cannot be.
        """
        check_run(callback, attempts, pause)
        for event in self:
            if not self._called(callback, event, attempts, pause):
                return
            if self._kept.acknowledge(event):
                self._kept.save_with_room()

    def _called(self, callback: Callable[[Event], object], event: Event, attempts: int, pause: float) -> bool:
        """Whether this event is dealt with; False: it was closed meanwhile."""
        for attempt in range(1, attempts + 1):
            try:
                callback(event)
                return True
            except Exception as error:
                if attempt == attempts:
                    return self._given_up(event, error, attempts)
            if self._stopped.wait(min(PAUSE_S_MAX, pause * 2 ** (attempt - 1))):
                return False
        return True

    def _given_up(self, event: Event, error: Exception, attempts: int) -> bool:
        """Whether it is a dead letter now; a full disk is waited for. False: the subscription was closed meanwhile."""
        while not self._kept.give_up(event, error, attempts):
            if self._stopped.wait(PAUSE_S):
                return False
        return True

    def close(self) -> None:
        """End it, and write how far it came. Again is harmless."""
        self._stopped.set()
        super().close()


def check_run(callback: object, attempts: object, pause: object) -> None:
    """Raise ConfigurationError naming all that is wrong."""
    problems = []
    if not callable(callback):
        problems.append(f"callback must be a function, not {callback!r:.60}")
    if not is_whole(attempts, 1, 1000):
        problems.append(f"attempts must be a whole number from 1 to 1,000, not {attempts!r:.60}")
    if not is_number(pause, 0.0, PAUSE_S_MAX):
        problems.append(f"pause must be 0 to {PAUSE_S_MAX:.0f} seconds, not {pause!r:.60}")
    if problems:
        raise ConfigurationError("subscription: " + "; ".join(problems))
