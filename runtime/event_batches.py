"""Batches of events: how many, for how long, by which key, and of each key only the latest.

Pure: `Batching` gathers what arrives and says until when more may come; who waits is the stream.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final

from actors.event_kinds import Event
from actors.protocol import limits
from actors.protocol.errors import ConfigurationError
from runtime.checks import is_number, is_whole
from runtime.event_buffer import EventKey, key_of

WINDOW_S_MAX: Final = 3600.0


@dataclass(frozen=True, slots=True)
class Batching:
    """How events are put together. Raises ConfigurationError naming all that is wrong.

    Args:
        most: Events in a batch at most, before those that `latest` leaves out.
        window: Seconds that a batch waits for more after its first event; 0: it takes what is there.
        by: Group by this key: each batch has events of one key. None: no groups.
        latest: Only the last event of each key; where `by` is None, of each node.
    """

    most: int = 1000
    window: float = 0.0
    by: EventKey | None = None
    latest: bool = False

    def __post_init__(self) -> None:
        problems = []
        if not is_whole(self.most, 1, limits.EVENTS_HELD_MAX):
            problems.append(f"most must be a whole number from 1 to {limits.EVENTS_HELD_MAX:,}, not {self.most!r:.60}")
        if not is_number(self.window, 0.0, WINDOW_S_MAX):
            problems.append(f"window must be 0 to {WINDOW_S_MAX:,.0f} seconds, not {self.window!r:.60}")
        if self.by is not None:
            try:
                key_of(self.by)
            except ConfigurationError as wrong:
                problems.append(wrong.message.removeprefix("events: "))
        if problems:
            raise ConfigurationError("events: " + "; ".join(problems))

    def groups(self, events: list[Event]) -> list[list[Event]]:
        """The batches that these events make, each in order; those of a key whose first event is older come first."""
        if self.latest:
            key = key_of(self.by or "node")
            last = {key(event): event for event in events}
            events = sorted(last.values(), key=lambda event: (event.lsn, event.place))
        if self.by is None:
            return [events] if events else []
        key = key_of(self.by)
        found: dict[Hashable, list[Event]] = {}
        for event in events:
            found.setdefault(key(event), []).append(event)
        return list(found.values())
