"""Strongly connected components, against what reaches what."""

from __future__ import annotations

from itertools import product

from hypothesis import given

from runtime.profile.proof.rings import components
from tests.unit.profile.captures.test_graph import EDGES, reached


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
