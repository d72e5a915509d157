"""Graphs as columns: the container there and back, old containers, what is refused, and how a run begins."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
import pytest

from actors.protocol import graph
from actors.protocol.errors import ProtocolError
from actors.protocol.graph import GraphColumns, decode, decode_slices, encode, ended
from actors.protocol.graph_builder import GraphBuilder

VERSION_1 = (
    b'\xdd\x00\x00\x00{"name":"old","kinds":[{"handler":"m:f"},{"handler":'
    b'"m:g"}],"version":1,"size":3,"columns":{"deps_off":16,"d'
    b'eps":12,"after_off":16,"after":4,"succ_off":16,"succ":16'
    b',"kind_of":12,"items":22},"ids":[[0,"first"],[2,"last"]]'
    b"}\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x03\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x03\x00\x00"
    b'\x00\x04\x00\x00\x00\x04\x00\x00\x00\x01\x00\x00\x00\x02\x00\x00\x00\x02\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00[[1,"a"],null,{"k":'
    b"2}]"
)
"""Written by the version that had the ids in the header: a log may hold it."""


def built(size: int, *, named: bool = True) -> GraphColumns:
    """Each node follows the one before; every third has a control edge from the first."""
    builder = GraphBuilder()
    for node in range(size):
        deps = [node - 1] if node % 5 else []
        after = [0] if node and not node % 3 else []
        item = orjson.dumps(["x" * node]) if node % 2 else None
        builder.add(node % 2, deps, after, item, f"node {node}" if named and node % 4 else None)
    return builder.finish()


HEADER: dict[str, Any] = {"name": "graph", "kinds": [{"handler": "m:f"}, {"handler": "m:g"}]}


@pytest.mark.parametrize("size", [0, 1, 2, 17, 100])
@pytest.mark.parametrize(("values", "longest"), [(4096, 128 * 1024), (3, 128 * 1024), (16, 40)])
def test_a_container_says_what_the_columns_say(
    monkeypatch: pytest.MonkeyPatch, size: int, values: int, longest: int
) -> None:
    monkeypatch.setattr(graph, "PIECE_VALUES", values)
    monkeypatch.setattr(graph, "PIECE_BYTES", longest)
    columns = built(size)
    header, found = decode(encode(columns, HEADER))
    assert found.beginning is not None
    found.beginning = None
    assert found == columns
    assert {name: header[name] for name in HEADER} == HEADER


def test_a_container_of_version_1_is_read() -> None:
    header, columns = decode(VERSION_1)
    assert header["name"] == "old"
    assert columns.ids == {0: "first", 2: "last"}
    assert columns.items == [[1, "a"], None, {"k": 2}]
    assert [columns.edges_in(node) for node in range(3)] == [[], [0], [0, 1, 0]]
    assert list(columns.kind_of or ()) == [0, 1, 0]


def test_a_run_begins_with_the_nodes_that_wait_for_none(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = built(100)
    whole = ended(columns.begin())
    monkeypatch.setattr(graph, "SLICE_NODES", 7)
    assert ended(columns.begin()) == whole
    assert whole.waits == [len(columns.edges_in(node)) for node in range(100)]
    assert whole.roots == [node for node in range(100) if not columns.edges_in(node)]
    assert [node for node, state in enumerate(whole.state) if state] == whole.roots


def test_nodes_without_any_edge_are_a_range() -> None:
    assert ended(GraphColumns.edgeless(5, None).begin()).roots == range(5)


def test_no_slice_looks_at_all_of_a_large_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph, "SLICE_NODES", 10)
    monkeypatch.setattr(graph, "PIECE_VALUES", 10)
    slices = decode_slices(encode(built(1000), HEADER))
    assert sum(1 for _ in slices) >= 100 + 50 + 75


def test_large_items_are_in_pieces_of_their_own() -> None:
    builder = GraphBuilder()
    for _ in range(9):
        builder.add(0, item=orjson.dumps("x" * graph.PIECE_BYTES))
    header, columns = decode(encode(builder.finish(), HEADER))
    assert len(header["pieces"]["items"]) == 9
    assert columns.items == ["x" * graph.PIECE_BYTES] * 9


def column(name: str, at: int, value: int) -> Callable[[GraphColumns], None]:
    def change(columns: GraphColumns) -> None:
        getattr(columns, name)[at] = value

    return change


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (column("deps", 0, 99), "leads outside"),
        (column("succ", 0, 99), "leads outside"),
        (column("deps_off", 1, 9), "do not ascend"),
        (column("succ_off", 1, 99), "do not ascend"),
        (column("deps_off", -1, 3), "do not fit"),
        (column("kind_of", 0, 2), "names a kind that is not there"),
        (lambda columns: columns.kind_of.pop(), "wrong length"),
        (lambda columns: columns.items.pop(), "wrong length"),
    ],
)
def test_columns_that_contradict_each_other_are_refused(change: Callable[[Any], None], why: str) -> None:
    columns = built(20)
    change(columns)
    with pytest.raises(ProtocolError, match=why):
        decode(encode(columns, HEADER))


@pytest.mark.parametrize("cut", [1, 10, 60])
def test_a_container_that_was_cut_is_refused(cut: int) -> None:
    with pytest.raises(ProtocolError):
        decode(encode(built(20), HEADER)[:-cut])


def test_a_container_of_a_later_version_is_refused() -> None:
    with pytest.raises(ProtocolError, match="of version 9"):
        decode(encode(built(2), HEADER).replace(b'"version":2', b'"version":9'))
