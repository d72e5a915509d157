"""Components and what leads there, on small graphs."""

from __future__ import annotations

import weakref
from itertools import product
from typing import Any

import pytest
from hypothesis import given

from runtime.profile.proof import rings
from runtime.profile.proof.rings import components, leading, upstream
from tests.unit.profile.captures.test_graph import EDGES, reached

STEPS = {"a": ["b"], "b": ["c"], "c": ["b", "d"], "d": [], "e": ["d", "a"]}


def test_components_come_before_those_that_lead_to_them() -> None:
    found = components("ea", STEPS.__getitem__)
    assert [sorted(one) for one in found] == [["d"], ["b", "c"], ["a"], ["e"]]
    assert upstream(found, STEPS.__getitem__, lambda node: node in "ae") == [["e", "a"], ["a"], ["e"], []]


@given(EDGES)
def test_components_are_those_that_reach_each_other(edges: list[tuple[str, str]]) -> None:
    after: dict[str, list[str]] = {}
    for one, other in edges:
        after.setdefault(one, []).append(other)
    found = [set(component) for component in components(after, lambda one: after.get(one, []))]
    members = {one for edge in edges for one in edge}
    assert set().union(*found) == members if found else not members
    assert sum(map(len, found)) == len(members)
    of = {one: at for at, component in enumerate(found) for one in component}
    for one, other in product(members, members):
        together = one == other or (other in reached(after, one) and one in reached(after, other))
        assert (of[one] == of[other]) == together


class Thing:
    """Can be held weakly."""


def test_only_what_leads_to_a_goal_is_left_of_many_things() -> None:
    goal, thing = [0], Thing()
    thing.has = goal  # type: ignore[attr-defined]
    weak = weakref.ref(thing)
    has_weak, other = [weak], [[1]]
    things: list[Any] = [other, other[0], has_weak, weak, thing]
    found = leading({id(goal): goal}, things, {id(weak): id(thing)})
    assert list(map(id, found.values())) == list(map(id, [goal, thing, weak, has_weak]))


def test_all_is_left_where_it_takes_too_many_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Holders that are younger than what they hold, one in another: a look finds one of them."""
    nested: list[Any] = [[0]]
    for _ in range(20):
        nested.append([nested[-1]])
    other = ["of no interest"]
    found = leading({id(nested[0]): nested[0]}, [*nested[1:], other], {})
    assert id(other) in found
    monkeypatch.setattr(rings, "_LOOKS_MAX", 30)
    found = leading({id(nested[0]): nested[0]}, [*nested[1:], other], {})
    assert set(found) == set(map(id, nested))
