"""The codec at its face: what stands for what on the wire, thresholds, errors, templates."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import orjson
import pytest

from actors.protocol import limits
from actors.protocol.errors import PayloadError, PayloadTooLarge, PayloadUnreadable
from runtime.mail.blobs import BlobStore
from runtime.mail.codec import Codec
from tests.unit.mail.values import EXAMPLES, Frozen, Plain, Row, same

KEY = "session-1/0-1"


class Ref:
    def __init__(self, index: int) -> None:
        self.index = index


def index_of(thing: object) -> int | None:
    return thing.index if isinstance(thing, Ref) else None


def again(wire: bytes) -> Any:
    return orjson.loads(orjson.dumps(orjson.loads(wire)))


def refusal(value: Any, **how: Any) -> PayloadError:
    with pytest.raises(PayloadError) as refused:
        Codec().encode(value, **how)
    return refused.value


@pytest.fixture
def stored(tmp_path: Path) -> Codec:
    return Codec(BlobStore(tmp_path / "blobs", fsync=False))


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_values_come_back_the_same(number: int) -> None:
    value = EXAMPLES[number]
    codec = Codec()
    assert same(codec.decode(again(codec.encode(value))), value)
    assert same(codec.decode_list(again(codec.encode_list([value, 1, value]))), [value, 1, value])
    assert same(codec.decode(again(codec.encode({"in": [value]}))), {"in": [value]})


@pytest.mark.parametrize("pickle", [False, True])
def test_a_mixed_list_comes_back_the_same(pickle: bool) -> None:
    codec = Codec()
    text = codec.encode_list(EXAMPLES, pickle=pickle)
    found = codec.decode_list(again(text))
    if pickle:
        assert [type(v) for v in found] == [type(v) for v in EXAMPLES]
    else:
        assert same(found, EXAMPLES)


@pytest.mark.parametrize(
    ("value", "wire"),
    [
        (1, b"1"),
        ([1, "a"], b'[1,"a"]'),
        ({"a": {"!": 1}}, b'{"a":{"!":1}}'),
        ({"!": 1}, rb'{"!":["json","{\"!\":1}"]}'),
        ((1, 2), b'{"!":["tree",["t",1,2]]}'),
        ({1: (2,)}, b'{"!":["tree",["m",1,["t",2]]]}'),
        (b"ab", b'{"!":["tree",["b","YWI="]]}'),
    ],
)
def test_what_stands_on_the_wire(value: Any, wire: bytes) -> None:
    assert Codec().encode(value) == wire


def test_a_frame_without_the_mark_needs_no_decoding() -> None:
    codec = Codec()
    assert Codec.plain(codec.encode_list([1, "!!", ["say '!'"], {"a!": 2}]))
    assert not Codec.plain(codec.encode_list([(1,)]))
    assert not Codec.plain(codec.encode_list([{"!": 1}]))


def test_lists_without_extensions_are_returned_as_they_are() -> None:
    wires = [1, "a", [1]]
    assert Codec().decode_list(wires) is wires


def test_tuples_of_plain_items_are_encoded_together() -> None:
    codec = Codec()
    values = [(i, [i, {"k": str(i)}]) for i in range(300)] + [()]
    text = codec.encode_list([1, *values, (1, (2,))])
    assert same(codec.decode_list(again(text)), [1, *values, (1, (2,))])


def test_large_containers_are_one_string() -> None:
    codec = Codec()
    value = [list(range(1000)), "é"]
    (tag, text) = orjson.loads(codec.encode(value))["!"]
    assert tag == "json"
    assert orjson.loads(text) == value
    (tag, text) = orjson.loads(codec.encode((value,)))["!"]
    assert tag == "tree"
    assert isinstance(text, str)
    assert same(codec.decode(again(codec.encode((value,)))), (value,))


def test_a_list_with_large_elements_makes_them_strings() -> None:
    codec = Codec()
    values: list[Any] = [list(range(1000)), list(range(1000)), 5, "x" * 5000]
    wires = orjson.loads(codec.encode_list(values))
    assert [type(w) for w in wires] == [dict, dict, int, str]
    assert same(codec.decode_list(wires), values)


def test_deep_values_are_strings_and_deeper_ones_are_refused() -> None:
    codec = Codec()
    value: Any = 1
    for _ in range(limits.PAYLOAD_DEPTH_MAX + 20):
        value = [value]
    assert orjson.loads(codec.encode(value))["!"][0] == "json"
    assert codec.decode(again(codec.encode(value))) == value
    assert same(codec.decode_list(again(codec.encode_list([value, [1]]))), [value, [1]])
    assert "nested more than 200 levels" in refusal((value,)).message
    for _ in range(5000):
        value = [value]
    assert "nested more than 200 levels" in refusal(value).message


def test_typed_values_of_the_full_depth_come_back() -> None:
    codec = Codec()
    value: Any = 1
    for level in range(limits.PAYLOAD_DEPTH_MAX):
        value = (value,) if level % 2 else Frozen(value)
    wire = codec.encode(value)
    orjson.dumps([[[[[[orjson.loads(wire)]]]]]])
    assert same(codec.decode(again(wire)), value)
    assert "nested more than" in refusal([value]).message


def test_what_contains_itself_is_refused_and_what_is_shared_is_not() -> None:
    loop: list[Any] = [1]
    loop.append({"a": (loop,)})
    assert "contains itself" in refusal(loop).message
    row = Row("x")
    row.values.append(row)
    assert "contains itself" in refusal(row).message
    shared = [1, (2,)]
    assert same(Codec().decode(again(Codec().encode([shared, shared, {"s": shared}]))), [shared, shared, {"s": shared}])


def test_the_path_leads_to_the_value() -> None:
    lock = threading.Lock()
    assert refusal(lock).path == "$"
    assert refusal([1, {"a b": (2, lock)}]).path == "$[1]['a b'][1]"
    assert refusal({1: Row("x", [lock])}).path == "$[1].values[0]"
    assert refusal({(1, Plain()): 2}).path == "$<key <tuple>>[1]"
    assert "lock" in refusal(lock).message
    with pytest.raises(PayloadError) as refused:
        Codec().encode_list([1, (2,), [lock]])
    assert refused.value.path == "[2][0]"
    with pytest.raises(PayloadError) as refused:
        Codec().encode_template((1,), {"k": [lock]}, index_of)
    assert refused.value.path == "kwargs['k'][0]"


def test_long_paths_are_cut_in_the_middle() -> None:
    value: Any = Plain()
    for _ in range(100):
        value = {"a" * 500: [value]}
    error = refusal(value)
    assert len(error.path) < 1500
    assert "steps" in error.path


def test_without_a_store_values_stay_in_line_up_to_a_limit() -> None:
    codec = Codec()
    limit = limits.PAYLOAD_BYTES_MAX_NO_STORE
    for value in ("x" * (limit - 2), [1] * (limit // 2 - 1), (b"x" * (limit // 2),)):
        assert same(codec.decode(again(codec.encode(value))), value)
    for value in ("x" * (limit + 1), [1] * limit, (b"x" * limit,), {"a": "x" * limit, "b": (1,)}):
        with pytest.raises(PayloadTooLarge):
            codec.encode(value)
        with pytest.raises(PayloadTooLarge) as refused:
            codec.encode_list([0, value])
        assert refused.value.path.startswith("[1]")


@pytest.mark.parametrize(
    ("value", "form"),
    [
        ("x" * 100_000, "json"),
        (["x" * 100_000, None], "json"),
        (("x" * 100_000, None), "tree"),
        (b"x" * 100_000, "bytes"),
        (bytearray(100_000), "bytearray"),
    ],
)
def test_with_a_store_large_values_are_blobs(stored: Codec, value: Any, form: str) -> None:
    wire = again(stored.encode(value, blob_key=KEY))
    assert wire["!"][0] == "blob"
    assert wire["!"][2] == form
    assert wire["!"][1].startswith("session-1/0-1.")
    assert same(stored.decode(wire), value)
    assert same(stored.decode_list([1, wire]), [1, value])


def test_large_leaves_inside_others_have_blobs_of_their_own(stored: Codec, tmp_path: Path) -> None:
    value = {"a": b"x" * 100_000, "b": [bytearray(b"y" * 70_000), b"small"], "n": 1}
    wire = again(stored.encode(value, blob_key=KEY))
    assert wire["!"][0] == "tree"
    assert len(list((tmp_path / "blobs" / "session-1").iterdir())) == 2
    assert same(stored.decode(wire), value)


def test_a_refused_value_leaves_no_blob(stored: Codec, tmp_path: Path) -> None:
    with pytest.raises(PayloadError):
        stored.encode([b"x" * 100_000, Plain()], blob_key=KEY)
    with pytest.raises(PayloadError):
        stored.encode_list([b"x" * 100_000, Plain()], blob_key=KEY)
    with pytest.raises(PayloadError):
        stored.encode_template((b"x" * 100_000, Plain()), {}, index_of, blob_key=KEY)
    assert list((tmp_path / "blobs" / "session-1").iterdir()) == []


def test_the_limit_counts_all_blobs_of_one_value(stored: Codec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PAYLOAD_BYTES_MAX", 250_000)
    part = b"x" * 100_000
    stored.encode_list([[part, part], [part, part]], blob_key=KEY)
    with pytest.raises(PayloadTooLarge) as refused:
        stored.encode([part, {"k": part}, part], blob_key=KEY)
    assert refused.value.path == "$[2]"
    with pytest.raises(PayloadTooLarge):
        stored.encode("x" * 300_000, blob_key=KEY)


def test_blobs_that_are_gone_or_damaged_are_named(stored: Codec, tmp_path: Path) -> None:
    wire = again(stored.encode("x" * 100_000, blob_key=KEY))
    path = tmp_path / "blobs" / wire["!"][1]
    content = path.read_bytes()
    path.write_bytes(content[:-1])
    with pytest.raises(PayloadUnreadable, match="bytes instead of"):
        stored.decode(wire)
    path.write_bytes(content[:-1] + b"y")
    with pytest.raises(PayloadUnreadable, match="damaged"):
        stored.decode(wire)
    path.unlink()
    with pytest.raises(PayloadUnreadable, match="session-1/0-1") as lost:
        stored.decode(wire)
    assert lost.value.code == "MS106"
    with pytest.raises(PayloadError, match="no blob store"):
        Codec().decode(wire)


@pytest.mark.parametrize(
    "wire",
    [
        {"!": []},
        {"!": None},
        {"!": ["new", 1]},
        {"!": ["tree", ["zz", 1]]},
        {"!": ["tree", ["dt", "no date", 0, None]]},
        {"!": ["tree", "[1,"]},
        {"!": ["tree", ["m", 1]]},
        {"!": ["json", "{"]},
        {"!": ["pickle", "AAAA"]},
        {"!": ["ref", 0]},
        {"!": ["blob", "../x", "json", 1, 1]},
        {"!": ["tree", ["d", "no.such.module:X"]]},
        {"!": ["tree", ["d", "builtins:int"]]},
        {"!": ["tree", ["s", ["l", 1]]]},
    ],
)
def test_malformed_wire_values_are_unreadable_and_nothing_worse(wire: Any, stored: Codec) -> None:
    with pytest.raises(PayloadUnreadable):
        stored.decode(wire)


def test_templates_hold_references_anywhere() -> None:
    codec = Codec()
    args = (Ref(1), 5, [Ref(0), {"deep": (Ref(1),)}], {Ref(0)}, {Ref(0): Ref(1)}, Row(Ref(1), [Ref(0)]))
    wire = again(codec.encode_template(args, {"k": Ref(0), "!": 1}, index_of))
    parents = ["zero", [1, (2,)]]
    found, named = codec.decode_template(wire, parents)
    one = parents[1]
    assert same(found, [one, 5, ["zero", {"deep": (one,)}], {"zero"}, {"zero": one}, Row(one, ["zero"])])
    assert same(named, {"k": "zero", "!": 1})
    assert found[0] is one


def test_a_plain_template_is_plain_json() -> None:
    assert Codec().encode_template((1, "a"), {"k": [2]}, index_of) == b'[[1,"a"],{"k":[2]}]'


def test_templates_may_be_pickled() -> None:
    codec = Codec()
    wire = again(codec.encode_template(([Ref(0), Plain], 3), {"s": {Ref(1)}}, index_of, pickle=True))
    assert codec.decode_template(wire, ["a", "b"]) == ([["a", Plain], 3], {"s": {"b"}})


def test_large_templates_are_blobs(stored: Codec) -> None:
    wire = again(stored.encode_template((["x" * 100_000, Ref(0)],), {}, index_of, blob_key=KEY))
    assert wire[0][0]["!"][0] == "blob"
    assert stored.decode_template(wire, [(1,)]) == ([["x" * 100_000, (1,)]], {})


def test_a_template_without_its_parent_is_unreadable() -> None:
    codec = Codec()
    for args in ((Ref(3),), ([Ref(3)],)):
        wire = again(codec.encode_template(args, {}, index_of))
        with pytest.raises(PayloadUnreadable, match="parent 3"):
            codec.decode_template(wire, [1])
    with pytest.raises(PayloadError, match="unhashable"):
        codec.decode_template(again(codec.encode_template(({Ref(0)},), {}, index_of)), [[]])


def test_references_have_a_meaning_in_templates_only() -> None:
    assert refusal([Ref(0)]).path == "$[0]"


def test_the_recursion_limit_of_the_caller_is_not_a_crash() -> None:
    codec = Codec()
    value: Any = 1
    for _ in range(150):
        value = (value,)

    def at_depth(frames: int) -> bytes:
        return at_depth(frames - 1) if frames else codec.encode(value)

    outcomes = set()
    for frames in range(200, 990, 35):
        try:
            outcomes.add(at_depth(frames) == codec.encode(value))
        except (PayloadError, RecursionError) as reason:
            outcomes.add(type(reason))
    assert True in outcomes
    assert outcomes <= {True, PayloadError, RecursionError}
