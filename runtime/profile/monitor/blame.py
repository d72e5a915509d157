"""On whose account CPU time changed: one row for each label set, those first that grew most.

`diff` says what changed within a label set, by shares, because twice the load of a workflow is no change in what it
does. Who looks for the cause of an objective that burns asks the other question: which workflow and node type takes
more than before. So here rates are compared, and a change counts where the set's share of everything changed by more
than chance (Newcombe's interval, as in `diff`). What has no labels, the engine and the profiler, comes behind what has.
"""

from __future__ import annotations

from statistics import NormalDist
from typing import Any, Final

from runtime.profile.diff import BY, CONFIDENCE, difference
from runtime.profile.model import Frame, Labels, Profile

ROWS_MAX: Final = 50


class _Side:
    """A label set in one profile."""

    __slots__ = ("leaves", "seen", "value")

    def __init__(self) -> None:
        self.value = self.seen = 0
        self.leaves: dict[Frame, int] = {}


def blamed(before: Profile, after: Profile) -> list[dict[str, Any]]:
    """Compare two profiles of CPU time by label set.

    Args:
        before: What was.
        after: What is.

    Returns:
        Rows like those of a `diff`; `stack` is the function in which most of it is spent; none where a side is empty.
    """
    sides = [_sides(profile) for profile in (before, after)]
    totals = [(sum(one.value for one in side.values()), sum(one.seen for one in side.values())) for side in sides]
    if not all(value and seen for value, seen in totals):
        return []
    sets = dict.fromkeys([*sides[0], *sides[1]])
    z = NormalDist().inv_cdf(1 - (1 - CONFIDENCE) / (2 * len(sets)))
    rows: list[dict[str, Any]] = []
    for labels in sets:
        was, now = (side.get(labels, _Side()) for side in sides)
        shares = was.value / totals[0][0], now.value / totals[1][0]
        low, high = difference(shares[0], totals[0][1], shares[1], totals[1][1], z)
        rates = _rate(was.value, before), _rate(now.value, after)
        verdict = "same" if low <= 0 <= high else "grew" if shares[1] > shares[0] else "shrank"
        if verdict != "same" and not (was.seen and now.seen):
            verdict = "vanished" if was.seen else "new"
        leaves = sorted((now.leaves or was.leaves).items(), key=lambda leaf: -leaf[1])
        stack = [list(frame) for frame, _ in leaves[:1]]
        rows.append(
            {
                "labels": [list(pair) for pair in labels],
                "stack": stack,
                "before": rates[0],
                "after": rates[1],
                "share_before": shares[0],
                "share_after": shares[1],
                "low": low,
                "high": high,
                "verdict": verdict,
                "change": rates[1] - rates[0],
            }
        )
    rows.sort(key=lambda row: (row["verdict"] not in ("grew", "new"), not row["labels"], -abs(row["change"])))
    return rows[:ROWS_MAX]


def _sides(profile: Profile) -> dict[Labels, _Side]:
    sides: dict[Labels, _Side] = {}
    for sample, (value, seen) in profile:
        side = sides.setdefault(tuple(pair for pair in sample.labels if pair[0] in BY), _Side())
        side.value += value
        side.seen += seen
        if sample.stack:
            leaf = sample.stack[-1]._replace(line=0)
            side.leaves[leaf] = side.leaves.get(leaf, 0) + value
    return sides


def _rate(value: int, profile: Profile) -> float:
    """Nanoseconds a second of recording; as they are where nobody knows how long was recorded."""
    return value * 1e9 / profile.duration_ns if profile.duration_ns else float(value)
