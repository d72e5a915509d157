"""Two ways of doing something, measured in turns within one run: by how much the second differs, and how sure that is.

    pairs = abba(30, one_window)     off on | on off | off on | ...
    difference(pairs)                -> Interval: percent, with its 95 % interval

Separate runs of the same load differ by more than what is measured here (half of it, on a machine that is shared); what
disturbs a run for seconds hits both windows of a pair, and turning each second pair round takes out what grows.

The difference is that of sums and not a median of ratios: what comes seldom, as a look once a second, is in few windows
and belongs to the cost. Its interval is a bootstrap over pairs (B. Efron, 1979), so neighbours stay together.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeVar

from runtime.bench.measure import percentile

Window = TypeVar("Window")
DRAWS: Final = 1_000
SURE: Final = 0.95
DISTURBED: Final = 0.25

KEPT: Final = "kept"
OPEN: Final = "not sure"
MISSED: Final = "missed"


class Interval(NamedTuple):
    """A figure, and between what it lies with 95 %."""

    value: float
    low: float
    high: float

    def verdict(self, most: float) -> str:
        """Whether it is at most so much: KEPT or MISSED if all of the interval says so."""
        return KEPT if self.high <= most else MISSED if self.low > most else OPEN


def abba(count: int, window: Callable[[bool], Window]) -> list[tuple[Window, Window]]:
    """So many pairs of windows, off and on, by turns which comes first.

    Args:
        count: How many pairs.
        window: Measures one, with the thing on or off.

    Returns:
        Off and on of each pair.
    """
    found = []
    for number in range(count):
        if number % 2:
            on, off = window(True), window(False)
        else:
            off, on = window(False), window(True)
        found.append((off, on))
    return found


def difference(pairs: Sequence[tuple[float, float]], draws: int = DRAWS) -> Interval:
    """By how many percent the sum of the second ones is above that of the first ones."""
    return _interval(pairs, lambda drawn: _percent(sum(a for a, _ in drawn), sum(b for _, b in drawn)), draws)


def undisturbed(pairs: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Without pairs of which a window differs from the middle one by more than a quarter: that is another program's
    doing. What is measured must cost much less than that in a window."""
    middle = statistics.median(value for pair in pairs for value in pair)
    return [pair for pair in pairs if all(abs(value - middle) <= DISTURBED * middle for value in pair)] or list(pairs)


def quantile_difference(
    pairs: Sequence[tuple[Sequence[float], Sequence[float]]], share: float, draws: int = DRAWS // 4
) -> Interval:
    """By how many percent a percentile of all values of the second ones is above that of the first ones."""

    def percent(drawn: Sequence[tuple[Sequence[float], Sequence[float]]]) -> float:
        before, after = ([value for pair in drawn for value in pair[side]] for side in (0, 1))
        return _percent(percentile(before, share), percentile(after, share))

    return _interval(pairs, percent, draws)


def _percent(before: float, after: float) -> float:
    return 100.0 * (after / before - 1.0)


def _interval(pairs: Sequence[Window], figure: Callable[[Sequence[Window]], float], draws: int) -> Interval:
    chance = random.Random(len(pairs))  # the same pairs give the same interval
    drawn = sorted(figure(chance.choices(pairs, k=len(pairs))) for _ in range(draws))
    outside = (1.0 - SURE) / 2.0
    low, high = drawn[int(draws * outside)], drawn[min(int(draws * (1.0 - outside)), draws - 1)]
    return Interval(figure(pairs), low, high)
