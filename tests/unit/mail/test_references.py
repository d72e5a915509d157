"""Which blobs a stored value names: all of them, and nothing that only looks like one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from runtime.mail.blobs import BlobStore
from runtime.mail.codec import Codec
from runtime.mail.references import BlobRef, blobs_in, values_of

LARGE = b"x" * 200_000


def names(store: BlobStore, wire: bytes) -> list[BlobRef]:
    return list(blobs_in(orjson.loads(wire), lambda ref: store.read(ref.name, ref.size, ref.checksum)))


@pytest.mark.parametrize(
    "value",
    [
        LARGE,
        [LARGE, (1, {2: LARGE}), {"deep": [bytearray(LARGE)]}],
        ["word" * 30_000],
        [{1, 2, 3}, {"a": (LARGE, [str(i) for i in range(30_000)])}],
        [(i, LARGE[: i + 1]) for i in range(400)],
        {"!": ["blob", "a/b", "bytes", 1, 2]},
    ],
)
def test_it_names_the_files_that_were_written(value: Any, tmp_path: Path) -> None:
    store = BlobStore(tmp_path / "blobs", fsync=False)
    wire = Codec(store).encode(value, blob_key="run/0-1")
    written = {str(path.relative_to(store.folder)) for path in store.folder.rglob("*") if path.is_file()}
    assert {ref.name for ref in names(store, wire)} == written


@pytest.mark.parametrize(
    "value",
    [
        ["blob", "run/0", "bytes", 1, 2],
        (["blob", "run/0", "bytes", 1, 2],),
        [{"!": ["blob", "run/0", "bytes", 1, 2]}] * 20,
        {1: ["blob", "run/0", "bytes", 1, 2]},
        ('["blob","run/0","bytes",1,2]', {3}),
        (["blob"] * 9, {"x": ["blob", "run/0", "bytes", 1, 2] * 9}),
    ],
)
def test_what_a_user_stores_is_not_taken_for_a_blob(value: Any) -> None:
    wire = Codec().encode(value)
    assert list(blobs_in(orjson.loads(wire), lambda ref: None)) == []


def test_a_broken_value_names_nothing() -> None:
    for wire in (
        {"!": []},
        {"!": 3},
        {"!": ["tree"]},
        {"!": ["tree", "{"]},
        {"!": ["blob", "a"]},
        {"!": ["blob", 1] * 5},
    ):
        assert list(blobs_in(wire, lambda ref: None)) == []


def test_the_values_of_an_item_by_its_shape() -> None:
    one: Any = {"!": ["blob"]}
    assert values_of("one", [one]) == [[one]]
    assert values_of("args", [one, 2]) == [one, 2]
    assert values_of("call", [[1, one], {"name": 3}]) == [1, one, 3]
    assert values_of("template", [[1], {}]) == [1]
    assert values_of("mixed", [[None, one], [0]]) == [None, one]
    assert values_of("parents", one) == values_of("args", None) == values_of("call", []) == values_of("mixed", []) == []
