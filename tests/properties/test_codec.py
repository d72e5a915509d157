"""The codec's promise as properties: what is accepted comes back the same; what is refused names its place.

Every value goes through the text of the wire twice, as it does when the engine reads a frame and writes another.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from datetime import timedelta, timezone
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from actors.protocol.errors import PayloadError
from runtime.mail.blobs import BlobStore
from runtime.mail.codec import Codec
from runtime.mail.leaves import LEAF_READERS
from runtime.mail.plain import plain_text
from runtime.mail.typed import _READERS
from tests.unit.mail.values import EXAMPLES, Colour, Frozen, Level, Plain, Point, Right, Row, Slotted, same

pytestmark = pytest.mark.slow

zones = st.one_of(
    st.none(),
    st.timezones(),
    st.builds(timezone, st.timedeltas(timedelta(hours=-23), timedelta(hours=23))),
)
text = st.text(max_size=20)
any_text = st.text(st.characters(), max_size=20)
numbers = st.one_of(st.integers(), st.integers(-50, 50), st.floats(), st.booleans(), st.none())
json_leaves = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**63), 2**64 - 1), st.floats(allow_nan=False, allow_infinity=False), text
)
leaves = st.one_of(
    numbers,
    any_text,
    st.binary(max_size=20),
    st.binary(max_size=20).map(bytearray),
    st.complex_numbers(),
    st.datetimes(timezones=zones),
    st.builds(lambda d, f: d.replace(fold=f), st.datetimes(timezones=zones), st.integers(0, 1)),
    st.dates(),
    st.times(timezones=zones.filter(lambda z: z is None or isinstance(z, timezone))),
    st.timedeltas(),
    st.decimals(),
    st.fractions(),
    st.uuids(),
    st.builds(range, st.integers(-9, 9), st.integers(-9, 9), st.integers(1, 3)),
    st.sampled_from([Colour.RED, Colour.PAIR, Level.LOW, Right.READ | Right.WRITE, Right(0), ...]),
    any_text.filter(lambda t: "\0" not in t).map(Path),
)
keys = st.one_of(
    any_text, st.integers(), st.sampled_from([None, True, 2.5, Level.HIGH]), st.tuples(st.integers(), text)
)


def containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        st.lists(inner, max_size=5),
        st.lists(inner, max_size=5).map(tuple),
        st.dictionaries(keys, inner, max_size=5),
        st.dictionaries(st.sampled_from(["!", "a", "null", "(", ")"]), inner, max_size=3),
        st.dictionaries(text, inner, max_size=4).map(OrderedDict),
        st.sets(keys, max_size=4),
        st.frozensets(keys, max_size=4),
        st.builds(Point, inner, inner),
        st.builds(Row, inner, st.lists(inner, max_size=3)),
        st.builds(Frozen, inner, inner),
        st.builds(Slotted, inner, inner),
    )


def json_containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        st.lists(inner, max_size=6), st.dictionaries(st.one_of(text, st.sampled_from(["!", "a"])), inner, max_size=6)
    )


values = st.recursive(leaves, containers, max_leaves=25)
json_values = st.recursive(json_leaves, json_containers, max_leaves=40)


def travelled(wire: bytes) -> Any:
    """The wire value as the last of three processes reads it."""
    return orjson.loads(orjson.dumps(orjson.loads(wire)))


@given(values)
@settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_what_is_accepted_comes_back_the_same(value: Any) -> None:
    codec = Codec()
    assert same(codec.decode(travelled(codec.encode(value))), value)


@given(st.lists(st.one_of(values, json_values), max_size=8))
@settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@example(EXAMPLES)
def test_lists_come_back_the_same_whatever_is_mixed_in_them(items: list[Any]) -> None:
    codec = Codec()
    assert same(codec.decode_list(travelled(codec.encode_list(items))), items)


@given(json_values)
@settings(max_examples=200)
def test_plain_values_stay_plain_json(value: Any) -> None:
    if type(value) in (list, dict):
        assert plain_text(value) == orjson.dumps(value)
    codec = Codec()
    wire = codec.encode(value)
    if not (type(value) is dict and list(value) == ["!"]) and len(wire) < 2048:
        assert wire == orjson.dumps(value)
    assert same(codec.decode(travelled(wire)), value)


@given(st.recursive(st.one_of(numbers, any_text, st.just(Level.LOW)), containers, max_leaves=10))
@settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_the_quick_proof_of_exactness_agrees_with_a_slow_one(value: Any) -> None:
    def exact(item: Any) -> bool:
        kind = type(item)
        if kind in (bool, type(None)):
            return True
        if kind is int:
            return -(2**63) <= item < 2**64
        if kind is float:
            return math.isfinite(item)
        if kind is str:
            return not any(0xD800 <= ord(c) < 0xE000 for c in item)
        if kind is list:
            return all(map(exact, item))
        return kind is dict and all(type(k) is str and exact(k) and exact(v) for k, v in item.items())

    assert (plain_text([value]) is not None) == exact([value])


@given(values, st.data())
@settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_a_refusal_names_the_place(value: Any, data: st.DataObject) -> None:
    path = ""
    planted: Any = Plain()
    for _ in range(data.draw(st.integers(0, 6))):
        around = data.draw(st.lists(values, max_size=2))
        shape = data.draw(st.sampled_from(["list", "tuple", "dict", "odd", "row", "point"]))
        if shape in ("list", "tuple"):
            path = f"[{len(around)}]{path}"
            planted = [*around, planted, value] if shape == "list" else (*around, planted, value)
        elif shape == "dict":
            path = f"['k']{path}"
            planted = {"j": value, "k": planted}
        elif shape == "odd":
            path = f"[7]{path}"
            planted = {0: value, 7: planted}
        elif shape == "row":
            path = f".name{path}"
            planted = Row(planted)
        else:
            path = f"[1]{path}"
            planted = Point(value, planted)
    codec = Codec()
    with pytest.raises(PayloadError) as refused:
        codec.encode(planted)
    assert refused.value.path == "$" + path
    assert refused.value.message.startswith("$" + path + ": ")
    with pytest.raises(PayloadError) as refused:
        codec.encode_list([1, (2,), planted])
    assert refused.value.path == "[2]" + path


@given(st.lists(values, min_size=1, max_size=4), st.integers(1, 1500))
@settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_large_values_come_back_the_same_through_files(
    tmp_path_factory: pytest.TempPathFactory, items: list[Any], n: int
) -> None:
    folder = tmp_path_factory.mktemp("blobs")
    codec = Codec(BlobStore(folder, fsync=False))
    value = {"many": items * n, "raw": bytes(n * 10), "t": tuple(items)}
    wire = codec.encode(value, blob_key="s-1/0-1")
    assert len(wire) < 150_000
    assert same(Codec(BlobStore(folder)).decode(travelled(wire)), value)


class Ref:
    def __init__(self, index: int) -> None:
        self.index = index


def index_of(thing: object) -> int | None:
    return thing.index if isinstance(thing, Ref) else None


@given(st.lists(values, min_size=1, max_size=4), st.data())
@settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_references_in_templates_become_the_parents_results(parents: list[Any], data: st.DataObject) -> None:
    index = data.draw(st.integers(0, len(parents) - 1))
    other = data.draw(values)
    args = (Ref(index), [Ref(index), other], {"a": (Ref(0), other)}, Row(Ref(index)), other)
    codec = Codec()
    wire = travelled(codec.encode_template(args, {"k": Ref(index), "plain": [1]}, index_of))
    found, named = codec.decode_template(wire, parents)
    parent = parents[index]
    assert same(found, [parent, [parent, other], {"a": (parents[0], other)}, Row(parent), other])
    assert same(named, {"k": parent, "plain": [1]})


CODES = [*LEAF_READERS, *_READERS, "json", "tree", "zz"]
wires = st.recursive(
    st.one_of(
        json_leaves, st.sampled_from(["numpy:array", "tests.unit.mail.values:Row", "builtins:int", "AAAA", "<f4"])
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.builds(lambda code, rest: [code, *rest], st.sampled_from(CODES), st.lists(inner, max_size=4)),
        st.dictionaries(st.sampled_from(["!", "a", "names", "formats"]), inner, max_size=3),
    ),
    max_leaves=12,
)


@given(st.sampled_from(["json", "tree", "blob", "pickle", "ref"]), st.lists(wires, max_size=4))
@settings(max_examples=500, suppress_health_check=[HealthCheck.too_slow])
def test_whatever_stands_on_the_wire_is_read_or_unreadable(tag: str, rest: list[Any]) -> None:
    try:
        Codec().decode({"!": [tag, *rest]})
    except PayloadError:
        pass
