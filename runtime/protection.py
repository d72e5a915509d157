"""What keeps a node type from making things worse when what it calls is down: a retry budget and a circuit breaker.

Both are options of a `NodeType`. What they do is decided in `actors.guards`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from actors.protocol import limits
from actors.protocol.moments import NS_PER_S
from runtime.checks import is_number, is_whole, refuse
from runtime.units import seconds_to_ns


@dataclass(frozen=True, slots=True)
class RetryBudget:
    """How many retries a node type may have, so that they do not become its load. What is above waits its turn.

    Args:
        ratio: Retries for each first attempt of the last 10 seconds.
        per_s: Retries a second besides; what waits is spread over time by it, and as much may come at once.

    Raises:
        ConfigurationError: A value is out of range; all problems are named.
    """

    ratio: float = limits.RETRY_RATIO
    per_s: float = limits.RETRY_MIN_PER_S

    def __post_init__(self) -> None:
        refuse(
            "RetryBudget",
            (is_number(self.ratio, 0, 1_000), f"ratio must be a number from 0 to 1,000, not {self.ratio!r:.60}"),
            (
                is_number(self.per_s, 0.001, 1_000_000),
                f"per_s must be a number from 0.001 to 1,000,000, not {self.per_s!r:.60}",
            ),
        )

    def to_wire(self) -> dict[str, Any]:
        """As the engine reads it."""
        return {"ratio": float(self.ratio), "min_per_s": float(self.per_s)}


@dataclass(frozen=True, slots=True)
class Breaker:
    """When a node type stops starting tasks because most of them fail, and how it finds out that they succeed again.

    Failures are attempts that ended with the kind "error", "timeout" or "crash".

    Args:
        min_attempts: Attempts that ended within the window below which nothing is concluded.
        failure_ratio: Share of failures among them that opens it, above 0 and up to 1.
        window: Seconds that it looks back.
        cooldown: Seconds in which nothing starts; twice as many each time that it does not work again after them.
        cooldown_cap: Longest of these.
        probes: Tasks that start after that, and must succeed before the others do.

    Raises:
        ConfigurationError: A value is out of range; all problems are named.
    """

    min_attempts: int = limits.BREAKER_ENDED_MIN
    failure_ratio: float = limits.BREAKER_FAILURE_RATIO
    window: float = limits.BREAKER_WINDOW_NS / NS_PER_S
    cooldown: float = limits.BREAKER_COOLDOWN_NS / NS_PER_S
    cooldown_cap: float = limits.BREAKER_COOLDOWN_MAX_NS / NS_PER_S
    probes: int = limits.BREAKER_PROBES

    def __post_init__(self) -> None:
        cooldown = is_number(self.cooldown, 0.001)
        refuse(
            "Breaker",
            (is_whole(self.min_attempts), f"min_attempts must be a whole number from 1, not {self.min_attempts!r:.60}"),
            (
                is_number(self.failure_ratio, 0, 1, above=True),
                f"failure_ratio must be a number above 0 and up to 1, not {self.failure_ratio!r:.60}",
            ),
            (is_number(self.window, 0.001), f"window must be at least 0.001 seconds, not {self.window!r:.60}"),
            (cooldown, f"cooldown must be at least 0.001 seconds, not {self.cooldown!r:.60}"),
            (
                is_number(self.cooldown_cap, self.cooldown if cooldown else 0.001),
                f"cooldown_cap must not be below cooldown, and not {self.cooldown_cap!r:.60}",
            ),
            (is_whole(self.probes), f"probes must be a whole number from 1, not {self.probes!r:.60}"),
        )

    def to_wire(self) -> dict[str, Any]:
        """As the engine reads it: plain JSON, times in nanoseconds."""
        return {
            "ended_min": self.min_attempts,
            "failure_ratio": float(self.failure_ratio),
            "window_ns": seconds_to_ns(self.window),
            "cooldown_ns": seconds_to_ns(self.cooldown),
            "cooldown_max_ns": seconds_to_ns(self.cooldown_cap),
            "probes": self.probes,
        }
