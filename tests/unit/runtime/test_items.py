"""How calls become items."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from runtime.errors import PayloadError, PayloadTooLarge
from runtime.items import ANY_KEY, BlobNeeded, NoBlobs, encode_call, holds, shape_of, takes_long
from runtime.mail.codec import Codec
from tests.unit.runtime import handlers


def test_shapes() -> None:
    assert shape_of((1,), {}) == "one"
    assert shape_of((), {}) == shape_of((1, 2), {}) == "args"
    assert shape_of((1,), {"a": 1}) == "call"


def test_items() -> None:
    def item(*args: Any, **kwargs: Any) -> Any:
        return orjson.loads(encode_call(Codec(), args, kwargs))

    assert item(1) == 1
    assert item() == []
    assert item(1, "x") == [1, "x"]
    assert item(1, a=[2]) == [[1], {"a": [2]}]


def test_a_large_value_asks_for_its_run() -> None:
    codec = Codec(NoBlobs())
    for args, kwargs in ((("x" * 100_000,), {}), ((1, "x" * 100_000), {}), ((), {"a": b"x" * 100_000})):
        with pytest.raises(BlobNeeded):
            encode_call(codec, args, kwargs, blob_key=ANY_KEY)


def test_paths_name_the_argument() -> None:
    for args, kwargs, word in (
        ((object(),), {}, "$"),
        ((1, object()), {}, "[1]"),
        ((), {"a": object()}, "'a'"),
    ):
        with pytest.raises(PayloadError) as refused:
            encode_call(Codec(), args, kwargs)
        assert word in refused.value.path


def test_arguments_that_are_too_long_together() -> None:
    with pytest.raises(PayloadTooLarge):
        encode_call(Codec(), ["x" * 60_000] * 20, {})


@pytest.mark.parametrize(
    ("value", "long"),
    [
        (7, False),
        ("x" * 100_000, False),
        ("x" * 10_000_000, True),
        (b"x" * 10_000_000, False),  # a file takes it as it is
        ([], False),
        ([0] * 9_000, False),
        ([0] * 20_000, True),
        (dict.fromkeys(range(20_000), 0), True),
        ([[0] * 100] * 50, False),
        ([[0] * 100] * 200, True),
        ([(0, 1)] * 100, False),
        ([(0, 1)] * 1_000, True),
        ([{"a": [1, 2, 3]}] * 100, False),
        ([{"a": [1, 2, 3]}] * 5_000, True),
        ([[[[0] * 10] * 10] * 10] * 100, True),
        (({"rows": [(1, "a", None)] * 10_000},), True),
        (handlers, False),
    ],
)
def test_what_takes_long_to_encode_is_known_by_its_parts(value: Any, long: bool) -> None:
    assert takes_long((value,), {}) is long
    assert takes_long((1, "x"), {"value": value}) is long


def test_many_arguments_take_long_together() -> None:
    assert takes_long([[0] * 3_000] * 4, {})
    assert not takes_long((), {})


class Marker:
    """What is looked for."""


def test_looking_into_containers() -> None:
    def found(value: object) -> bool:
        return holds(value, lambda kind: kind is Marker)

    loop: list[Any] = []
    loop.append(loop)
    for value in ([1, [2]], {"a": (1, {2})}, loop, "text", object(), handlers.Tool):
        assert not found(value)
    for value in (Marker(), [[Marker()]], {"a": {"b": (1, Marker())}}, {Marker()}):
        assert found(value)
