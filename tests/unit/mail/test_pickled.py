"""payloads="pickle": what plain JSON holds stays plain, the rest is pickled; failures name the part."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import orjson
import pytest

from actors.protocol.errors import PayloadError, PayloadTooLarge, PayloadUnreadable
from runtime.mail.blobs import BlobStore
from runtime.mail.codec import Codec
from tests.unit.mail.values import IntChild, Plain, Row

KEY = "s-1/0-1"


class Broken:
    def __reduce__(self) -> Any:
        raise RuntimeError("no reduction")


class BreaksBack:
    def __init__(self, a: int, b: int) -> None:
        self.a = a

    def __reduce__(self) -> Any:
        return BreaksBack, (self.a,)


class Holder:
    def __init__(self, **held: Any) -> None:
        self.__dict__.update(held)


def again(wire: bytes) -> Any:
    return orjson.loads(orjson.dumps(orjson.loads(wire)))


def test_plain_values_stay_plain() -> None:
    codec = Codec()
    assert codec.encode([1, {"a": None}], pickle=True) == b'[1,{"a":null}]'
    assert codec.encode_list([1, [2]], pickle=True) == b"[1,[2]]"


def test_other_values_are_pickled() -> None:
    codec = Codec()
    value = [(1, {2}), IntChild(3), Holder(a=Row("x"))]
    wire = again(codec.encode(value, pickle=True))
    assert wire["!"][0] == "pickle"
    found = codec.decode(wire)
    assert found[:2] == value[:2]
    assert type(found[1]) is IntChild
    assert found[2].a == Row("x")
    assert codec.decode_list(again(codec.encode_list([1, (2,), "x"], pickle=True))) == [1, (2,), "x"]


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (threading.Lock(), "$"),
        ([1, {"k": (0, threading.Lock())}], "$[1]['k'][1]"),
        (Holder(a=1, b=[threading.Lock()]), "$.b[0]"),
        ({1: Broken()}, "$[1]"),
        ([lambda: 1], "$[0]"),
    ],
    ids=["lock", "nested", "field", "reduction", "lambda"],
)
def test_what_cannot_be_pickled_is_refused_with_its_path(value: Any, path: str) -> None:
    with pytest.raises(PayloadError, match="cannot be pickled") as refused:
        Codec().encode(value, pickle=True)
    assert refused.value.path == path


def test_what_cannot_be_rebuilt_is_unreadable() -> None:
    codec = Codec()
    wire = again(codec.encode(BreaksBack(1, 2), pickle=True))
    with pytest.raises(PayloadUnreadable, match="TypeError"):
        codec.decode(wire)


def test_large_pickles_are_blobs_and_too_large_ones_are_refused(tmp_path: Path) -> None:
    value = {1: "x" * 300_000}
    codec = Codec(BlobStore(tmp_path, fsync=False))
    wire = again(codec.encode(value, pickle=True, blob_key=KEY))
    assert wire["!"][2] == "pickle"
    assert codec.decode(wire) == value
    with pytest.raises(PayloadTooLarge):
        Codec().encode(value, pickle=True)


def test_small_values_stay_in_line_with_a_store(tmp_path: Path) -> None:
    codec = Codec(BlobStore(tmp_path, fsync=False))
    wire = again(codec.encode({1: bytearray(b"x")}, pickle=True, blob_key=KEY))
    assert wire["!"][0] == "pickle"
    assert codec.decode(wire) == {1: bytearray(b"x")}


def test_cycles_survive_pickle() -> None:
    loop: list[Any] = [1]
    loop.append(loop)
    codec = Codec()
    found = codec.decode(again(codec.encode(loop, pickle=True)))
    assert found[1] is found


def test_references_keep_their_identity() -> None:
    codec = Codec()
    parent = Plain()
    wire = again(codec.encode_template(([1, Plain], {2: "p"}), {}, lambda o: 0 if o == "p" else None, pickle=True))
    args, _ = codec.decode_template(wire, [parent])
    assert args[1][2] is parent
