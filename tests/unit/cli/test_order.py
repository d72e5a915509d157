"""Orders and cycles of graphs given as rows of parents."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from runtime.cli.order import cycle, successors, topological


@st.composite
def graphs(draw: st.DrawFn) -> list[list[int]]:
    """Any graph, with cycles or without."""
    size = draw(st.integers(1, 12))
    return [draw(st.lists(st.integers(0, size - 1), max_size=3, unique=True)) for _ in range(size)]


@given(graphs())
def test_an_order_or_a_cycle(parents: list[list[int]]) -> None:
    order = topological(parents)
    place = {row: index for index, row in enumerate(order)}
    assert all(place[parent] < place[row] for row in order for parent in parents[row])
    walk = cycle(parents)
    assert bool(walk) == (len(order) < len(parents))
    assert all(before in parents[after] for before, after in zip(walk, walk[1:], strict=False))
    assert walk[:1] == walk[-1:]


@given(graphs())
def test_successors_are_the_same_edges(parents: list[list[int]]) -> None:
    children = successors(parents)
    forth = sorted((parent, child) for child, row in enumerate(parents) for parent in row)
    back = sorted((parent, child) for parent, row in enumerate(children) for child in row)
    assert forth == back


def test_a_long_chain_needs_no_recursion() -> None:
    size = 50_000
    chain = [[row - 1] if row else [] for row in range(size)]
    assert topological(chain) == list(range(size))
    chain[0] = [size - 1]
    assert len(cycle(chain)) == size + 1
