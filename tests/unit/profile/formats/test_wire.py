"""Numbers and fields of messages, against the examples of the public description."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.profile.formats import wire


@pytest.mark.parametrize(
    ("value", "content"), [(0, "00"), (1, "01"), (127, "7f"), (150, "9601"), (-1, "ff" * 9 + "01"), (300, "ac02")]
)
def test_numbers(value: int, content: str) -> None:
    assert wire.varint(value).hex() == content
    found, end = wire.read_varint(bytes.fromhex(content), 0)
    assert (wire.signed(found), end) == (value, len(content) // 2)


def test_fields() -> None:
    content = wire.number(1, 150) + wire.blob(2, b"testing") + wire.packed(4, [3, 270, 86942])
    assert content.hex() == "089601" + "1207" + b"testing".hex() + "2206038e029ea705"
    assert list(wire.fields(content))[:2] == [(1, 0, 150), (2, 2, b"testing")]
    assert wire.numbers(*list(wire.fields(content))[2][1:]) == [3, 270, 86942]


@pytest.mark.parametrize("content", ["08", "0880", "1205ab", "0b", "0002aa", "08" + "ff" * 10 + "01", "09aabb"])
def test_damage(content: str) -> None:
    with pytest.raises(ValueError):
        list(wire.fields(bytes.fromhex(content)))


@given(st.integers(-(1 << 63), (1 << 63) - 1))
def test_any_number(value: int) -> None:
    assert wire.signed(wire.read_varint(wire.varint(value), 0)[0]) == value
