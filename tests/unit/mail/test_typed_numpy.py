"""NumPy values: dtype, shape, order and every byte; large arrays by file, without a copy in memory."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest

from actors.protocol.errors import PayloadError, PayloadTooLarge
from runtime.mail.blobs import BlobStore
from runtime.mail.codec import Codec

KEY = "s-1/0-1"
RECORD = np.dtype([("id", "<i8"), ("name", "U5"), ("pos", "<f4", (2,))])
ALIGNED = np.dtype([("a", "u1"), ("b", "<f8")], align=True)
ODD = np.dtype({"names": ["x", "y"], "formats": ["<i2", ">f4"], "offsets": [3, 8], "itemsize": 20})
TITLED = np.dtype({"names": ["x"], "formats": ["<i2"], "titles": ["the x"]})

SCALARS: list[Any] = [
    np.float32(1.1),
    np.float32("nan"),
    np.float64(-0.0),
    np.float16(2),
    np.longdouble(1) / 3,
    np.int8(-5),
    np.uint64(2**64 - 1),
    np.longlong(7),
    np.bool_(True),
    np.complex64(1 - 2j),
    np.datetime64("2024-01-01T00:00:00.000000001"),
    np.datetime64("NaT", "s"),
    np.timedelta64(5, "D"),
    np.timedelta64("NaT", "ms"),
    np.str_("é😀"),
    np.bytes_(b"ab"),
    np.array([(1, "ab", (1, 2))], RECORD)[0],
]
ARRAYS: list[Any] = [
    np.arange(12).reshape(3, 4),
    np.arange(12, dtype=">i4").reshape(3, 4),
    np.asfortranarray(np.arange(12.0).reshape(3, 4)),
    np.arange(24).reshape(2, 3, 4).transpose(1, 0, 2),
    np.arange(20)[::3],
    np.array(5.0),
    np.array([]),
    np.zeros((0, 3), "f4"),
    np.zeros((2, 0, 3), order="F"),
    np.array(["a", "bcd"]),
    np.array(["", ""], dtype="U0"),
    np.array([b"a", b"bc"]),
    np.array(["NaT", "2024-01-01"], dtype="M8[D]"),
    np.array([np.nan, np.inf, -0.0]),
    np.array([1, 2], dtype=np.longlong),
    np.array([(1, "ab", (1, 2)), (2, "", (0, 0))], RECORD),
    np.zeros(3, ALIGNED),
    np.zeros(3, ODD),
    np.zeros(3, TITLED),
    np.ones((2, 2), dtype=bool),
    np.broadcast_to(np.float32(3), (4, 5)),
    np.zeros(3, "V7"),
]


def again(wire: bytes) -> Any:
    return orjson.loads(orjson.dumps(orjson.loads(wire)))


def assert_same_array(a: Any, b: Any) -> None:
    assert type(a) is type(b)
    assert a.dtype == b.dtype
    assert a.dtype.char == b.dtype.char
    assert a.shape == b.shape
    assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize("number", range(len(SCALARS)))
def test_scalars_come_back_the_same(number: int) -> None:
    value = SCALARS[number]
    codec = Codec()
    found = codec.decode(again(codec.encode([value])))[0]
    assert type(found) is type(value)
    assert found.dtype == value.dtype
    assert found.tobytes() == value.tobytes()


@pytest.mark.parametrize("number", range(len(ARRAYS)))
def test_arrays_come_back_the_same(number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    value = ARRAYS[number]
    codec = Codec()
    found = codec.decode(again(codec.encode(value)))
    assert_same_array(found, value)
    assert found.flags.writeable
    monkeypatch.setattr("actors.protocol.limits.PAYLOAD_INLINE_BYTES_MAX", 0)
    stored = Codec(BlobStore(tmp_path, fsync=False))
    assert_same_array(stored.decode(again(stored.encode([value], blob_key=KEY)))[0], value)


def test_the_order_is_kept() -> None:
    codec = Codec()
    for order in "CF":
        value = np.zeros((3, 4), order=order)  # type: ignore[call-overload]
        found = codec.decode(again(codec.encode(value)))
        assert found.flags.c_contiguous == (order == "C")
        assert found.flags.f_contiguous == (order == "F")


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        pytest.param(np.array([object()]), "Python objects", id="an array of objects"),
        (np.array([1, "a", None], dtype=object), "Python objects"),
        (np.zeros(2, [("a", "O")]), "Python objects"),
        (np.ma.masked_array([1], [True]), "MaskedArray has no exact stored form"),
        (np.rec.array([(1,)], dtype=[("a", "i4")]), "recarray"),
        (np.zeros(2, np.dtype("f4", metadata={"unit": "m"})), "metadata"),
        (np.str_("a\0"), "does not come back the same"),
        (np.random.default_rng(1), "has no exact stored form"),
    ],
    ids=str,
)
def test_what_is_not_exact_is_refused(value: Any, reason: str) -> None:
    with pytest.raises(PayloadError, match=reason) as refused:
        Codec().encode({"a": [value]})
    assert refused.value.path == "$['a'][0]"


def test_variable_width_strings_are_refused() -> None:
    with pytest.raises(PayloadError):
        Codec().encode(np.array(["a", "b"], dtype=np.dtypes.StringDType()))


def test_large_arrays_are_mapped_without_a_copy(tmp_path: Path) -> None:
    value = np.arange(2_000_000, dtype="f8").reshape(1000, 2000)
    codec = Codec(BlobStore(tmp_path, fsync=False))
    for sent in (value, value.T):
        tracemalloc.start()
        wire = again(codec.encode(sent, blob_key=KEY))
        found = codec.decode(wire)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 200_000
        assert wire["!"][2] == "npy"
        assert not found.flags.writeable
        assert not found.flags.owndata
        assert found.flags.c_contiguous == sent.flags.c_contiguous
        assert np.array_equal(found, sent)


def test_arrays_inside_containers_are_blobs_and_marshalled_by_nobody(tmp_path: Path) -> None:
    value = np.zeros(1_000_000)
    codec = Codec(BlobStore(tmp_path, fsync=False))
    for around in ([value], {"a": value}, {"a": [value]}, (1, {"w": value}), [1, {"w": value}]):
        tracemalloc.start()
        wire = again(codec.encode(around, blob_key=KEY))
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 200_000
        assert wire["!"][0] == "tree"
        assert len(orjson.dumps(wire)) < 400
        codec.encode_list([around, (around, 1)], blob_key=KEY)


def test_a_mapped_array_survives_its_file(tmp_path: Path) -> None:
    store = BlobStore(tmp_path, fsync=False)
    codec = Codec(store)
    found = codec.decode(again(codec.encode(np.ones(100_000), blob_key=KEY)))
    store.remove_run("s-1")
    assert found.sum() == 100_000


def test_the_limit_is_known_before_anything_is_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    huge = np.broadcast_to(np.zeros(1), (1 << 40,))
    with pytest.raises(PayloadTooLarge, match="8,796,093,022,208 bytes"):
        Codec(BlobStore(tmp_path)).encode([huge], blob_key=KEY)
    with pytest.raises(PayloadTooLarge, match="without a blob store"):
        Codec().encode(huge)


def test_pickle_keeps_large_arrays_out_of_line(tmp_path: Path) -> None:
    codec = Codec(BlobStore(tmp_path, fsync=False))
    value = {1: np.arange(100_000.0), "o": np.array([None, 1], dtype=object)}
    wire = again(codec.encode(value, pickle=True, blob_key=KEY))
    assert wire["!"][2] == "pickle"
    found = codec.decode(wire)
    assert np.array_equal(found[1], value[1])
    assert not found[1].flags.owndata
    assert found["o"].tolist() == [None, 1]


def test_numpy_is_not_imported_for_programs_without_it() -> None:
    code = (
        "import sys; from runtime.mail.codec import Codec; Codec().encode([(1, b'x')]); print('numpy' in sys.modules)"
    )
    folder = Path(__file__).parents[3]
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
