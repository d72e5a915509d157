"""Restart intensity: how often something may fail within a sliding window before its supervisor gives up.

Prior art: `intensity` and `period` of Erlang/OTP supervisors. A failure is remembered for `window_ns`; the one that
makes more than `restarts_max` of them within a window is not answered by a restart but by escalation.

Invariants: at most `restarts_max + 1` times are remembered, ascending. Concurrency: none; owned by one actor.
Known limits: knows nothing of causes; a backoff between restarts is the caller's.
"""

from __future__ import annotations

from collections import deque

from actors.protocol import limits
from actors.protocol.errors import ConfigurationError


class RestartIntensity:
    """Counts failures in a sliding window.

    Args:
        restarts_max: Restarts allowed within the window; 0 allows none.
        window_ns: Length of the window.
    """

    __slots__ = ("_times", "restarts_max", "window_ns")

    def __init__(self, restarts_max: int = limits.RESTARTS_MAX, window_ns: int = limits.RESTART_WINDOW_NS) -> None:
        if restarts_max < 0 or window_ns <= 0:
            raise ConfigurationError(f"restart intensity {restarts_max} in {window_ns} ns is out of range")
        self.restarts_max = restarts_max
        self.window_ns = window_ns
        self._times: deque[int] = deque(maxlen=restarts_max + 1)

    def failed(self, now_ns: int) -> bool:
        """Note a failure. True: restart; False: too many within the window, escalate."""
        if self._times and now_ns < self._times[-1]:
            now_ns = self._times[-1]
        self._times.append(now_ns)
        return self.count(now_ns) <= self.restarts_max

    def count(self, now_ns: int) -> int:
        """Failures remembered that are younger than the window."""
        while self._times and self._times[0] <= now_ns - self.window_ns:
            self._times.popleft()
        return len(self._times)

    def clear(self) -> None:
        """Forget all failures: the child was healthy for long enough in the eyes of the caller."""
        self._times.clear()
