"""What changed between two profiles: which stacks grew, shrank, came and went, and whether that is more than chance.

Times are divided by how long was recorded, so that ten seconds compare with thirty. Then each label set (by default a
workflow and node type) is looked at by itself: a stack's share of what its label set used before and after, because
twice the load of one workflow is no change in what another one does. The label sets themselves are compared by rate.

Samples are draws, so each share has an error. The interval of the difference of two shares is Newcombe's (hybrid
score, method 10 in Statistics in Medicine 17, 873-890, 1998), which holds for shares of 0, too: what vanished has one.
All rows together are wrong with the probability `1 - confidence` at most, not each (Bonferroni: a thousand rows at 95 %
each would show fifty changes where there are none). A label set with fewer than `SEEN_MIN` samples on both sides is not
compared; with fewer on one side its shares are of the whole, so that one that comes or goes is seen. If the whole has
fewer on a side, it is refused.

What is counted (tasks alive, leaks) is no draw: its differences are exact and have no interval.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from statistics import NormalDist
from typing import Final, Literal, NamedTuple

from actors.protocol.errors import CallerError
from actors.protocol.profile_errors import ProfileTooSmall
from actors.protocol.words import counted
from runtime.profile.model import NANOSECONDS, Frame, Labels, Profile, StackSample

SEEN_MIN: Final = 100
"""Samples that are needed: with less, only what changes by a fifth of everything could be told."""
BY: Final = ("workflow", "node_type")
CONFIDENCE: Final = 0.95

Verdict = Literal["grew", "shrank", "new", "vanished", "same"]
Unit = Literal["stack", "function", "line"]


class DiffRow(NamedTuple):
    """One stack, or one function, of one label set.

    Attributes:
        labels: Of the label set.
        stack: Root first; of a function, itself only.
        before: Nanoseconds a second of recording, or a number.
        after: The same.
        share_before: Of what the label set used; of everything where the label set has too few samples on one side.
        share_after: The same.
        low: Where the difference of shares begins, with the confidence asked for; None where nothing is a draw.
        high: Where it ends.
        verdict: "same" where the interval has 0 in it.
    """

    labels: Labels
    stack: tuple[Frame, ...]
    before: float
    after: float
    share_before: float
    share_after: float
    low: float | None
    high: float | None
    verdict: Verdict

    @property
    def change(self) -> float:
        """After less before."""
        return self.after - self.before


class SetRow(NamedTuple):
    """One label set: its rates as in `DiffRow`, its samples, and whether it has enough of them."""

    labels: Labels
    before: float
    after: float
    seen_before: int
    seen_after: int
    compared: bool


class Diff(NamedTuple):
    """What changed. `rows` has the largest change first, those that may be chance behind the others."""

    unit: str
    confidence: float
    sets: tuple[SetRow, ...]
    rows: tuple[DiffRow, ...]
    notes: tuple[str, ...]

    def changed(self) -> list[DiffRow]:
        """Rows that changed more than by chance."""
        return [row for row in self.rows if row.verdict != "same"]


class _Sum:
    """Weight before and after, and how often it was seen."""

    __slots__ = ("after", "before", "seen_after", "seen_before")

    def __init__(self) -> None:
        self.before = self.after = 0.0
        self.seen_before = self.seen_after = 0

    def add(self, value: float, seen: int, later: bool) -> None:
        """Add a weight to one side."""
        if later:
            self.after += value
            self.seen_after += seen
        else:
            self.before += value
            self.seen_before += seen


def diff(
    before: Profile,
    after: Profile,
    *,
    by: Sequence[str] = BY,
    unit: Unit = "stack",
    confidence: float = CONFIDENCE,
    seen_min: int = SEEN_MIN,
) -> Diff:
    """Compare two profiles.

    Args:
        before: What was.
        after: What is.
        by: Names of labels that make label sets.
        unit: What a row is: a stack of functions, a stack of lines, or a function by all that it is on the stack of.
        confidence: That no row at all is wrong.
        seen_min: Samples that the whole needs on each side, and a label set on one.

    Raises:
        CallerError: They are not of one unit, or the confidence is none.
        ProfileTooSmall: One of them has too few samples.
    """
    if before.unit != after.unit:
        raise CallerError(f"a profile in {before.unit} cannot be compared with one in {after.unit}")
    if not 0 < confidence < 1:
        raise CallerError(f"confidence is a probability between 0 and 1, not {confidence}")
    sampled = after.unit == NANOSECONDS
    sets, rows = _sums(before, after, by, unit)
    set_rows = [_set_row(labels, one, sampled, seen_min) for labels, one in sets.items()]
    set_rows.sort(key=lambda row: -abs(row.after - row.before))
    compared = {row.labels for row in set_rows if row.compared}
    whole = _whole(sets.values())
    if sampled and (not compared or min(whole.seen_before, whole.seen_after) < seen_min):
        seen = f"{whole.seen_before:,} samples before and {whole.seen_after:,} after"
        raise ProfileTooSmall(
            f"there are {seen}; it takes {seen_min:,} on each side, in label sets that have as many, to tell a change"
        )
    kept = {key: one for key, one in rows.items() if key[0] in compared}
    z = NormalDist().inv_cdf(1 - (1 - confidence) / (2 * max(1, len(kept)))) if sampled else 0.0
    made = [_row(key, one, _of(sets[key[0]], whole, seen_min), z) for key, one in kept.items()]
    made.sort(key=lambda row: (row.verdict == "same", -abs(row.change), row.labels, row.stack))
    return Diff(after.unit, confidence, tuple(set_rows), tuple(made), tuple(_notes(before, after, set_rows, by)))


def _sums(
    before: Profile, after: Profile, by: Sequence[str], unit: Unit
) -> tuple[dict[Labels, _Sum], dict[tuple[Labels, tuple[Frame, ...]], _Sum]]:
    """Sums of label sets and of rows, by the second of recording where times are measured."""
    sets: dict[Labels, _Sum] = {}
    rows: dict[tuple[Labels, tuple[Frame, ...]], _Sum] = {}
    stacks = _stacks_of(unit)
    known = bool(before.duration_ns and after.duration_ns and after.unit == NANOSECONDS)
    for profile, later in ((before, False), (after, True)):
        factor = 1e9 / profile.duration_ns if known else 1.0
        if not known and profile.unit == NANOSECONDS:
            factor = 1e9 / max(1, profile.total().value)  # of one second of work, if nobody knows how long it took
        for sample, (value, seen) in profile:
            labels = tuple(pair for pair in sample.labels if pair[0] in by)
            sets.setdefault(labels, _Sum()).add(value * factor, seen, later)
            for stack in stacks(sample):
                rows.setdefault((labels, stack), _Sum()).add(value * factor, seen, later)
    return sets, rows


def _stacks_of(unit: Unit) -> Callable[[StackSample], Iterable[tuple[Frame, ...]]]:
    """What rows a sample belongs to."""
    known: dict[Frame, Frame] = {}

    def function(frame: Frame) -> Frame:
        if frame not in known:
            known[frame] = Frame(frame.name, frame.file)
        return known[frame]

    if unit == "line":
        return lambda sample: (sample.stack,)
    if unit == "function":
        return lambda sample: {(function(frame),) for frame in sample.stack}
    return lambda sample: (tuple(map(function, sample.stack)),)


def _set_row(labels: Labels, one: _Sum, sampled: bool, seen_min: int) -> SetRow:
    enough = not sampled or max(one.seen_before, one.seen_after) >= seen_min
    return SetRow(labels, one.before, one.after, one.seen_before, one.seen_after, enough)


def _whole(sets: Iterable[_Sum]) -> _Sum:
    whole = _Sum()
    for one in sets:
        whole.add(one.before, one.seen_before, False)
        whole.add(one.after, one.seen_after, True)
    return whole


def _of(one: _Sum, whole: _Sum, seen_min: int) -> _Sum:
    """What shares are of: the label set, or all if the label set is hardly there on one side."""
    return one if min(one.seen_before, one.seen_after) >= seen_min else whole


def _row(key: tuple[Labels, tuple[Frame, ...]], one: _Sum, of: _Sum, z: float) -> DiffRow:
    share_before = min(1.0, one.before / of.before) if of.before else 0.0
    share_after = min(1.0, one.after / of.after) if of.after else 0.0
    low: float | None = None
    high: float | None = None
    if z:
        low, high = difference(share_before, of.seen_before, share_after, of.seen_after, z)
        differs = low > 0 or high < 0
    else:
        differs = one.before != one.after
    verdict: Verdict = "same"
    if differs and not one.seen_before:
        verdict = "new"
    elif differs and not one.seen_after:
        verdict = "vanished"
    elif differs:
        verdict = "grew" if (share_after > share_before if z else one.after > one.before) else "shrank"
    return DiffRow(*key, one.before, one.after, share_before, share_after, low, high, verdict)


def wilson(share: float, seen: int, z: float) -> tuple[float, float]:
    """Wilson's interval of a share.

    Args:
        share: That was found.
        seen: Of how many.
        z: Quantile of the normal distribution: 1.96 for 95 %.
    """
    square = z * z
    middle = share + square / (2 * seen)
    wide = z * math.sqrt(share * (1 - share) / seen + square / (4 * seen * seen))
    return max(0.0, (middle - wide) / (1 + square / seen)), min(1.0, (middle + wide) / (1 + square / seen))


def difference(before: float, seen_before: int, after: float, seen_after: int, z: float) -> tuple[float, float]:
    """Newcombe's interval of `after - before`; everything is possible where there is no sample."""
    if not seen_before or not seen_after:
        return -1.0, 1.0
    low_before, high_before = wilson(before, seen_before, z)
    low_after, high_after = wilson(after, seen_after, z)
    middle = after - before
    low = middle - math.hypot(after - low_after, high_before - before)
    high = middle + math.hypot(high_after - after, before - low_before)
    return low, high


def _notes(before: Profile, after: Profile, sets: Sequence[SetRow], by: Sequence[str]) -> list[str]:
    notes = [f"before: {note}" for note in before.notes] + [f"after: {note}" for note in after.notes]
    left_out = [row for row in sets if not row.compared]
    if left_out:
        notes.append(f"too few samples to be compared: {counted(len(left_out), 'label set')}")
    if after.unit == NANOSECONDS and not (before.duration_ns and after.duration_ns):
        notes.append("it is not known how long was recorded: only shares are compared, as if the load had not changed")
    has = [any(name in by for one in side.samples for name, _ in one.labels) for side in (before, after)]
    if before.samples and after.samples and has[0] != has[1]:
        side = "before" if has[1] else "after"
        notes.append(f"{side} has none of the labels {', '.join(by)}, so it is a label set of its own")
    if before.kind != after.kind:
        notes.append(f"before is a profile of {before.kind}, after one of {after.kind}")
    return notes
