"""Protocol buffers by hand: the few shapes that pprof needs, see https://protobuf.dev/programming-guides/encoding.

A message is a row of fields, each a key (number and shape) and a value; numbers are written seven bits a byte. Shapes
are 0 (a number), 1 (eight bytes), 2 (bytes with their length: texts, messages, packed numbers) and 5 (four bytes).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

NUMBER: Final = 0
BYTES: Final = 2
_FIXED: Final = {1: 8, 5: 4}
_MASK: Final = (1 << 64) - 1


def varint(value: int) -> bytes:
    """A number; a negative one as its two's complement, ten bytes."""
    value &= _MASK
    if value < 0x80:
        return bytes((value,))
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def number(field: int, value: int) -> bytes:
    """A field with a number; nothing for 0, which is what a missing one means."""
    return varint(field << 3) + varint(value) if value else b""


def blob(field: int, content: bytes) -> bytes:
    """A field with bytes, a text or a message; an empty one is there, too."""
    return varint(field << 3 | BYTES) + varint(len(content)) + content


def packed(field: int, values: Iterable[int]) -> bytes:
    """A field with many numbers."""
    content = b"".join(map(varint, values))
    return blob(field, content) if content else b""


def read_varint(content: bytes, at: int) -> tuple[int, int]:
    """The number at a place, and the place behind it.

    Raises:
        ValueError: It does not end, or is longer than a number can be.
    """
    value = shift = 0
    while True:
        if at >= len(content) or shift > 63:
            raise ValueError("a number does not end")
        byte = content[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & _MASK, at
        shift += 7


def fields(content: bytes) -> Iterator[tuple[int, int, int | bytes]]:
    """Fields of a message: number, shape, value.

    Raises:
        ValueError: It is no message.
    """
    at = 0
    while at < len(content):
        key, at = read_varint(content, at)
        field, shape = key >> 3, key & 7
        if shape == NUMBER:
            value, at = read_varint(content, at)
            yield field, shape, value
            continue
        if shape == BYTES:
            size, at = read_varint(content, at)
        elif shape in _FIXED:
            size = _FIXED[shape]
        else:
            raise ValueError(f"a field of shape {shape}")
        if at + size > len(content) or not field:
            raise ValueError("a field does not end")
        yield field, shape, content[at : at + size]
        at += size


def numbers(shape: int, value: int | bytes) -> list[int]:
    """Numbers of a field that may be packed or not."""
    if isinstance(value, int):
        return [value]
    if shape != BYTES:
        raise ValueError(f"numbers of shape {shape}")
    found, at = [], 0
    while at < len(value):
        one, at = read_varint(value, at)
        found.append(one)
    return found


def signed(value: int) -> int:
    """A number that may be negative."""
    return value - (1 << 64) if value >> 63 else value
