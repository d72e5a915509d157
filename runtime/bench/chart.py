"""Charts in plain text, and whether what they show grows."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Final, NamedTuple

EIGHTHS: Final = " ▁▂▃▄▅▆▇█"
BLOCKS: Final = 8
T_99: Final = 3.707
"""Student's t for 99 % at six degrees of freedom: a line through eight points has so many left."""


class Slope(NamedTuple):
    """How much a value grows per second, and how much of that is noise (half the 99 % interval)."""

    per_second: float
    noise: float

    @property
    def flat(self) -> bool:
        """Whether nothing says that it grows or shrinks."""
        return abs(self.per_second) <= self.noise


def slope_of(times_s: Sequence[float], values: Sequence[float]) -> Slope:
    """The line of least squares through the means of eight stretches.

    Means, because neighbouring readings are not independent: what is written grows until it is cut, again and again.

    Args:
        times_s: Seconds, ascending.
        values: As many; at least `BLOCKS`.
    """
    size = len(values) / BLOCKS
    pieces = [range(round(at * size), round((at + 1) * size)) for at in range(BLOCKS)]
    xs = [statistics.fmean(times_s[i] for i in piece) for piece in pieces]
    ys = [statistics.fmean(values[i] for i in piece) for piece in pieces]
    slope, at_zero = statistics.linear_regression(xs, ys)
    rest = sum((y - at_zero - slope * x) ** 2 for x, y in zip(xs, ys, strict=True))
    middle = statistics.fmean(xs)
    spread = sum((x - middle) ** 2 for x in xs)
    return Slope(slope, T_99 * math.sqrt(rest / (BLOCKS - 2) / spread))


def chart(values: Sequence[float], width: int = 72, height: int = 5) -> list[str]:
    """Columns from zero to the largest value; each is the mean of its stretch of the values."""
    width = min(width, len(values))
    columns = [
        statistics.fmean(values[len(values) * at // width : max(len(values) * (at + 1) // width, 1)])
        for at in range(width)
    ]
    top = max(columns) or 1.0
    filled = [round(value / top * height * (len(EIGHTHS) - 1)) for value in columns]
    full = len(EIGHTHS) - 1
    return [
        "".join(EIGHTHS[min(max(eighths - full * row, 0), full)] for eighths in filled).rstrip()
        for row in reversed(range(height))
    ]
