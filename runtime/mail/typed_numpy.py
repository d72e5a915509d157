"""NumPy scalars and arrays as nodes, without ever importing NumPy for a program that does not use it.

    ns  scalar          dtype, base64 of its bytes
    na  small array     dtype, shape, order, base64 of its bytes
    blob ... "npy"      dtype, shape, order; the file is the raw memory (no header: the node is the header)

A dtype is its string form (`"<f4"`, `"<M8[ns]"`), or for structured types an object with names, formats, offsets,
titles and item size, or `[base, shape]` for sub-arrays. It is written only if it leads back to the same dtype.

What comes back: equal bytes, dtype, shape and order (C, or Fortran where the array was only that). Small arrays are
writable; arrays from a blob are read-only views of the mapping and cost no copy. Arrays that are neither C- nor
Fortran-contiguous are copied to C order. Refused: object and variable-width string dtypes, subclasses such as masked
arrays and matrices, dtypes with metadata.
"""

from __future__ import annotations

import binascii
import sys
from typing import Any, Final

from actors.protocol import limits
from actors.protocol.errors import PayloadUnreadable
from runtime.mail.blobs import Spill
from runtime.mail.leaves import Node, base64_text
from runtime.mail.refusal import Refused, refuse_large_without_store

MODULE: Final = "numpy"
_KINDS: Final = frozenset("biufcmMSUV")


def write(value: Any, spill: Spill | None) -> Node:
    """The node of a NumPy scalar or array.

    Args:
        value: Its type's module is numpy.
        spill: Takes large arrays out of line.

    Raises:
        Refused: Its type or dtype is not stored exactly, or it is too large.
    """
    np = sys.modules[MODULE]
    kind = type(value)
    if kind is np.ndarray:
        return _write_array(np, value, spill)
    if isinstance(value, np.generic):
        return _write_scalar(np, value)
    raise Refused(f"numpy.{kind.__qualname__} is not stored exactly; only plain arrays and scalars are")


def _write_scalar(np: Any, value: Any) -> Node:
    node = ["ns", _dtype_node(np, value.dtype), base64_text(value.tobytes())]
    again = read_scalar(node)
    if type(again) is not type(value) or again.tobytes() != value.tobytes():
        raise Refused(f"this numpy.{type(value).__qualname__} does not come back the same")
    return node


def _write_array(np: Any, value: Any, spill: Spill | None) -> Node:
    dtype = _dtype_node(np, value.dtype)
    bytes_ = value.nbytes
    order = "F" if value.flags.f_contiguous and not value.flags.c_contiguous else "C"
    shape = list(value.shape)
    if spill is not None and bytes_ > limits.PAYLOAD_INLINE_BYTES_MAX:
        spill.refuse_over_limit(bytes_)  # before a copy of an array that is not contiguous
        return spill.write("npy", [_memory(np, value, order)], dtype, shape, order)
    refuse_large_without_store(bytes_)
    return ["na", dtype, shape, order, base64_text(value.tobytes(order))]


def _memory(np: Any, value: Any, order: str) -> Any:
    """The array's memory as bytes, without a copy if it is contiguous. For arrays that are not empty."""
    return np.ascontiguousarray(value.T if order == "F" else value).reshape(-1).view(np.uint8)


def read_scalar(node: Node) -> Any:
    np = _numpy()
    return np.ndarray((), _dtype(np, node[1]), binascii.a2b_base64(node[2]))[()]


def read_array(node: Node) -> Any:
    _, dtype, shape, order, text = node
    np = _numpy()
    return np.ndarray(tuple(shape), _dtype(np, dtype), bytearray(binascii.a2b_base64(text)), 0, None, order)


def read_blob(view: memoryview, dtype: Node, shape: list[int], order: str) -> Any:
    """A read-only array over the mapped file."""
    np = _numpy()
    return np.ndarray(tuple(shape), _dtype(np, dtype), view, 0, None, order)


def _numpy() -> Any:
    try:
        import numpy  # lazy: only where a value needs it; NumPy is no dependency of ours
    except ImportError as missing:
        raise PayloadUnreadable("NumPy is needed to read a value, but cannot be imported") from missing
    return numpy


def _dtype_node(np: Any, dtype: Any) -> Node:
    if dtype.hasobject:
        raise Refused(f"dtype {dtype} holds Python objects; use a list, or a dtype of fixed size")
    if dtype.metadata:
        raise Refused(f"dtype {dtype} carries metadata, which would be lost")
    node = _dtype_parts(np, dtype)
    again = _dtype(np, node)
    if again != dtype or again.char != dtype.char or again.isalignedstruct != dtype.isalignedstruct:
        raise Refused(f"dtype {dtype} does not come back the same")
    return node


def _dtype_parts(np: Any, dtype: Any) -> Node:
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        return [_dtype_node(np, base), list(shape)]
    if dtype.names is not None:
        fields = [dtype.fields[name] for name in dtype.names]
        titles = [field[2] if len(field) > 2 else None for field in fields]
        if any(title is not None and type(title) is not str for title in titles):
            raise Refused(f"dtype {dtype} has titles that are no strings")
        return {
            "names": list(dtype.names),
            "formats": [_dtype_node(np, field[0]) for field in fields],
            "offsets": [field[1] for field in fields],
            "titles": titles,
            "itemsize": dtype.itemsize,
            "aligned": dtype.isalignedstruct,
        }
    if dtype.kind not in _KINDS:
        raise Refused(f"dtype {dtype} has no fixed size")
    text: str = dtype.str
    # C types of the same size, such as long and long long, are different scalar types with one string form.
    return text if np.dtype(text).char == dtype.char else text[0].replace("|", "") + dtype.char


def _dtype(np: Any, node: Node) -> Any:
    if type(node) is str:
        return np.dtype(node)
    if type(node) is list:
        return np.dtype((_dtype(np, node[0]), tuple(node[1])))
    spec = {**node, "formats": [_dtype(np, part) for part in node["formats"]]}
    return np.dtype(spec)
