"""What changed: intervals that hold what they promise, and no change where there is none."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.protocol.errors import CallerError
from actors.protocol.profile_errors import ProfileTooSmall
from runtime.profile.diff import Unit, diff, difference, wilson
from runtime.profile.model import COUNT, LIVE, NANOSECONDS, Frame, Profile, StackSample

TICK_NS = 10_000_000


def profile(counts: dict[str, int], seconds: int = 10, label: str = "", unit: str = NANOSECONDS) -> Profile:
    """Functions with how often they were seen."""
    made = Profile(unit=unit, duration_ns=seconds * 10**9)
    for name, seen in counts.items():
        labels = (("workflow", label),) if label else ()
        made.add(
            StackSample((Frame("main"), Frame(name)), labels), seen * TICK_NS if unit == NANOSECONDS else seen, seen
        )
    return made


def verdicts(before: Profile, after: Profile, unit: Unit = "stack") -> dict[str, str]:
    return {row.stack[-1].name: row.verdict for row in diff(before, after, unit=unit).rows}


def test_grown_shrunk_new_vanished_and_same() -> None:
    before = profile({"a": 500, "b": 300, "c": 150, "d": 50})
    after = profile({"a": 300, "b": 505, "c": 145, "e": 50})
    assert verdicts(before, after) == {"a": "shrank", "b": "grew", "c": "same", "d": "vanished", "e": "new"}


def test_the_largest_change_is_first() -> None:
    found = diff(profile({"a": 500, "b": 500}), profile({"a": 500, "b": 900, "c": 100}))
    assert found.changed()[0].stack[-1].name == "b"
    assert found.changed()[0].change == pytest.approx(40 * TICK_NS)


def test_a_longer_recording_is_no_change() -> None:
    counts = {"a": 400, "b": 600}
    found = diff(profile(counts, 10), profile({name: 3 * seen for name, seen in counts.items()}, 30))
    assert [row.change for row in found.rows] == [0, 0]
    assert found.changed() == []


def test_the_load_of_one_workflow_is_not_a_change_of_another() -> None:
    before = profile({"a": 500, "b": 500}, label="x").merge(profile({"c": 500}, label="y"))
    after = profile({"a": 500, "b": 500}, label="x").merge(profile({"c": 5_000}, label="y"))
    found = diff(before, after)
    assert found.changed() == []
    assert found.sets[0].labels == (("workflow", "y"),)
    assert found.sets[0].after == pytest.approx(10 * found.sets[0].before)


def test_a_workflow_that_comes_is_new() -> None:
    before = profile({"a": 1_000}, label="x")
    after = profile({"a": 1_000}, label="x").merge(profile({"c": 900}, label="y"))
    changed = diff(before, after).changed()
    assert [(row.labels, row.verdict) for row in changed] == [((("workflow", "y"),), "new")]


def test_a_workflow_that_almost_goes_is_seen() -> None:
    before = profile({"a": 1_000}, label="x").merge(profile({"c": 1_000}, label="y"))
    after = profile({"a": 1_000}, label="x").merge(profile({"c": 3}, label="y"))
    changed = diff(before, after).changed()
    assert [(row.labels[0][1], row.verdict) for row in changed] == [("y", "shrank")]


def test_too_little_is_refused() -> None:
    with pytest.raises(ProfileTooSmall, match="40 samples before"):
        diff(profile({"a": 40}), profile({"a": 4_000}))
    small = profile({"a": 1_000}, label="x").merge(profile({"b": 10}, label="y"))
    found = diff(small, small)
    assert [row.compared for row in found.sets if row.labels == (("workflow", "y"),)] == [False]
    assert any("too few samples" in note for note in found.notes)


def test_functions_count_wherever_they_are() -> None:
    before, after = profile({"a": 500, "b": 500}), profile({"a": 500, "b": 500})
    assert verdicts(before, after, "function") == {"main": "same", "a": "same", "b": "same"}
    row = next(row for row in diff(before, after, unit="function").rows if row.stack == (Frame("main"),))
    assert row.share_after == 1.0


def test_what_is_counted_is_exact() -> None:
    before, after = profile({"a": 3, "b": 4}, unit=COUNT), profile({"a": 3, "b": 5}, unit=COUNT)
    before.kind = after.kind = LIVE
    rows = {row.stack[-1].name: row for row in diff(before, after).rows}
    assert (rows["a"].verdict, rows["b"].verdict, rows["b"].change) == ("same", "grew", 1)
    assert rows["b"].low is None


def test_what_cannot_be_compared() -> None:
    with pytest.raises(CallerError, match="nanoseconds"):
        diff(profile({"a": 500}), profile({"a": 500}, unit=COUNT))
    with pytest.raises(CallerError, match="probability"):
        diff(profile({"a": 500}), profile({"a": 500}), confidence=95)


def test_that_one_side_has_no_labels_is_said() -> None:
    """As what was read of folded text: all that has labels would seem to be new."""
    found = diff(profile({"a": 500}), profile({"a": 500}, label="checkout"))
    assert any("before has none of the labels workflow, node_type" in note for note in found.notes)
    found = diff(profile({"a": 500}, label="checkout"), profile({"a": 500}))
    assert any("after has none" in note for note in found.notes)
    assert not any("has none" in note for note in diff(profile({"a": 500}), profile({"a": 500})).notes)


def test_unknown_lengths_are_said() -> None:
    found = diff(profile({"a": 500}, 0), profile({"a": 900}, 10))
    assert [row.change for row in found.rows] == [0]
    assert any("only shares" in note for note in found.notes)


def test_intervals_are_those_of_the_paper() -> None:
    """Newcombe 1998, table II, method 10: 56/70 against 48/80, 9/10 against 3/10, 10/10 against 0/10."""
    for (a, m), (b, n), low, high in [
        ((56, 70), (48, 80), 0.0524, 0.3339),
        ((9, 10), (3, 10), 0.1705, 0.8090),
        ((10, 10), (0, 10), 0.6075, 1.0),
        ((5, 56), (0, 29), -0.0381, 0.1926),
    ]:
        assert difference(b / n, n, a / m, m, 1.959964) == pytest.approx((low, high), abs=1e-4)


@pytest.mark.slow
@given(st.floats(0, 1), st.integers(1, 10_000), st.floats(0, 1), st.integers(1, 10_000), st.floats(0.1, 6))
def test_intervals_hold_the_difference(before: float, m: int, after: float, n: int, z: float) -> None:
    low, high = difference(before, m, after, n, z)
    assert -1 - 1e-9 <= low <= after - before + 1e-9
    assert after - before - 1e-9 <= high <= 1 + 1e-9
    bottom, top = wilson(before, m, z)
    assert 0 <= bottom <= before + 1e-9 <= top + 2e-9


@pytest.mark.slow
def test_chance_is_no_change() -> None:
    """Fifty pairs of draws from the same forty functions: hardly one of 2,000 rows may be taken for a change."""
    dice = random.Random(11)
    weights = [1 / (rank + 1) for rank in range(40)]
    names = [f"f{rank}" for rank in range(40)]

    def drawn() -> Profile:
        picked = dice.choices(names, weights, k=2_000)
        return profile({name: picked.count(name) for name in names if name in picked})

    wrong = sum(bool(diff(drawn(), drawn()).changed()) for _ in range(50))
    assert wrong <= 8, "5 % of 50 pairs is 2.5; more than 8 has a probability of 1 in 1,000"
