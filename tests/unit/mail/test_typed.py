"""The typed tree: its text is persisted, so it is pinned here; and what it refuses, with the reason."""

from __future__ import annotations

import io
import re
import threading
import types
from array import array
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from actors.protocol.errors import PayloadUnreadable
from runtime.mail.blobs import BlobStore, Spill
from runtime.mail.refusal import Refused
from runtime.mail.typed import TreeReader, TreeWriter
from tests.unit.mail.values import (
    DictChild,
    FloatChild,
    IntChild,
    ListChild,
    Plain,
    Point,
    PointChild,
    Row,
    StrChild,
    TupleChild,
    same,
)

VALUES = "tests.unit.mail.values"


def text_of(value: Any) -> bytes:
    return orjson.dumps(TreeWriter(None).node(value))


def back(text: bytes) -> Any:
    return TreeReader(None).value(orjson.loads(text))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ((1, "a", None), b'["t",1,"a",null]'),
        (tuple(range(8)), b'["T",[0,1,2,3,4,5,6,7]]'),
        ([(), []], b'["l",["t"],["l"]]'),
        ([[0] * 8], b'["l",["j",[0,0,0,0,0,0,0,0]]]'),
        ({"a": (1,)}, b'{"a":["t",1]}'),
        ({"a": dict.fromkeys("abcdefgh", 1)}, b'{"a":["j",{"a":1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1,"h":1}]}'),
        ({1: 2, "x": 3}, b'["m",1,2,"x",3]'),
        ({3, 1, 2, 10}, b'["s",1,10,2,3]'),
        (frozenset({"b", "a"}), b'["fs","a","b"]'),
        (b"\xff", b'["b","/w=="]'),
        (bytearray(b"a"), b'["ba","YQ=="]'),
        (array("h", [1]), b'["ar","h","AQA="]'),
        (OrderedDict(b=1, a=2), b'["od","b",1,"a",2]'),
        (Counter("aab"), b'["ct","a",2,"b",1]'),
        (defaultdict(list, a=[1]), b'["dd","builtins:list","a",["l",1]]'),
        (defaultdict(None), b'["dd",null]'),
        (deque([1], 3), b'["dq",3,1]'),
        (int, b'["n","builtins:int"]'),
        (len, b'["n","builtins:len"]'),
        (Point(1, 2), f'["nt","{VALUES}:Point",1,2]'.encode()),
        (Row("n", []), f'["d","{VALUES}:Row","name","n","values",["l"]]'.encode()),
    ],
)
def test_the_text_of_each_type_is_pinned(value: Any, text: bytes) -> None:
    assert text_of(value) == text
    assert same(back(text), value)


def test_equal_sets_have_equal_texts() -> None:
    words = [f"word{n}" for n in range(50)]
    backwards = words[::-1]
    assert text_of(set(words)) == text_of(set(backwards))


@pytest.mark.parametrize("size", [7, 8, 9, 100])
def test_flat_containers_with_odd_items_keep_their_types(size: int) -> None:
    for odd in (float("nan"), "\ud800", 2**80, True, 1.0, None):
        for value in (
            [None, *[1.5] * size, odd],
            (odd, *["x"] * size),
            {**dict.fromkeys(map(str, range(size))), "k": odd},
        ):
            assert same(back(text_of([value, (value,)])), [value, (value,)])


def closed_file() -> Any:
    file = io.StringIO()
    file.close()
    return file


def generator() -> Any:
    yield 1


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (Plain, "tests.unit.mail.values.Plain has no exact stored form"),
        (object, "object has no exact stored form"),
        (threading.Lock, "lock has no exact stored form"),
        (closed_file, "StringIO has no exact stored form"),
        (generator, "generator has no exact stored form"),
        (lambda: memoryview(b"x"), "pass bytes(view)"),
        (lambda: lambda: 1, "defined inside a function"),
        (lambda: [].append, "no importable name"),
        (lambda: Plain().__init__, "has no exact stored form"),
        (lambda: re.compile("x"), "re.Pattern has no exact stored form"),
        (lambda: types.SimpleNamespace(a=1), "SimpleNamespace has no exact stored form"),
        (lambda: ValueError("x"), "ValueError has no exact stored form"),
        (lambda: IntChild(1), "IntChild is a subclass of int"),
        (lambda: FloatChild(1), "FloatChild is a subclass of float"),
        (lambda: StrChild("x"), "StrChild is a subclass of str"),
        (ListChild, "ListChild is a subclass of list"),
        (DictChild, "DictChild is a subclass of dict"),
        (TupleChild, "TupleChild is a subclass of tuple"),
        (lambda: PointChild(1), None),
        (lambda: defaultdict(lambda: 1), "defined inside a function"),
        (lambda: defaultdict(Plain().__hash__), "default_factory"),
        (lambda: list[int], "GenericAlias"),
        (lambda: type(None), "cannot be found by that name"),
        (lambda: types, "module has no exact stored form"),
    ],
)
def test_what_has_no_exact_form_is_refused_with_the_reason(make: Callable[[], Any], reason: str | None) -> None:
    value = make()
    if reason is None:
        assert same(back(text_of(value)), value)
        return
    with pytest.raises(Refused) as refused:
        TreeWriter(None).node([(value,)])
    assert reason in refused.value.reason
    assert refused.value.error().path == "$[0][0]"


def test_attributes_on_builtin_kinds_are_not_lost_in_silence() -> None:
    ordered = OrderedDict(a=1)
    ordered.note = "x"  # type: ignore[attr-defined]
    point = PointChild(1)
    point.note = "x"
    for value in (ordered, point):
        with pytest.raises(Refused, match="attributes of its own"):
            TreeWriter(None).node(value)


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ([0, {"a": Plain()}], "$[1]['a']"),
        ({2.5: Plain()}, "$[2.5]"),
        ({None: [Plain()]}, "$[None][0]"),
        ({(1, Plain()): 1}, "$<key <tuple>>[1]"),
        ({Plain}, None),
        ({Plain()}, "${<Plain>}"),
        (frozenset({(Plain(),)}), "${<tuple>}[0]"),
        (deque([Plain()]), "$[0]"),
        (OrderedDict(a=Plain()), "$['a']"),
        (Row("x", [Plain()]), "$.values[0]"),
        (Point(1, Plain()), "$[1]"),
        ({"k" * 100: Plain()}, "$['" + "k" * 55 + "...']"),
    ],
)
def test_the_path_names_the_place(value: Any, path: str | None) -> None:
    if path is None:
        assert same(back(text_of(value)), value)
        return
    with pytest.raises(Refused) as refused:
        TreeWriter(None).node(value)
    assert refused.value.error().path == path


def test_a_writer_forgets_a_value_that_failed() -> None:
    writer = TreeWriter(None)
    for _ in range(300):
        with pytest.raises(Refused):
            writer.whole([(Plain(),)])
    assert writer.whole((1,)) == ["t", 1]


def test_large_leaves_go_out_of_line(tmp_path: Path) -> None:
    store = BlobStore(tmp_path, fsync=False)
    value = (b"x" * 70_000, bytearray(b"y" * 70_000), array("d", [0.5]) * 10_000, b"small")
    node = orjson.loads(orjson.dumps(TreeWriter(Spill(store, "r-1/0-1")).node(value)))
    assert [part[0] for part in node[1:]] == ["blob", "blob", "blob", "b"]
    assert [part[2] for part in node[1:4]] == ["bytes", "bytearray", "array"]
    assert same(TreeReader(store).value(node), value)


def test_a_class_that_is_gone_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    text = text_of(Row("x"))
    monkeypatch.delattr(f"{VALUES}.Row")
    with pytest.raises(PayloadUnreadable, match=f"{VALUES}:Row"):
        back(text)
