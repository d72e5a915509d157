"""Drawing tasks out of the books: all where they are few, evenly where they are many, whatever has begun and ended."""

from __future__ import annotations

import weakref
from collections import Counter
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.profile.ledger.books import Ledger
from runtime.profile.ledger.kinds import TASK
from runtime.profile.sampling.roster import TaskRoster, strata

SEGMENT: Final = 50


class Thing:
    """Stands for a task."""


class Things:
    """What lives, and its books."""

    def __init__(self) -> None:
        self.ledger = Ledger()
        self.roster = TaskRoster(self.ledger, SEGMENT)
        self.living: dict[int, Thing] = {}

    def begin(self, count: int) -> None:
        """So many begin."""
        for _ in range(count):
            thing = Thing()
            self.living[self.ledger.track(TASK, weakref.ref(thing))] = thing

    def end(self, part: float) -> None:
        """A part of them ends, the oldest first."""
        for token in list(self.living)[: int(len(self.living) * part)]:
            self.ledger.release(token)
            del self.living[token]

    def drawn(self, most: int, seed: int = 5) -> tuple[list[Thing], float]:
        """As `draw`, after which it is tidied."""
        found, each = self.roster.draw(most, seed)
        refs = [ref for ref in found if ref is not None]
        things = [thing for ref in refs if (thing := ref()) is not None]
        assert len(things) == len(refs)
        while self.roster.tidy():
            pass
        kept = sum(map(len, self.roster._segments))
        assert self.roster._kept == kept <= 1.25 * (len(self.living) + SEGMENT)
        assert all(len(segment) <= SEGMENT for segment in self.roster._segments)
        return things, each


STEPS = st.lists(
    st.tuples(st.sampled_from([0, 1, 4, SEGMENT - 1, SEGMENT, 3 * SEGMENT + 7]), st.floats(0, 1), st.integers(1, 64)),
    max_size=8,
)


@settings(max_examples=60)
@given(STEPS)
def test_what_is_drawn_lives_and_stands_for_all(steps: list[tuple[int, float, int]]) -> None:
    things = Things()
    for count, ended, most in steps:
        things.begin(count)
        things.end(ended)
        found, each = things.drawn(most)
        assert len(set(map(id, found))) == len(found)
        assert {id(thing) for thing in found} <= {id(thing) for thing in things.living.values()}
        if len(things.living) <= most:
            assert len(found) == len(things.living)
            assert each == 1.0
        if len(things.living) <= 2 * most:
            assert abs(each * len(found) - len(things.living)) < each + 1e-6


def test_all_have_the_same_chance() -> None:
    """Also after most of an age have ended, so that segments are full of gaps, and where each draw is of few."""
    things = Things()
    things.begin(4 * SEGMENT)
    things.drawn(20)
    for token in [token for at, token in enumerate(list(things.living)) if at % 4]:
        things.ledger.release(token)
        del things.living[token]
    things.begin(SEGMENT)
    drawn: Counter[int] = Counter()
    rounds = 400
    for at in range(rounds):
        drawn.update(map(id, things.drawn(20, at)[0]))
    expected = sum(drawn.values()) / len(things.living)
    assert len(drawn) == len(things.living)
    assert max(drawn.values()) < 3 * expected
    assert min(drawn.values()) > expected / 3


def test_a_crowd_that_ended_hides_nobody() -> None:
    """One draw right after it: of a hundred numbers 98 are of tasks that have ended."""
    things = Things()
    things.begin(100 * SEGMENT)
    things.drawn(64)
    things.end(0.98)
    parts = 200
    sums, most = list[float](), 64
    for at in range(parts):
        drawn, each = things.roster.draw(most // 4, at)
        visited = list(drawn)
        assert len(visited) <= most + 1, "so that it does not take long"
        sums.append(each * sum(ref is not None for ref in visited))
    assert sum(sums) / parts == pytest.approx(2 * SEGMENT, rel=0.05)


def test_what_is_no_task_is_not_drawn() -> None:
    things = Things()
    things.begin(3)
    things.ledger.track(TASK, "a name")
    assert len(things.drawn(128)[0]) == 3


def test_who_tidies_meanwhile_makes_no_draw_see_a_task_twice() -> None:
    """Two look at one loop: what is always on, and a capture."""
    for ended in range(10, 95, 5):
        things = Things()
        things.begin(6 * SEGMENT)
        things.drawn(8)
        for token in [token for at, token in enumerate(list(things.living)) if at % 100 < ended]:
            things.ledger.release(token)
            del things.living[token]
        draw, _ = things.roster.draw(SEGMENT, ended)
        found = [next(draw) for _ in range(10)]
        while things.roster.tidy():
            pass
        found += draw
        seen = [id(ref) for ref in found if ref is not None]
        assert len(seen) == len(set(seen)), ended


def test_what_comes_at_regular_places_is_drawn_like_anything_else() -> None:
    """Two kinds in turns, and a stride of two: each draw would be of one of them."""
    things = Things()
    things.begin(4 * SEGMENT)
    odd = {id(thing) for at, thing in enumerate(things.living.values()) if at % 2}
    for seed in range(20):
        found, _ = things.drawn(2 * SEGMENT, seed)
        assert 0.25 < sum(id(thing) in odd for thing in found) / len(found) < 0.75


def test_the_newest_come_first() -> None:
    """They end first, and a look takes some turns of the loop."""
    things = Things()
    things.begin(5 * SEGMENT)
    order = {id(thing): at for at, thing in enumerate(things.living.values())}
    places = [order[id(thing)] for thing in things.drawn(20)[0]]
    assert len(places) == 20
    assert places == sorted(places, reverse=True)


@given(st.integers(0, 500), st.floats(1.0, 60.0), st.integers(0, 2**64 - 1))
def test_one_of_each_stratum(total: int, every: float, seed: int) -> None:
    found = list(strata(total, every, seed))
    assert found == sorted(set(found))
    assert all(0 <= at < total for at in found)
    assert total / every - 1 - 1e-9 <= len(found) <= total / every + 1
    if every == 1.0:
        assert found == list(range(total))
