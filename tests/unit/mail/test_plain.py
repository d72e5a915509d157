"""What plain JSON holds exactly, and the properties of marshal and orjson that the proof of it rests on."""

from __future__ import annotations

import marshal
import math
from typing import Any

import numpy as np
import orjson
import pytest

from actors.protocol import limits
from runtime.mail import plain
from tests.unit.mail.values import ByteMember, DictChild, FloatChild, IntChild, Level, ListChild, Row, StrChild, Word


def nested(levels: int, inside: Any = 1) -> Any:
    for _ in range(levels):
        inside = [inside]
    return inside


def kinds_in(value: Any) -> set[type]:
    """Types of the items of a list or dict."""
    return set(map(type, value.values() if type(value) is dict else value))


@pytest.mark.parametrize(
    "value",
    [
        [],
        {},
        [[]],
        [40, 41, 0x28, 0x2900, 0x290000, 115, 0x73000000, -1, 2**63, 2**64 - 1],
        ["(", ")", "f(x) and g(y)", "s" * 41, "(" * 300, "null", "é)"],
        [["(a)", None, 1.5], {"null": "s\x00\x00\x00\x00"}],
        [[-0.0, 5e-324, 1.7976931348623157e308], [None]],
        {"a": {"b": [True, 1, 1.0]}},
        [{"x": [i], "name": "n"} for i in range(300)],
    ],
)
def test_plain_values_are_their_json_text(value: Any) -> None:
    assert plain.plain_text(value) == orjson.dumps(value)
    assert plain.nested_text(value, kinds_in(value)) == orjson.dumps(value)


@pytest.mark.parametrize(
    "odd",
    [
        (),
        (1,),
        tuple(range(300)),
        math.nan,
        -math.inf,
        Level.LOW,
        Word.YES,
        ByteMember.ONE,
        IntChild(1),
        FloatChild(1),
        StrChild("x"),
        ListChild(),
        DictChild(),
        Row("a"),
        {1: 2},
        {StrChild("k"): 1},
        {"\ud800": 1},
        "\ud800",
        2**64,
        -(2**63) - 1,
        b"x",
        {1},
        1j,
        np.str_("x"),
        np.float64(1.0),
        np.int64(1),
        np.bool_(True),
    ],
    ids=lambda odd: f"{type(odd).__name__}-{ascii(odd)[:12]}",
)
def test_other_values_are_not_whatever_surrounds_them(odd: Any) -> None:
    shared = [odd, odd]
    for value in ([odd], [[odd]], {"k": odd}, [None, 1.0, "(", [odd]], [shared, shared], [1, {"a": [odd, "s"]}]):
        assert plain.plain_text(value) is None
        assert plain.nested_text(value, kinds_in(value)) is None


def test_long_tuples_and_many_accidental_marks_are_told_apart() -> None:
    texts = ["(((()))) sss ..." * 20 for _ in range(50)]
    assert plain.plain_text([texts]) == orjson.dumps([texts])
    assert plain.plain_text([texts, (1, 2)]) is None
    assert plain.plain_text([texts, tuple(range(1000))]) is None


def test_a_long_tuple_is_found_by_the_last_byte_of_its_length() -> None:
    length = (1 << 24) + 5
    assert plain._suspicious(b"[(" + length.to_bytes(4, "little") + b"N" * length)
    assert not plain._suspicious(b"[" + b"(abcN" + b"N" * length)


def test_ordinary_texts_are_not_suspicious() -> None:
    for value in (
        {"tags": ["a"], "ids": []},
        ["f(x) and (y)"],
        {"n": 41, "m": 40, "note": "(see below)"},
        [[243, 169]],
    ):
        assert not plain._suspicious(marshal.dumps(value, 4))


def test_scalars_are_exact_or_none() -> None:
    assert plain.scalar_text(None) == b"null"
    assert plain.scalar_text(math.nan) is None
    assert plain.scalar_text("\udfff") is None
    assert plain.scalars_text([None, 1.5, "null"], {type(None), float, str}) == b'[null,1.5,"null"]'
    assert plain.scalars_text([None, math.inf], {type(None), float}) is None
    assert plain.scalars_text((None, 1.5), {type(None), float}) == b"[null,1.5]"


def test_depth_is_measured_only_where_brackets_allow_it() -> None:
    limit = limits.PAYLOAD_DEPTH_MAX
    for levels, shallow in ((1, True), (limit, True), (limit + 1, False), (254, False)):
        value = nested(levels)
        assert plain.is_shallow(value, orjson.dumps(value), 0) is shallow
    wide = [[1] for _ in range(1000)]
    assert plain.is_shallow(wide, orjson.dumps(wide), 1000)
    assert plain.is_shallow(wide, orjson.dumps(wide), 0)


def test_what_the_proof_rests_on() -> None:
    assert orjson.dumps(nested(254))
    with pytest.raises(TypeError):
        orjson.dumps(nested(255))
    for odd in (Level.LOW, IntChild(1), StrChild("x"), ListChild(), DictChild(), FloatChild(1)):
        with pytest.raises(ValueError, match="unmarshallable"):
            marshal.dumps([odd], 4)
    assert marshal.dumps((1, 2), 4)[0] & 0x7F == ord(")")
    assert marshal.dumps(tuple(range(256)), 4)[0] & 0x7F == ord("(")
    assert marshal.dumps(ByteMember.ONE, 4)[0] & 0x7F == ord("s")
    assert marshal.dumps(math.nan, 4)[0] & 0x7F == ord("g")
    assert marshal.dumps(math.nan, 4)[7:9] in (b"\xf8\x7f", b"\xf8\xff")
    for a, b in ((1, True), (1, 1.0), ((), []), (0.0, -0.0), ("a", b"a")):
        assert marshal.dumps([a], 2) != marshal.dumps([b], 2)
