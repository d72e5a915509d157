"""Pins: what a value needs is open before its file goes, wherever in the value it is, and nothing else is touched."""

from __future__ import annotations

import gc
from collections import OrderedDict, deque
from pathlib import Path
from typing import Any

import orjson
import pytest

from actors.protocol import limits
from runtime.mail.blobs import BlobStore
from runtime.mail.codec import Codec
from runtime.mail.pins import MARK, Pins
from tests.unit.mail.values import Frozen, Point, same

LARGE = b"x" * 70_000
VALUES: list[Any] = [
    LARGE,
    bytearray(LARGE),
    "y" * 70_000,
    ["word"] * 30_000,
    [1, {"deep": (LARGE, [LARGE])}],
    {1: LARGE, "two": 2},
    (LARGE, Point(LARGE, 1), Frozen({"a": LARGE})),
    OrderedDict(a=LARGE),
    deque([LARGE], maxlen=3),
]


@pytest.fixture
def store(tmp_path: Path) -> BlobStore:
    return BlobStore(tmp_path / "blobs", fsync=False)


def wire(store: BlobStore, value: Any) -> Any:
    return orjson.loads(Codec(store).encode(value, blob_key="run-1/0-1"))


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_a_pinned_value_is_read_after_its_file_is_gone(store: BlobStore, value: Any) -> None:
    held = [wire(store, value), 5, "text"]
    assert MARK in orjson.dumps(held)
    Pins(store).pin(held)
    store.remove_run("run-1")
    assert same(Codec(store).decode_list(held), [value, 5, "text"])


def test_lists_that_look_like_a_name_are_left_alone(store: BlobStore) -> None:
    values: list[Any] = [
        ["blob", "a/b", "bytes", 3, 1],
        {"!": ["blob", "a/b", "bytes", 3, 1]},
        ("blob", "a/b", {1}),
        [("t", ["blob", "x"]), {"blob": ["blob"]}],
    ]
    held = [wire(store, value) for value in values]
    before = orjson.dumps(held)
    Pins(store).pin(held)
    assert orjson.dumps(held) == before
    assert same(Codec(store).decode_list(held), values)


def test_a_file_that_cannot_be_opened_keeps_its_name(store: BlobStore) -> None:
    held = [wire(store, LARGE)]
    name = held[0]["!"][1]
    store.remove_run("run-1")
    Pins(store).pin(held)
    assert held[0]["!"][1] == name


def test_not_more_are_held_than_the_limit_and_none_after_they_were_read(
    store: BlobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "PINNED_FILES_MAX", 3)
    pins, held = Pins(store), [wire(store, [LARGE] * 2) for _ in range(4)]
    pins.pin(held)
    assert len(pins) == 3
    assert Codec(store).decode_list(held) == [[LARGE] * 2] * 4
    held.clear()
    gc.collect()
    assert len(pins) == 0
    pins.pin([wire(store, LARGE)])
