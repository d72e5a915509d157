"""Runs without values and edges, until edges matter: then they are as if they had been followed all along."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.event_lean import LATER, Unread, lean_graph, made_lean, no_values, with_edges
from actors.protocol.errors import ProtocolError
from actors.protocol.graph import decode, encode
from actors.protocol.graph_builder import GraphBuilder
from actors.protocol.kinds import Kind
from actors.run import Run
from actors.state_column import PENDING, READY
from tests.unit.actors.rig import kind


@st.composite
def graphs(draw: st.DrawFn) -> list[list[int]]:
    size = draw(st.integers(1, 12))
    return [draw(st.lists(st.integers(0, node - 1), max_size=3, unique=True)) if node else [] for node in range(size)]


def container(edges: list[list[int]], **options: object) -> bytes:
    builder = GraphBuilder()
    for parents in edges:
        builder.add(0, parents)
    return encode(builder.finish(), {"kinds": [kind("parents", **options)]})


def run_of(edges: list[list[int]], lean: bool = False, **options: object) -> Run:
    _, columns = (lean_graph if lean else decode)(container(edges, **options))
    run = Run.of_graph(1, "r", "s", 1, 0, [Kind.of(0, kind("parents", **options))], columns)
    run.tally = None
    run.roots()
    return made_lean(run) if lean else run


@given(graphs(), st.data())
def test_edges_that_were_not_followed_are_caught_up_with(edges: list[list[int]], data: st.DataObject) -> None:
    whole, lean = run_of(edges), run_of(edges, lean=True)
    for _ in range(data.draw(st.integers(0, len(edges)))):
        ready = [node for node, state in enumerate(whole.state) if state == READY]
        if not ready:
            break
        node = data.draw(st.sampled_from(ready))
        whole.succeed([node], [None])
        assert lean.succeed([node], no_values(1)) == []
    assert with_edges(lean) is lean
    assert (list(lean.waits), lean.fan, lean.open) == (list(whole.waits), whole.fan, whole.open)
    assert lean.state == whole.state
    lean.check_invariants()
    assert with_edges(lean).waits is not LATER


def test_where_a_first_success_is_enough_edges_are_kept() -> None:
    assert run_of([[], [0]], lean=True).waits is LATER
    kept = run_of([[], [], [0, 1]], lean=True, trigger="any_succeeded")
    assert list(kept.waits) == [0, 0, 2]
    assert kept.succeed([0], no_values(1)) == [2]
    assert kept.state[1] != PENDING


def test_edges_that_lead_nowhere_are_refused_when_they_matter() -> None:
    header, columns = decode(container([[], [0]]))
    columns.deps[0] = 7
    body = encode(columns, {"kinds": header["kinds"]})
    with pytest.raises(ProtocolError, match="outside the graph"):
        decode(body)
    run = made_lean(Run.of_graph(1, "r", "s", 1, 0, [Kind.of(0, kind("parents"))], lean_graph(body)[1]))
    run.succeed([0, 1], no_values(2))
    with pytest.raises(ProtocolError, match="outside the graph"):
        with_edges(run)


def test_results_have_a_place_and_no_value() -> None:
    values = Unread(3)
    values.extend([None, {"a": 1}])
    values[0] = 0
    assert (len(values), bytes(values)) == (5, bytes(5))
