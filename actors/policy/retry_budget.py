"""Retry budget of one node type: retries are a share of the work, so that they do not become the load.

Purpose: when everything fails, attempts_max=5 makes five times the load of what is down already. Prior art: Finagle's
RetryBudget (2016) and Linkerd: retries are at most a share of recent first attempts, and a few a second besides.

How: a first attempt deposits `ratio` of a retry, which is lost after `window_ns`. A retry takes one from the deposits,
oldest first. If there is none, it takes the next of `min_per_s`, a meter with a burst of one second (`gcra.py`), and if
that is not due yet the retry is due when it is. So the answer is a time that stands: nobody asks twice, and those that
wait are spread over time.

Invariants: retries that are due in a span of t seconds are at most ratio * first attempts (in the span and the window
before it) + min_per_s * t + max(min_per_s, 1); none is due before it was asked for. Memory: `SLICES` counts and one
time, however many retries wait. Clock steps back take no time (`policy.forward`). Concurrency: none; one actor's.
Known limits: what first attempts deposit later does not bring forward retries whose time stands.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from typing import Any, Final

from actors.policy.forward import ForwardClock
from actors.policy.gcra import COST_PARTS, Gcra, cost_parts
from actors.protocol import limits
from actors.protocol.errors import ConfigurationError, ProtocolError

SLICES: Final = 10
"""Slices of the window: deposits are lost a slice at a time, at most that much early."""


class RetryMeter:
    """One budget.

    Args:
        ratio: Retries for each first attempt, from 0 on.
        min_per_s: Retries a second besides, above 0: else a retry might never be due.
        window_ns: How long a first attempt counts.
    """

    __slots__ = ("_clock", "_deposits", "_each", "_meter", "slice_ns")

    def __init__(
        self,
        ratio: float = limits.RETRY_RATIO,
        min_per_s: float = limits.RETRY_MIN_PER_S,
        window_ns: int = limits.RETRY_WINDOW_NS,
    ) -> None:
        if not (math.isfinite(ratio) and ratio >= 0) or window_ns < SLICES:
            raise ConfigurationError(f"retry budget of {ratio} within {window_ns} ns is out of range")
        self.slice_ns = window_ns // SLICES
        self._each = cost_parts(ratio)
        self._meter = Gcra(min_per_s, max(min_per_s, 1))
        self._clock = ForwardClock()
        self._deposits: deque[list[int]] = deque()
        """[slice, parts that are left], ascending, none of them empty."""

    def first(self, now_ns: int, count: int = 1) -> None:
        """So many first attempts were made."""
        current = self._at(now_ns) // self.slice_ns
        if not self._each or count <= 0:
            return
        if self._deposits and self._deposits[-1][0] == current:
            self._deposits[-1][1] += count * self._each
        else:
            self._deposits.append([current, count * self._each])

    def retry(self, now_ns: int) -> int:
        """When a retry that is wanted now may be made: now, or later. It is counted."""
        now = self._at(now_ns)
        if sum(parts for _, parts in self._deposits) >= COST_PARTS:
            self._withdraw()
            return now_ns
        return self._clock.outside(self._meter.reserve(COST_PARTS, now))

    def left(self, now_ns: int) -> float:
        """Retries that first attempts have deposited and that may still be made."""
        self._at(now_ns)
        return sum(parts for _, parts in self._deposits) / COST_PARTS

    def to_json(self, now_ns: int, wall_ns: int) -> dict[str, Any] | None:
        """What outlives a restart, in wall time: how long the meter is taken; None when it is free. Deposits do not."""
        busy_ns = self._meter.busy_ns(self._at(now_ns))
        return {"wall_ns": wall_ns, "busy_ns": busy_ns} if busy_ns else None

    def restore(self, state: Mapping[str, Any] | None, now_ns: int, wall_ns: int) -> None:
        """Take up what `to_json` said.

        Raises:
            ProtocolError: The state does not have the agreed form; nothing is changed.
        """
        if state is None:
            return
        then, busy_ns = state.get("wall_ns"), state.get("busy_ns")
        if type(then) is not int or type(busy_ns) is not int:
            raise ProtocolError(f"state of a retry budget is malformed: {state!r:.200}")
        self._meter.resume(max(busy_ns - max(wall_ns - then, 0), 0), self._at(now_ns))

    def _withdraw(self) -> None:
        wanted = COST_PARTS
        while wanted:
            oldest = self._deposits[0]
            taken = min(oldest[1], wanted)
            oldest[1] -= taken
            wanted -= taken
            if not oldest[1]:
                self._deposits.popleft()

    def _at(self, now_ns: int) -> int:
        now = self._clock.at(now_ns)
        oldest = now // self.slice_ns - SLICES
        while self._deposits and self._deposits[0][0] <= oldest:
            self._deposits.popleft()
        return now
