"""What a subscriber of events holds, and what becomes of more: the policy of a subscription.

The log is the queue: a subscriber that is slow reads later, and delays neither the engine nor another subscriber. What
it does not want to read late is decided here, each time that it asks for more:

    block         nothing is dropped: it reads all, as late as it likes, as long as the log keeps it
    drop_oldest   of more than it holds, the oldest go
    latest        of each key the latest event is held, in the order of these; of more keys than it holds, the oldest go
    disconnect    more than it holds is an error, once; then it is closed

Invariants: what is given out is in order; given out + dropped + held = read. Under "block" at most one reading of the
log is held.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Final, Literal, get_args

from actors.event_kinds import Event
from actors.protocol import limits
from actors.protocol.errors import ConfigurationError
from actors.protocol.event_errors import SubscriberTooSlow
from actors.protocol.words import counted
from runtime.checks import is_whole
from runtime.event_reader import EventReader

WhenFull = Literal["block", "drop_oldest", "latest", "disconnect"]
EventKey = Literal["run", "node", "kind", "name"] | Callable[[Event], Hashable]
_KEYS: Final[dict[str, Callable[[Event], Hashable]]] = {
    "run": lambda event: event.run,
    "node": lambda event: (event.run, event.node),
    "kind": lambda event: event.kind,
    "name": lambda event: event.name,
}


@dataclass(frozen=True, slots=True)
class EventStatistics:
    """Snapshot of a subscriber.

    Args:
        read: Events that were wanted and read from the log.
        delivered: Those that were given out.
        dropped: Those that its policy gave up.
        held: Those that wait to be taken.
        next_lsn: The record that is read next.
        unacknowledged: Of a durable subscription, events that were given out and not acknowledged.
        dead: Of a durable subscription, events that its callback failed on for good.
    """

    read: int
    delivered: int
    dropped: int
    held: int
    next_lsn: int
    unacknowledged: int = 0
    dead: int = 0


def key_of(key: object) -> Callable[[Event], Hashable]:
    """The function of a key. Raises ConfigurationError."""
    if callable(key):
        return key
    found = _KEYS.get(key) if isinstance(key, str) else None
    if found is None:
        raise ConfigurationError(f"events: a key is a function or one of {', '.join(_KEYS)}, not {key!r:.60}")
    return found


def check_policy(when_full: object, holds: object, key: object) -> None:
    """Raise ConfigurationError naming all that is wrong."""
    problems = []
    if when_full not in get_args(WhenFull):
        problems.append(f"when_full must be one of {', '.join(get_args(WhenFull))}, not {when_full!r:.60}")
    if not is_whole(holds, 1, limits.EVENTS_HELD_MAX):
        problems.append(f"holds must be a whole number from 1 to {limits.EVENTS_HELD_MAX:,}, not {holds!r:.60}")
    if not callable(key) and not (isinstance(key, str) and key in _KEYS):
        problems.append(f"a key is a function or one of {', '.join(_KEYS)}, not {key!r:.60}")
    if problems:
        raise ConfigurationError("events: " + "; ".join(problems))


class EventBuffer:
    """See the module. Raises ConfigurationError: the policy cannot be."""

    def __init__(
        self,
        reader: EventReader,
        when_full: WhenFull = "block",
        holds: int = limits.EVENTS_HELD,
        key: EventKey = "node",
    ) -> None:
        check_policy(when_full, holds, key)
        self.reader = reader
        self.read = self.delivered = self.dropped = 0
        self._when_full = when_full
        self._holds = holds
        self._key = key_of(key)
        self._waiting: list[Event] = []
        self._at = 0
        self._latest: dict[Hashable, Event] = {}

    @property
    def held(self) -> int:
        """Events that wait to be taken."""
        return len(self._waiting) - self._at + len(self._latest)

    @property
    def is_patient(self) -> bool:
        """Whether what is held may be taken before more is read."""
        return self._when_full == "block"

    def fill(self, upto_lsn: int | None) -> bool:
        """Read on, if that is needed; whether something is held.

        Raises:
            SubscriberTooSlow: By its policy. CursorTooOld: The log went on without it.
        """
        if self.is_patient:
            if not self.held:
                self._waiting, self._at = self.reader.read(upto_lsn), 0
                self.read += len(self._waiting)
            return bool(self.held)
        while found := self.reader.read(upto_lsn):
            self.read += len(found)
            if self._when_full == "latest":
                self._keep_latest(found)
                continue
            self._waiting = self._waiting[self._at :] + found if self._at < len(self._waiting) else found
            self._at = 0
            over = len(self._waiting) - self._holds
            if over > 0 and self._when_full == "disconnect":
                raise SubscriberTooSlow(f"{counted(len(self._waiting), 'event')} wait, and {self._holds:,} are held")
            if over > 0:
                self._at = over
                self.dropped += over
        return bool(self.held)

    def take(self, most: int) -> list[Event]:
        """Up to so many of those that are held, in order."""
        if self._latest:
            keys = [key for key, _ in zip(self._latest, range(most), strict=False)]
            found = [self._latest.pop(key) for key in keys]
        else:
            found = self._waiting[self._at : self._at + most]
            self._at += len(found)
            if self._at >= len(self._waiting):
                self._waiting, self._at = [], 0
        self.delivered += len(found)
        return found

    def _keep_latest(self, found: list[Event]) -> None:
        latest, key = self._latest, self._key
        for event in found:
            name = key(event)
            if latest.pop(name, None) is not None:
                self.dropped += 1
            latest[name] = event
        while len(latest) > self._holds:
            del latest[next(iter(latest))]
            self.dropped += 1

    def statistics(self, unacknowledged: int = 0, dead: int = 0) -> EventStatistics:
        """Frozen snapshot."""
        return EventStatistics(
            self.read, self.delivered, self.dropped, self.held, self.reader.next_lsn, unacknowledged, dead
        )
