"""The decisions on the way out: what goes by one call, what by itself, what as a string, what as a blob."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from actors.protocol import limits
from actors.protocol.errors import DiskFull, PayloadError
from runtime.mail.blobs import BlobStore
from runtime.mail.encoding import Encoding
from tests.unit.mail.values import Plain

KEY = "s-1/0-1"


class Changing(dict):  # type: ignore[type-arg]
    pass


def test_long_lists_go_in_blocks_and_nothing_large_hides_in_them(tmp_path: Path) -> None:
    encoding = Encoding(BlobStore(tmp_path, fsync=False), KEY, False)
    values: list[Any] = [{"n": n} for n in range(3000)]
    assert encoding.list_text(values) == orjson.dumps(values)
    values[1500] = {"text": "x" * 70_000}
    values[2900] = (1,)
    wires = orjson.loads(encoding.list_text(values))
    assert wires[1500]["!"][0] == "blob"
    assert wires[2900] == {"!": ["tree", ["T", [1]]]}
    assert wires[:1500] == values[:1500]
    assert wires[1501:2900] == values[1501:2900]
    values[2950] = Plain()
    with pytest.raises(PayloadError) as refused:
        encoding.list_text(values)
    assert refused.value.path == "[2950]"


def test_a_list_is_put_together_from_both(tmp_path: Path) -> None:
    encoding = Encoding(BlobStore(tmp_path, fsync=False), KEY, False)
    values = [1, {"a": 1}, (1, 2), ("x", [1]), 2**70, "é" * 3000, b"x" * 100_000, {"!": 1}, None, 2.5, float("inf")]
    wires = orjson.loads(encoding.list_text(values))
    assert wires[:2] == [1, {"a": 1}]
    assert [w["!"][0] for w in (*wires[2:5], *wires[6:8], wires[10])] == [
        "tree",
        "tree",
        "tree",
        "blob",
        "json",
        "tree",
    ]
    assert wires[5] == "é" * 3000
    assert wires[8:10] == [None, 2.5]
    encoding.undo()
    assert list((tmp_path / "s-1").iterdir()) == []


def test_faults_of_the_disk_pass_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = BlobStore(tmp_path)

    def full(*_: Any) -> str:
        raise DiskFull("full")

    monkeypatch.setattr(store, "write", full)
    with pytest.raises(DiskFull):
        Encoding(store, KEY, False).text("x" * 100_000, "$")


def test_faults_of_the_value_are_refusals(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(thing: object) -> int | None:
        raise ZeroDivisionError("in user code")

    with pytest.raises(PayloadError, match="ZeroDivisionError: in user code") as refused:
        Encoding(None, "", False, broken).text([Plain()], "args[0]")
    assert refused.value.path == "args[0]"


def test_thresholds_are_exact(tmp_path: Path) -> None:
    encoding = Encoding(BlobStore(tmp_path, fsync=False), KEY, False)
    opaque, inline = limits.PAYLOAD_OPAQUE_BYTES_MIN, limits.PAYLOAD_INLINE_BYTES_MAX
    assert encoding.text(["x" * (opaque - 4)], "$")[:1] == b"["
    assert encoding.text(["x" * (opaque - 3)], "$")[:8] == b'{"!":["j'
    assert encoding.text("x" * (inline - 2), "$")[:2] == b'"x'
    assert encoding.text("x" * (inline - 1), "$")[:8] == b'{"!":["b'
