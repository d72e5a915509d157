"""Places of nodes on the page."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from runtime.cli.layout import layout, spread


@st.composite
def acyclic(draw: st.DrawFn) -> list[list[int]]:
    """Graphs whose edges lead to higher numbers."""
    size = draw(st.integers(1, 40))
    return [draw(st.lists(st.integers(0, row - 1), max_size=3, unique=True)) if row else [] for row in range(size)]


@given(acyclic())
def test_no_two_nodes_overlap_and_levels_ascend(parents: list[list[int]]) -> None:
    place = layout(parents)
    assert all(place.levels[parent] < place.levels[row] for row, many in enumerate(parents) for parent in many)
    spots = sorted(zip(place.x, place.y, strict=True))
    for (x, y), (other_x, other_y) in zip(spots, spots[1:], strict=False):
        assert other_x - x > 0.999 or other_y - y > 0.999 or other_x != x
    columns: dict[float, list[float]] = {}
    for x, y in spots:
        columns.setdefault(x, []).append(y)
    for many in columns.values():
        assert all(b - a > 0.999 for a, b in zip(many, many[1:], strict=False))
    assert min(place.x) >= 0
    assert max(place.x) < place.width
    assert min(place.y) >= 0
    assert max(place.y) < place.height


def test_a_chain_is_straight_or_wrapped() -> None:
    short = layout([[row - 1] if row else [] for row in range(4)])
    assert len(set(short.y)) == 1
    assert short.x == sorted(short.x)
    long = layout([[row - 1] if row else [] for row in range(2_000)])
    assert long.width < 120
    assert long.height < 120


def test_a_wide_level_is_folded() -> None:
    place = layout([[], *([[0]] * 1_000), list(range(1, 1_001))])
    assert place.height < 80
    assert place.width < 60


def test_a_late_root_stands_next_to_its_child() -> None:
    place = layout([[], [0], [1], [], [2, 3]])
    assert place.levels == [0, 1, 2, 2, 3]


def test_an_empty_graph_has_a_place() -> None:
    assert layout([]).x == []


@given(st.lists(st.integers(-20, 20), max_size=12))
def test_spread_keeps_order_and_distance_at_least_cost(wishes: list[int]) -> None:
    found = spread(wishes)
    assert all(b - a > 0.999 for a, b in zip(found, found[1:], strict=False))
    cost = sum((a - b) ** 2 for a, b in zip(found, wishes, strict=True))
    # Moving all that lie close together by a little must not be cheaper.
    for step in (-0.01, 0.01):
        for cut in range(len(found)):
            for moved in (
                [v + step for v in found[: cut + 1]] + found[cut + 1 :],
                found[:cut] + [v + step for v in found[cut:]],
            ):
                if all(b - a > 0.999 for a, b in zip(moved, moved[1:], strict=False)):
                    assert sum((a - b) ** 2 for a, b in zip(moved, wishes, strict=True)) >= cost - 1e-6
