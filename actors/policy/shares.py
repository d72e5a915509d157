"""Shares of the classes: what a class gets while it has work, and what it never exceeds.

A least share is lent: while its class has nothing to do, others use it, and it comes back as their tasks end. A most
share is a bound, so what it leaves is free for the other classes at once: with `low` at 0.8, a fifth of the slots never
has to wait for the end of a long task of class low.

Slots are those of the workers that serve: shares of a pool that grows grow with it. A least share is rounded up, a most
share down, but never to nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

from actors.protocol.kinds import PRIORITIES

ALL: Final = 1 << 62
"""Room without a bound."""
_SLACK: Final = 1e-9
"""What binary fractions may be off: 0.7 of 10 slots are 7."""


def divide(shares: Mapping[str, tuple[float, float]]) -> bool:
    """Whether there is more than a least share of the best class, which comes first anyway."""
    return any(most < 1.0 or (least > 0 and name != PRIORITIES[0]) for name, (least, most) in shares.items())


def owed(
    shares: Mapping[str, tuple[float, float]], slots: int, held: Sequence[int], waiting: Sequence[int]
) -> list[tuple[int, int]]:
    """Classes that have less than their least share and wait, best first, with how much they lack.

    Args:
        shares: Least and most part of the slots, by class name.
        slots: Slots of the pool.
        held: Leases of each class.
        waiting: Classes of which something can be taken.
    """
    found = []
    for class_ in waiting:
        least, _ = shares.get(PRIORITIES[class_], (0.0, 1.0))
        lack = math.ceil(least * slots - _SLACK) - held[class_]
        if lack > 0:
            found.append((class_, lack))
    return found


def room(shares: Mapping[str, tuple[float, float]], slots: int, held: Sequence[int]) -> list[int]:
    """How many more leases each class may have; arguments as for `owed`."""
    found = []
    for class_, name in enumerate(PRIORITIES):
        _, most = shares.get(name, (0.0, 1.0))
        bound = ALL if most >= 1.0 else max(1, math.floor(most * slots + _SLACK))
        found.append(ALL if bound == ALL else max(0, bound - held[class_]))
    return found
