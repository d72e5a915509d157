"""Circuit breaker of one node type: when most attempts fail, nothing starts for a while, then a few try.

Purpose: a service that is down is not made worse by everything that wants it, and its tasks do not use up their
attempts meanwhile. Prior art: Michael Nygard, "Release It!", 2007; the window in slices and the share of failures are
those of Hystrix and resilience4j.

States (`BREAKER_TABLE`; `actors/ARCHITECTURE.md` draws it):
- closed: all may start. Enough ended within the window, and the share of failures is reached: tripped.
- open: nothing may. After the cooldown: cooled.
- half open: as many as there are probes may. One fails: relapsed, and the cooldown is twice as long. All succeed:
  proved, and what the window held is forgotten.

What counts: `outcome` says it for each kind of failure. A cancel or a wrong payload says nothing of the node type.
Attempts that started before a cooldown ended say nothing of what is after it: give `record` and `returned` the time of
the start if it is known.

Invariants: the window holds `limits.BREAKER_SLICES` pairs of counts, whatever ends. In half open, probes under way and
probes that succeeded are never more than `probes`; each must be answered by `record` or `returned`.
Clock steps back take no time (`policy.forward`). Concurrency: none; owned by one actor.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from actors.policy.forward import ForwardClock
from actors.protocol import limits
from actors.protocol.errors import ConfigurationError, ProtocolError
from actors.protocol.states import BREAKER_TABLE, BreakerEvent, BreakerState, FailureKind, step

COUNTED: Final = frozenset({FailureKind.ERROR, FailureKind.TIMEOUT, FailureKind.CRASH})


def outcome(failure_kind: str | None) -> bool | None:
    """What an attempt that ended says: True (None: it succeeded), False, or None for nothing."""
    if failure_kind is None:
        return True
    return False if failure_kind in COUNTED else None


class CircuitBreaker:
    """One breaker, closed at first. `state` is as of the last call that named a time.

    Args:
        ended_min: Attempts within the window below which it does not open.
        failure_ratio: Share of failures that opens it, above 0 and up to 1.
        window_ns: How far back it looks, to a slice.
        cooldown_ns: How long it stays open the first time; doubled at each relapse, up to `cooldown_max_ns`.
        cooldown_max_ns: See there.
        probes: Attempts that must succeed to close it.
    """

    __slots__ = (
        "_clock",
        "_cooldown_ns",
        "_ended",
        "_failed",
        "_half_open_ns",
        "_out",
        "_proved",
        "_slice",
        "_until_ns",
        "cooldown_max_ns",
        "cooldown_ns",
        "ended_min",
        "failure_ratio",
        "probes",
        "slice_ns",
        "state",
    )

    def __init__(
        self,
        ended_min: int = limits.BREAKER_ENDED_MIN,
        failure_ratio: float = limits.BREAKER_FAILURE_RATIO,
        window_ns: int = limits.BREAKER_WINDOW_NS,
        cooldown_ns: int = limits.BREAKER_COOLDOWN_NS,
        cooldown_max_ns: int = limits.BREAKER_COOLDOWN_MAX_NS,
        probes: int = limits.BREAKER_PROBES,
    ) -> None:
        if ended_min < 1 or probes < 1 or window_ns < limits.BREAKER_SLICES:
            raise ConfigurationError(
                f"breaker of {ended_min} attempts in {window_ns} ns, {probes} probes: out of range"
            )
        if not 0 < failure_ratio <= 1 or not 0 < cooldown_ns <= cooldown_max_ns:
            raise ConfigurationError(
                f"breaker with a share of {failure_ratio}, {cooldown_ns} to {cooldown_max_ns} ns open: out of range"
            )
        self.ended_min = ended_min
        self.failure_ratio = failure_ratio
        self.slice_ns = window_ns // limits.BREAKER_SLICES
        self.cooldown_ns = cooldown_ns
        self.cooldown_max_ns = cooldown_max_ns
        self.probes = probes
        self.state = BreakerState.CLOSED
        self._clock = ForwardClock()
        self._cooldown_ns = cooldown_ns
        self._until_ns = 0
        self._half_open_ns = 0
        self._out = 0
        self._proved = 0
        self._slice = 0
        self._ended = [0] * limits.BREAKER_SLICES
        self._failed = [0] * limits.BREAKER_SLICES

    def allow(self, now_ns: int, wanted: int = 1) -> int:
        """How many of the wanted may start now. In half open they are probes from now on."""
        self._at(now_ns)
        if self.state is BreakerState.CLOSED:
            return wanted
        if self.state is BreakerState.OPEN:
            return 0
        count = min(wanted, self.probes - self._out - self._proved)
        self._out += count
        return count

    def record(self, ok: bool, now_ns: int, count: int = 1, started_ns: int | None = None) -> None:
        """So many attempts ended, all well or all badly.

        Args:
            ok: As `outcome` says; call `returned` for what says nothing.
            now_ns: Time of the turn.
            count: How many.
            started_ns: When the first of them started, if known: what started before the breaker was half open is no
                probe.
        """
        now = self._at(now_ns)
        if self.state is BreakerState.CLOSED:
            at = self._slice % limits.BREAKER_SLICES
            self._ended[at] += count
            self._failed[at] += 0 if ok else count
            ended, failed = self.counts(now_ns)
            if not ok and ended >= self.ended_min and failed >= self.failure_ratio * ended:
                self._open(BreakerEvent.TRIPPED, now)
        elif self.state is BreakerState.HALF_OPEN:
            if not self._may_be_probe(started_ns):
                return
            if not ok:
                self._cooldown_ns = min(2 * self._cooldown_ns, self.cooldown_max_ns)
                self._open(BreakerEvent.RELAPSED, now)
                return
            self._out = max(self._out - count, 0)
            self._proved += count
            if self._proved >= self.probes:
                self._go(BreakerEvent.PROVED)
                self._cooldown_ns = self.cooldown_ns
                self._forget()

    def returned(self, count: int = 1, started_ns: int | None = None) -> None:
        """So many that were allowed ended without saying anything, or never started: others may probe."""
        if self._may_be_probe(started_ns):
            self._out = max(self._out - count, 0)

    def until_ns(self, now_ns: int) -> int | None:
        """When an open breaker lets probes through; None when it is not open."""
        self._at(now_ns)
        return self._clock.outside(self._until_ns) if self.state is BreakerState.OPEN else None

    @property
    def out(self) -> int:
        """Probes under way."""
        return self._out

    def counts(self, now_ns: int) -> tuple[int, int]:
        """Attempts that ended within the window, and those of them that failed."""
        self._at(now_ns)
        return sum(self._ended), sum(self._failed)

    def to_json(self, now_ns: int, wall_ns: int) -> dict[str, Any] | None:
        """What outlives a restart, in wall time; None while it is closed, for what a window held means nothing then."""
        now = self._at(now_ns)
        if self.state is BreakerState.CLOSED:
            return None
        open_ns = max(self._until_ns - now, 0) if self.state is BreakerState.OPEN else 0
        return {"wall_ns": wall_ns, "open_ns": open_ns, "cooldown_ns": self._cooldown_ns}

    def restore(self, state: Mapping[str, Any] | None, now_ns: int, wall_ns: int) -> None:
        """Take up what `to_json` said, into a new breaker. Probes that were under way are lost: it is open.

        Raises:
            ProtocolError: The state does not have the agreed form; nothing is changed.
        """
        if state is None:
            return
        then, open_ns, cooldown_ns = (state.get(name) for name in ("wall_ns", "open_ns", "cooldown_ns"))
        if type(then) is not int or type(open_ns) is not int or type(cooldown_ns) is not int:
            raise ProtocolError(f"state of a breaker is malformed: {state!r:.200}")
        now = self._at(now_ns)
        self._cooldown_ns = min(max(cooldown_ns, self.cooldown_ns), self.cooldown_max_ns)
        self._open(BreakerEvent.TRIPPED, now)
        self._until_ns = now + min(max(open_ns - max(wall_ns - then, 0), 0), self.cooldown_max_ns)

    def _may_be_probe(self, started_ns: int | None) -> bool:
        return started_ns is None or started_ns >= self._clock.outside(self._half_open_ns)

    def _open(self, event: BreakerEvent, now: int) -> None:
        self._go(event)
        self._until_ns = now + self._cooldown_ns
        self._forget()

    def _go(self, event: BreakerEvent) -> None:
        story = f"ended {sum(self._ended)}, failed {sum(self._failed)}, probes {self._out} out, {self._proved} proved"
        self.state = step(BREAKER_TABLE, self.state, event, story)
        self._out = self._proved = 0

    def _forget(self) -> None:
        self._ended = [0] * limits.BREAKER_SLICES
        self._failed = [0] * limits.BREAKER_SLICES

    def _at(self, now_ns: int) -> int:
        """The time inside. Slices of the window that are past are emptied; who has cooled is half open."""
        now = self._clock.at(now_ns)
        current = now // self.slice_ns
        if current != self._slice:
            for past in range(max(self._slice + 1, current - limits.BREAKER_SLICES + 1), current + 1):
                self._ended[past % limits.BREAKER_SLICES] = self._failed[past % limits.BREAKER_SLICES] = 0
            self._slice = current
        if self.state is BreakerState.OPEN and now >= self._until_ns:
            self._go(BreakerEvent.COOLED)
            self._half_open_ns = now
        return now
