"""How many leases a worker claims at a time, by the measured duration of their kind.

A claim costs a system call or two, so short tasks are claimed many at a time; what is claimed can no longer be taken
back and given to an idle worker, so long ones are claimed singly. The size aims at `limits.CLAIM_TARGET_NS` of work.

An unknown kind starts at one, and a size at most doubles from claim to claim: a first task that happened to be quick (a
cache hit, an early return) must not make hundreds wait behind a slow second one. One slow claim shrinks the size at
once, because the average of a claim counts in full when it is above the running average.

Prior art: guided self-scheduling (Polychronopoulos and Kuck, 1987), with measured instead of remaining work.
"""

from __future__ import annotations

from actors.protocol import limits

_SMOOTHING = 0.25
"""Weight of a claim that was faster than the average: about ten claims to follow a change."""


class ClaimSize:
    """The claim size of one task kind.

    Invariant: 1 <= size() <= limits.CLAIM_MAX.
    """

    __slots__ = ("average_ns", "_size")

    def __init__(self) -> None:
        self.average_ns = 0.0
        """Average duration of a task; 0 when nothing was measured."""
        self._size = 1

    def size(self) -> int:
        """How many to claim next."""
        return self._size

    def long_or_unknown(self) -> bool:
        """Whether the next task may take so long that results must not wait behind it."""
        return self.average_ns == 0 or self.average_ns >= limits.CLAIM_TARGET_NS

    def ran(self, count: int, elapsed_ns: int) -> None:
        """Learn from a claim that ended: `count` tasks took `elapsed_ns` together."""
        if count <= 0:
            return
        sample = max(elapsed_ns, 1) / count
        if sample >= self.average_ns:
            self.average_ns = sample
        else:
            self.average_ns += _SMOOTHING * (sample - self.average_ns)
        fitting = int(limits.CLAIM_TARGET_NS / self.average_ns)
        self._size = max(1, min(fitting, 2 * self._size, limits.CLAIM_MAX))
