"""Rate limits by rate key: at most so many starts in a second, with a burst, whatever the number of workers.

Each key that has a rate has one meter (`gcra.py` says how it counts, and its source). A start costs its kind's
`rate_cost`.

What survives a restart: `state` is plain JSON that says how long each meter still takes to be full, and at which wall
time that was so. `changes` is the same for the keys taken from since the last call, so a record of it with each commit
loses nothing to a crash. At `restore` the wall time that passed counts; if the wall clock went back meanwhile, none
did.

Clocks: `now_ns` is the monotonic time of the turn. If it steps back all the same, no time passes at that step and it
goes on from there, so a step back neither blocks nor lets anything through twice. A step forward fills a burst at most.

Memory: one meter for each key that has a rate, at most `limits.SCOPES_LIMITED_MAX`; a state names only keys that are
not full. Concurrency: none; owned by one actor. Known limits: what was taken is not given back, so a start that is
taken back before it began counts twice: fewer start than may, never more.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any, Final

from actors.policy.forward import ForwardClock
from actors.policy.gcra import Gcra, cost_parts
from actors.policy.scopes import Scoped, name_problem
from actors.protocol import limits
from actors.protocol.errors import CallerError, ConfigurationError, ProtocolError

BUSY_NS_MAX: Final = (1 << 63) - 1
"""Longest that a state can say: what JSON readers take as an integer. 292 years."""


class Rates:
    """Meters by rate key."""

    __slots__ = ("_clock", "_meters", "_taken")

    def __init__(self) -> None:
        self._clock = ForwardClock()
        self._meters: dict[str, Gcra] = {}
        self._taken: set[str] = set()

    def set(self, key: str, per_s: float | Fraction | None, burst: float = 1.0, now_ns: int | None = None) -> None:
        """Set, change or (None) take away the rate of a key. What was used of the old rate counts as used of the new.

        Args:
            key: Rate key.
            per_s: Starts in a second; a float means exactly the fraction that it is.
            burst: Starts that pass at once when none were for long.
            now_ns: Time of the turn; without it a change counts from the last call that named one.

        Raises:
            ConfigurationError: The key, the rate or the burst is out of range.
            CallerError: There are `limits.SCOPES_LIMITED_MAX` already.
        """
        trouble = name_problem(key)
        if trouble:
            raise ConfigurationError(f"rate key {key!r}: {trouble}")
        if per_s is None:
            self._meters.pop(key, None)
            self._taken.discard(key)
            return
        meter = self._meters.get(key)
        if meter is None:
            if len(self._meters) >= limits.SCOPES_LIMITED_MAX:
                raise CallerError(f"more than {limits.SCOPES_LIMITED_MAX:,} keys would have a rate")
            self._meters[key] = Gcra(per_s, burst)
            return
        self._meters[key] = meter.changed(
            per_s, burst, self._clock.inside_ns if now_ns is None else self._clock.at(now_ns)
        )
        self._taken.add(key)

    def rate(self, key: str) -> tuple[float | Fraction, float] | None:
        """Rate in a second and burst of a key; None when it has none."""
        meter = self._meters.get(key)
        return None if meter is None else (meter.per_s, meter.burst)

    def take(self, kind: Scoped, wanted: int, now_ns: int) -> tuple[int, int]:
        """Take up to so many starts of a kind.

        Returns:
            How many may start now, and when the next may: not later than now if it may at once.
        """
        key = kind.rate_key
        meter = None if key is None else self._meters.get(key)
        if key is None or meter is None:
            return wanted, now_ns
        now = self._clock.at(now_ns)
        parts = cost_parts(kind.rate_cost)
        count = meter.take(wanted, parts, now)
        if count:
            self._taken.add(key)
        return count, self._clock.outside(meter.next_ns(parts, now))

    def room_for(self, kind: Scoped, now_ns: int) -> float:
        """How many of a kind may start now."""
        meter = None if kind.rate_key is None else self._meters.get(kind.rate_key)
        return math.inf if meter is None else meter.room(cost_parts(kind.rate_cost), self._clock.at(now_ns))

    def next_ns(self, kind: Scoped, now_ns: int) -> int:
        """When the next of a kind may start."""
        meter = None if kind.rate_key is None else self._meters.get(kind.rate_key)
        if meter is None:
            return now_ns
        return self._clock.outside(meter.next_ns(cost_parts(kind.rate_cost), self._clock.at(now_ns)))

    def state(self, now_ns: int, wall_ns: int) -> dict[str, Any]:
        """All meters that are not full: {"wall_ns": ..., "busy_ns": {key: how long until it is full}}."""
        self._taken.clear()
        busy = self._busy(self._meters, now_ns)
        return {"wall_ns": wall_ns, "busy_ns": {key: left for key, left in busy.items() if left}}

    def changes(self, now_ns: int, wall_ns: int) -> dict[str, Any] | None:
        """The same for keys taken from since the last call of this or `state`; None when there are none."""
        if not self._taken:
            return None
        taken, self._taken = self._taken, set()
        return {"wall_ns": wall_ns, "busy_ns": self._busy(sorted(taken), now_ns)}

    def restore(self, state: Mapping[str, Any], now_ns: int, wall_ns: int) -> None:
        """Take up a state, or changes in the order in which they were written. Keys without a rate are passed over.

        Raises:
            ProtocolError: The state does not have the agreed form; nothing is changed.
        """
        then, busy = state.get("wall_ns"), state.get("busy_ns")
        if type(then) is not int or not isinstance(busy, dict):
            raise ProtocolError(f"state of rates is malformed: {state!r:.200}")
        if not all(isinstance(key, str) and type(left) is int and left >= 0 for key, left in busy.items()):
            raise ProtocolError(f"state of rates is malformed: {busy!r:.200}")
        now, passed = self._clock.at(now_ns), max(wall_ns - then, 0)
        for key, left in busy.items():
            if key in self._meters:
                self._meters[key].resume(max(left - passed, 0), now)

    def _busy(self, keys: Iterable[str], now_ns: int) -> dict[str, int]:
        now = self._clock.at(now_ns)
        return {key: min(self._meters[key].busy_ns(now), BUSY_NS_MAX) for key in keys}
