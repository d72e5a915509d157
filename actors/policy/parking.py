"""Work whose handler cannot be found, by kind, and when it is looked for again.

Trying an import is the only way to know whether a handler has appeared, so one parked place of a kind tries now and
then (the probe); when it does not come back, its handler is there, and all others of the kind follow. The waits between
probes double up to a bound, so that a handler that never comes costs nothing.

    waiting ──due──► probing ──came back──► waiting, for twice as long
                        └──was tried and did not come back──► all are given out

Invariants: a place is parked once; a kind without parked places and without a probe is not kept.
Concurrency: none; owned by one actor. Known limits: a probe whose import takes longer than `PARKED_LOOK_MIN_NS` counts
as found too early; the others then come back once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from actors.protocol import limits

Place = tuple[int, int]
"""Number of a run, and node."""


class _Lot:
    """The parked places of one kind."""

    __slots__ = ("delay_ns", "due_ns", "places", "probe")

    def __init__(self, now_ns: int) -> None:
        self.places: deque[Place] = deque()
        self.probe: Place | None = None
        self.delay_ns = limits.PARKED_LOOK_MIN_NS
        self.due_ns = now_ns + self.delay_ns


class Parking:
    """See the module."""

    def __init__(self) -> None:
        self._lots: dict[int, _Lot] = {}

    def __len__(self) -> int:
        return len(self._lots)

    def park(self, kind_no: int, place: Place, now_ns: int) -> bool:
        """Keep a place whose handler was not found. False: it is the probe of its kind, which came back."""
        lot = self._lots.get(kind_no)
        if lot is None:
            lot = self._lots[kind_no] = _Lot(now_ns)
        lot.places.append(place)
        if place != lot.probe:
            return True
        lot.probe = None
        lot.delay_ns = min(limits.PARKED_LOOK_MAX_NS, 2 * lot.delay_ns)
        lot.due_ns = now_ns + lot.delay_ns
        return False

    def due(self, now_ns: int, waits: Callable[[Place], bool], untried: Callable[[Place], bool]) -> list[Place]:
        """Take what shall be tried now.

        Args:
            now_ns: The time.
            waits: Whether a place is still parked; others (cancelled meanwhile) are forgotten.
            untried: Whether a place that was given out has not been tried yet.
        """
        taken: list[Place] = []
        for kind_no in [no for no, lot in self._lots.items() if lot.due_ns <= now_ns]:
            lot = self._lots[kind_no]
            lot.due_ns = now_ns + limits.PARKED_LOOK_MIN_NS
            if lot.probe is None:
                lot.probe = _first(lot.places, waits)
                if lot.probe is None:
                    del self._lots[kind_no]
                else:
                    taken.append(lot.probe)
            elif not untried(lot.probe):
                taken += [place for place in lot.places if waits(place)]
                del self._lots[kind_no]
        return taken

    def next_ns(self) -> int | None:
        """When to call `due` next; None when nothing is parked."""
        return min((lot.due_ns for lot in self._lots.values()), default=None)


def _first(places: deque[Place], waits: Callable[[Place], bool]) -> Place | None:
    while places:
        place = places.popleft()
        if waits(place):
            return place
    return None
