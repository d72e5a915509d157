"""Flows: nodes are places in columns, arguments are stored when they are added, bad graphs are refused by name."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest

from actors.protocol import limits
from actors.protocol.graph import decode
from actors.protocol.kinds import KindTable
from runtime import Flow, Node
from runtime.errors import (
    ConfigurationError,
    CycleError,
    DuplicateNode,
    GraphError,
    HandlerRefused,
    MissingNode,
    PayloadError,
    PayloadTooLarge,
    UnknownNodeType,
)
from runtime.host.decode import BLOB_MARK
from runtime.mail.blobs import BlobStore
from runtime.mail.codec import Codec
from tests.unit.runtime import handlers
from tests.unit.runtime.handlers import add_one, gather, total


def unpacked(flow: Flow, **options: Any) -> tuple[dict[str, Any], Any]:
    """Header and columns, as the engine reads them."""
    return decode(flow.container(Codec(), "", lambda name: name, **options))


def test_a_chain_and_its_shapes() -> None:
    flow = Flow("chain")
    first = flow.add(add_one, 1)
    second = flow.add(add_one, first)
    third = flow.add(gather, second, [first, {"a": second}], key=7, id="third")
    header, columns = unpacked(flow)
    assert [kind["shape"] for kind in header["kinds"]] == ["one", "parents", "template"]
    assert header["name"] == "chain"
    assert list(columns.deps) == [0, 1, 0]
    assert columns.parents(2) == [1, 0]
    assert columns.items[0] == 1
    assert third.id == "third"
    assert flow.node("third").index == 2
    assert len(flow) == 3
    table = KindTable()
    for kind in header["kinds"]:
        table.intern(kind)


def test_results_that_are_arguments_as_they_are_go_beside_the_own_ones() -> None:
    flow = Flow()
    first, second = flow.add(add_one, 1), flow.add(add_one, 2)
    flow.add(gather, [7], second, "x", first)
    flow.add(gather, 1, first, first)
    flow.add(gather, first, [second])
    flow.add(gather, first, key=1)
    header, columns = unpacked(flow)
    assert [header["kinds"][k]["shape"] for k in columns.kind_of][2:] == ["mixed", "template", "template", "template"]
    assert columns.items[2] == [[[7], None, "x", None], [1, 3]]
    assert columns.parents(2) == [1, 0]


def test_shapes_without_parents() -> None:
    flow = Flow()
    flow.add(gather)
    flow.add(gather, 1)
    flow.add(gather, 1, 2)
    flow.add(gather, 1, key=2)
    header, columns = unpacked(flow)
    assert [header["kinds"][k]["shape"] for k in columns.kind_of] == ["parents", "one", "args", "call"]
    assert columns.items == [None, 1, [1, 2], [[1], {"key": 2}]]


def test_a_repeated_parent_is_a_repeated_edge() -> None:
    flow = Flow()
    one = flow.add(add_one, 1)
    flow.add(total, one, one)
    assert list(unpacked(flow)[1].deps) == [0, 0]


def test_references_inside_containers_are_numbered_once() -> None:
    flow = Flow()
    one, two = flow.add(add_one, 1), flow.add(add_one, 2)
    flow.add(gather, [two, one, two], (one,), {"k": {two}})
    columns = unpacked(flow)[1]
    assert list(columns.deps) == [1, 0]
    args, kwargs = Codec().decode_template(columns.items[2], ["TWO", "ONE"])
    assert args == [["TWO", "ONE", "TWO"], ("ONE",), {"k": {"TWO"}}]
    assert kwargs == {}


def test_edges_without_data() -> None:
    flow = Flow()
    one, two = flow.add(add_one, 1), flow.add(add_one, 2)
    three = flow.add(add_one, 3, after=[one, two])
    flow.link(two, one)
    columns = unpacked(flow)[1]
    assert columns.parents(three.index) == [0, 1]
    assert columns.parents(one.index) == [1]


def test_a_cycle_is_refused_with_its_path() -> None:
    flow = Flow()
    nodes = [flow.add(add_one, i, id=f"n{i}") for i in range(200)]
    for before, after in zip(nodes, nodes[1:], strict=False):
        flow.link(before, after)
    flow.link(nodes[-1], nodes[0])
    with pytest.raises(CycleError, match="n0") as refused:
        unpacked(flow)
    assert len(refused.value.path) == 201


def test_bad_edges_are_refused() -> None:
    flow, other = Flow("mine"), Flow("other")
    mine, theirs = flow.add(add_one, 1, id="x"), other.add(add_one, 1)
    with pytest.raises(MissingNode, match="other"):
        flow.add(add_one, theirs)
    with pytest.raises(MissingNode, match="other"):
        flow.add(gather, [theirs])
    with pytest.raises(MissingNode):
        flow.add(add_one, 1, after=[theirs])
    with pytest.raises(MissingNode):
        flow.link(mine, theirs)
    with pytest.raises(GraphError, match="itself"):
        flow.link(mine, mine)
    with pytest.raises(DuplicateNode, match="'x'"):
        flow.add(add_one, 1, id="x")
    with pytest.raises(GraphError, match="not a node"):
        flow.add(add_one, 1, after=[3])  # type: ignore[list-item]
    with pytest.raises(MissingNode):
        flow.node("y")
    with pytest.raises(MissingNode):
        flow.node(99)
    assert len(flow) == 1


def test_node_ids_survive_or_are_refused() -> None:
    flow = Flow()
    flow.add(add_one, 1, id="nul\0 and \u2028")
    assert unpacked(flow)[1].ids == {0: "nul\0 and \u2028"}
    with pytest.raises(GraphError, match="surrogate"):
        flow.add(add_one, 1, id="\ud800")
    flow.add(add_one, 1, id="x" * 1024)
    for name in ("x" * 1025, "é" * 513):
        with pytest.raises(GraphError, match="at most 1,024 bytes"):
            flow.add(add_one, 1, id=name)
    assert len(flow) == 2


@pytest.mark.parametrize("name", ["", "\ud800", "x" * 1025])
def test_the_name_of_a_flow_is_a_name(name: str) -> None:
    with pytest.raises(ConfigurationError, match="name must be"):
        Flow(name)


def test_a_node_has_no_value_yet() -> None:
    node = Flow().add(add_one, 1)
    with pytest.raises(TypeError, match="no value yet"):
        list(node)
    with pytest.raises(TypeError, match="no value yet"):
        bool(node)


def test_arguments_are_stored_when_they_are_added() -> None:
    flow = Flow()
    rows = [1, 2]
    flow.add(sum, rows)
    rows.append(3)
    assert unpacked(flow)[1].items == [[1, 2]]


def test_a_value_that_cannot_be_stored_is_refused_at_its_line() -> None:
    flow = Flow()
    with pytest.raises(PayloadError) as refused:
        flow.add(gather, 1, {"deep": [object()]})
    assert "deep" in refused.value.path
    assert len(flow) == 0


def test_arguments_that_are_too_long_together_are_refused() -> None:
    with pytest.raises(PayloadTooLarge):
        Flow().add(gather, *["x" * 60_000] * 20)


def test_large_values_wait_for_the_run(tmp_path: Path) -> None:
    flow = Flow()
    small = flow.add(add_one, 1)
    big = "x" * 200_000
    flow.add(gather, big)
    flow.add(gather, [small, big])
    assert flow.has_large_values
    codec = Codec(BlobStore(tmp_path, fsync=False))
    _, columns = decode(flow.container(codec, "run-1", lambda name: name))
    assert [p.name for p in tmp_path.iterdir()] == ["run-1"]
    assert codec.decode(columns.items[1]) == big
    assert codec.decode_template(columns.items[2], [5])[0] == [[5, big]]
    flow.container(codec, "run-2", lambda name: name)
    assert {p.name for p in tmp_path.iterdir()} == {"run-1", "run-2"}


def test_nodes_behind_a_large_value_are_parents_too(tmp_path: Path) -> None:
    flow = Flow()
    first, second, third = (flow.add(add_one, number) for number in range(3))
    big = "x" * 200_000
    flow.add(gather, big, [first], {"a": (second, big)}, key=third)
    codec = Codec(BlobStore(tmp_path, fsync=False))
    _, columns = decode(flow.container(codec, "run-1", lambda name: name))
    assert columns.parents(3) == [0, 1, 2]
    assert codec.decode_template(columns.items[3], [5, 6, 7]) == ([big, [5], {"a": (6, big)}], {"key": 7})


def test_a_value_behind_a_large_one_is_refused_at_its_line() -> None:
    flow = Flow()
    first = flow.add(add_one, 1)
    with pytest.raises(PayloadError) as refused:
        flow.add(gather, "x" * 200_000, [first], key=object())
    assert "key" in refused.value.path
    assert len(flow) == 1


def test_a_flow_can_be_submitted_again_and_grow() -> None:
    flow = Flow()
    flow.add(add_one, 1)
    first = flow.container(Codec(), "", str)
    assert flow.container(Codec(), "", str) == first
    flow.add(add_one, 2)
    assert unpacked(flow)[1].size == 2


def test_triggers_and_options_reach_the_kinds() -> None:
    flow = Flow("f", node_type="cpu", timeout=7.0)
    one = flow.add(add_one, 1)
    flow.add(add_one, one, trigger="all_done")
    flow.add(handlers.full_task, one)
    kinds = unpacked(flow)[0]["kinds"]
    assert [k["trigger"] for k in kinds] == ["all_succeeded", "all_done", "all_succeeded"]
    assert [k["node_type"] for k in kinds] == ["cpu", "cpu", "cpu"]
    assert [k["timeout_ns"] for k in kinds] == [7_000_000_000, 7_000_000_000, 5_000_000_000]
    with pytest.raises(ConfigurationError):
        flow.add(add_one, 1, trigger="never")
    with pytest.raises(ConfigurationError):
        Flow("f", timeout=-1)
    with pytest.raises(ConfigurationError):
        Flow("")


def test_the_node_type_is_checked_by_the_runtime() -> None:
    flow = Flow(node_type="gpu")
    flow.add(add_one, 1)

    def refuse(name: str) -> str:
        raise UnknownNodeType(name)

    with pytest.raises(UnknownNodeType, match="gpu"):
        flow.container(Codec(), "", refuse)


def test_equal_functions_share_a_kind() -> None:
    flow = Flow()
    for i in range(100):
        flow.add(add_one, i)
    header, columns = unpacked(flow)
    assert len(header["kinds"]) == 1
    assert columns.kind_of is None


def test_a_partial_ships_its_arguments() -> None:
    flow = Flow()
    node = flow.add(functools.partial(gather, 1, k=2), 3)
    flow.add(functools.partial(gather, 1), node)
    columns = unpacked(flow)[1]
    assert columns.items[0] == [[1, 3], {"k": 2}]
    assert columns.items[1] == [[1, None], [1]]


def test_equal_functions_and_options_are_one_kind_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PLANS_MAX", 3)
    flow = Flow()
    for i in range(10):
        flow.add(functools.partial(add_one, i))
        flow.add(handlers.plain_task.options(timeout=5.0), i)
        flow.add(add_one, i, trigger="all_done")
    assert len(unpacked(flow)[0]["kinds"]) == 3
    assert len(flow._rows) <= 3


def test_a_bad_handler_is_refused_when_it_is_added() -> None:
    with pytest.raises(HandlerRefused):
        Flow().add(lambda: 1)
    with pytest.raises(HandlerRefused):
        Flow().add([1])  # type: ignore[call-overload]
    with pytest.raises(HandlerRefused):
        Flow().add(handlers.NoHash(), 1)


def test_a_run_id_is_in_the_header() -> None:
    flow = Flow()
    flow.add(add_one, 1)
    assert unpacked(flow, run_id="etl-7")[0]["run_id"] == "etl-7"


def test_a_container_never_looks_like_the_name_of_a_file() -> None:
    for length in range(1, 260):
        flow = Flow("f" * length)
        flow.add(add_one, 1)
        container = flow.container(Codec(), "", str)
        assert container[:1] != BLOB_MARK
        assert decode(container)[0]["name"] == "f" * length


def test_names_in_words() -> None:
    flow = Flow("words")
    node: Node[int] = flow.add(add_one, 1)
    assert repr(flow) == "<Flow words: 1 node>"
    assert repr(node) == "<Node 0 of words>"
    assert (flow.id_of(0), flow.index_of("0")) == ("0", None)
