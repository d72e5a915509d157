"""Figures beside what they may be, as a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from runtime.bench.paired import KEPT, Interval


class Limit(NamedTuple):
    """A figure, and what it may be. Of one that is not compared the interval is a point."""

    name: str
    found: Interval
    most: float
    unit: str

    @property
    def verdict(self) -> str:
        """KEPT, OPEN or MISSED."""
        return self.found.verdict(self.most)

    def cells(self) -> tuple[str, ...]:
        """A line of the table."""
        value, low, high = (f"{number:.3g}" for number in self.found)
        between = f"{low} to {high}" if low != high else ""
        return self.name, f"{value} {self.unit}", between, f"{self.most:g} {self.unit}", self.verdict


def table(limits: Sequence[Limit]) -> list[str]:
    """What was found beside what was asked for."""
    rows = [("", "found", "95 % between", "asked: at most", ""), *(limit.cells() for limit in limits)]
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    kept = sum(limit.verdict == KEPT for limit in limits)
    return [*(f"  {line}" for line in lines), f"  {kept} of {len(limits)} kept"]


def point(value: float) -> Interval:
    """A figure that is not compared with another."""
    return Interval(value, value, value)
