"""Packed parts: what was packed comes back, a difference costs what changed, nonsense is refused."""

from __future__ import annotations

import zlib
from random import Random

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from runtime.storage.packing import (
    OF_FOUR_BYTES,
    PLAIN,
    PLANES,
    WINDOW_LOG_MAX,
    ZLIB,
    ZSTD,
    Packer,
    PackingBroken,
    planes,
    unplanes,
)

COLUMNS = st.sampled_from(["run", "state", "results", *sorted(OF_FOUR_BYTES)])


@given(COLUMNS, st.binary(max_size=400), st.integers(1, 20))
def test_what_was_packed_comes_back(column: str, content: bytes, times: int) -> None:
    packer = Packer()
    content *= times
    code, body = packer.pack(column, content)
    assert packer.unpack(code, body) == content


@given(st.binary(max_size=3000), st.lists(st.tuples(st.integers(0, 3000), st.binary(max_size=20)), max_size=5))
def test_a_difference_leads_from_what_was_to_what_is(before: bytes, edits: list[tuple[int, bytes]]) -> None:
    content = before
    for at, middle in edits:
        content = content[:at] + middle + content[at + 3 :]
    packer = Packer()
    assert packer.changed(before, packer.difference(before, content)) == content


@given(st.lists(st.integers(0, 2**32 - 1), max_size=50))
def test_planes_come_together_again(numbers: list[int]) -> None:
    content = b"".join(number.to_bytes(4, "little") for number in numbers)
    assert unplanes(planes(content)) == content


def test_the_way_goes_by_the_column() -> None:
    packer, numbers = Packer(), b"".join(number.to_bytes(4, "little") for number in range(70_000, 74_096))
    assert packer.pack("deps", b"x" * 4)[0] == PLAIN
    assert packer.pack("results", numbers)[0] == ZSTD
    code, body = packer.pack("deps", numbers)
    assert code == PLANES
    assert len(body) < len(packer.pack("results", numbers)[1]) / 4
    assert packer.pack("deps", b"x" * 1001)[0] == ZSTD


@pytest.mark.parametrize("size", [10_000, 300_000, 5_000_000])
def test_a_difference_costs_what_changed(size: int) -> None:
    """Also where what is the same is far away."""
    before = Random(size).randbytes(size)
    content = b"new" + before[: size // 2] + b"middle" + before[size // 2 :] + b"end"
    assert len(Packer().difference(before, content)) < 200 + size / 5_000


def test_what_the_first_format_packed_is_read() -> None:
    assert Packer().unpack(ZLIB, zlib.compress(b"content", 1)) == b"content"


@pytest.mark.parametrize(
    ("code", "body"),
    [
        (ZLIB, b"nonsense"),
        (ZSTD, b"nonsense"),
        (ZSTD, b""),
        (PLANES, zstandard.compress(b"odd")),
        (9, zstandard.compress(b"four")),
        (ZSTD, zstandard.ZstdCompressor(write_content_size=False).compress(b"of no length")),
        (ZSTD, b"\x28\xb5\x2f\xfd\xe0" + (1 << 60).to_bytes(8, "little") + b"\1\0\0"),
        (ZSTD, None),
    ],
)
def test_nonsense_is_refused(code: int, body: bytes) -> None:
    with pytest.raises(PackingBroken):
        Packer().unpack(code, body)


def test_a_difference_to_something_else_is_refused_or_leads_elsewhere() -> None:
    before, packer = Random(1).randbytes(5000), Packer()
    difference = packer.difference(before, before + b"x")
    with pytest.raises(PackingBroken):
        packer.changed(b"short", difference)
    with pytest.raises(PackingBroken):
        packer.changed(before, difference[:-3])


def test_the_window_fits_what_a_reader_allows() -> None:
    assert 1 << WINDOW_LOG_MAX <= 1 << 27
