"""Many values by one call: when that is done, and when it is not."""

from __future__ import annotations

from datetime import date
from typing import Any

import orjson
import pytest

from runtime.mail.bulk import BLOCK_VALUES, plain_list_text, typed_list_text
from runtime.mail.codec import Codec
from runtime.mail.plain import exact_text, may_stay
from tests.unit.mail.values import EXAMPLES, Colour, Plain, Row, same


@pytest.mark.parametrize("value", [1, "a", None, 1.5, True, [], {}, [[1]], {"a": [None]}])
def test_small_plain_values_are_quick(value: Any) -> None:
    text = exact_text(value)
    assert text == orjson.dumps(value)
    assert may_stay(value, text)
    assert plain_list_text([value, value]) == orjson.dumps([value, value])


@pytest.mark.parametrize("value", [{"!": 1}, (1,), 2**64, float("nan"), [list(range(1000))], "x" * 70_000, {"!": {}}])
def test_others_are_not(value: Any) -> None:
    text = exact_text(value)
    assert text is None or not may_stay(value, text)
    assert plain_list_text([value]) is None


def test_the_mean_size_decides_for_a_list() -> None:
    small: list[Any] = [{"n": n} for n in range(300)]
    hidden = [*small, {"text": "x" * 5000}]
    large = [{"text": "x" * 5000} for _ in range(10)]
    assert plain_list_text(hidden) == orjson.dumps(hidden)
    assert plain_list_text(large) is None
    assert plain_list_text([]) == b"[]"


def test_many_small_scalars_go_by_one_call() -> None:
    numbers = list(range(100_000))
    texts = ["x" * 100] * 2000
    assert plain_list_text(numbers) == orjson.dumps(numbers)
    assert plain_list_text([*texts, 1]) == orjson.dumps([*texts, 1])
    assert plain_list_text([*texts, "x" * 70_000]) is None


def test_typed_values_are_put_in_place() -> None:
    values = [1, "a", {"a": 1}, (1, 2), ("x", [1]), 2**70, [(1,)], {1: 2}, None, float("inf"), Colour.RED, Row("n")]
    text = typed_list_text(values)
    assert text is not None
    wires = orjson.loads(text)
    assert wires[:3] == [1, "a", {"a": 1}]
    assert wires[3] == {"!": ["tree", ["T", [1, 2]]]}
    assert wires[8] is None
    assert same(Codec().decode_list(wires), values)


@pytest.mark.parametrize(
    "odd", [Plain(), {"!": 1}, b"x" * 5000, "\ud800" * 5000, [[(1, "x" * 5000)]], [Plain()], (Plain(),)]
)
def test_what_is_large_or_refused_or_looks_extended_is_left_to_others(odd: Any) -> None:
    assert typed_list_text([1, odd, (2,)]) is None


def test_each_example_comes_back_by_the_quick_way() -> None:
    for value in EXAMPLES:
        text = typed_list_text([value, date(2024, 1, 1), value])
        if text is not None:
            assert same(Codec().decode_list(orjson.loads(text)), [value, date(2024, 1, 1), value])


def test_a_block_never_hides_what_belongs_into_a_file() -> None:
    hidden: list[Any] = [(n,) for n in range(BLOCK_VALUES - 1)]
    assert typed_list_text([*hidden, "x" * 50_000]) is not None
    assert typed_list_text([*hidden, "x" * 66_000]) is None
