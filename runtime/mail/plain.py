"""Whether plain JSON holds a value exactly, found out at C speed.

`orjson.dumps` is quick but generous: it writes tuples as lists, NaN as null, enum members and dates as their values.
Comparing the decoded text with the value would see most of that, but costs three times the encoding, and what compares
equal (an `IntEnum` member and its number) slips through. Instead:

1. `marshal.dumps` refuses every subclass of a builtin type, every enum member and every object, except those that
   export a buffer, which it writes as bytes.
2. `orjson.dumps`, asked to pass no subclass, refuses sets, bytes, integers beyond 64 bits, lone surrogates, keys that
   are no strings, and all objects but enum members.
3. What both accept is exact, except tuples, NaN and infinities, and enum members that export a buffer. Each has a mark
   in marshal's output: its type byte and what must follow. Members are never written without the flag for "may be
   referred to again", because their class refers to them. Searching for the type byte is a `memchr`; marks also occur
   by accident, inside texts and numbers, so a find is only a suspicion.
4. A suspicion is decided by comparing the marshalled forms of the value and of the decoded text, in the version without
   references: these are equal byte for byte only if all types and values are.

The order matters: orjson does not count the depth of tuples, and a deep or cyclic one would overrun the stack and end
the process. It is given only what is known to be acyclic and to hold no tuple, or so few that they cannot be deep.
Values with very many suspicions are left to the typed tree, which holds all that plain JSON holds.

Lists and dicts of scalars need none of that: the types of their items are quicker to look at, and orjson refuses all
keys that are not exactly `str`.

Measured (CPython 3.11, batches of 256): integers 22 ns, lists of three 140 ns, dicts of three 235 ns per value for
encoding and proof together; with a bare comparison as proof 200 and 360, and enum members would slip through.

Marshal format: version 4, written since Python 3.4; the properties used here are asserted by the tests.
"""

from __future__ import annotations

import marshal
import re
from collections.abc import Mapping
from itertools import islice
from types import MappingProxyType
from typing import Any, Final

import orjson

from actors.protocol import limits

SCALARS: Final = frozenset({str, int, float, bool, type(None)})
"""Types that JSON holds exactly, up to values: see `scalars_text`."""
PLAIN: Final = SCALARS | {list, dict}
EXTENSION: Final = "!"
"""The single key of an object that stands for something else, see `codec`."""
_LOOKS_MAX: Final = 4

_VERSION: Final = 4
_COMPARABLE_VERSION: Final = 2
_STRICT: Final = orjson.OPT_PASSTHROUGH_SUBCLASS | orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME
_LONG: Final = 1 << 24
"""Lengths from here on have a last byte that is not zero."""
_TUPLES_MAX: Final = 200
_FINDS_MAX: Final = 8
"""Finds of a type byte that are looked at one by one, before its mark is searched for."""
_NOT_FINITE: Final = re.compile(rb"g(?s:.{6})[\xf0-\xff][\x7f\xff]").search
_NOT_FINITE_SHARED: Final = re.compile(rb"\xe7(?s:.{6})[\xf0-\xff][\x7f\xff]").search


def plain_text(value: Any) -> bytes | None:
    """JSON text of a list or dict, or None when plain JSON does not hold it exactly."""
    kinds = set(map(type, value.values() if type(value) is dict else value))
    return scalars_text(value, kinds) if kinds <= SCALARS else nested_text(value, kinds)


def nested_text(value: Any, kinds: set[type]) -> bytes | None:
    """As `plain_text`, for what does not hold scalars only. A marshalled copy lives for the time of the call.

    Args:
        value: A list or dict.
        kinds: Types of its items.
    """
    if not kinds <= PLAIN:
        return None
    try:
        if not _looks_plain(value):
            return None
        marshalled = marshal.dumps(value, _VERSION)
        if not _suspicious(marshalled):
            text = orjson.dumps(value, None, _STRICT)
            if not _holds_infinite(marshalled, text):
                return text
        # Without references marshal refuses cycles. A few tuples are no danger to the stack.
        marshalled = marshal.dumps(value, _COMPARABLE_VERSION)
        if sum(1 for _ in islice(_OLD_TUPLE.finditer(marshalled), _TUPLES_MAX)) == _TUPLES_MAX:
            return None
        text = orjson.dumps(value, None, _STRICT)
        return text if marshal.dumps(orjson.loads(text), _COMPARABLE_VERSION) == marshalled else None
    except (TypeError, ValueError, RuntimeError):  # RuntimeError: too deep, or changed by another thread meanwhile
        return None


def _looks_plain(value: Any) -> bool:
    """A look one level down, so that large arrays and bytes are not marshalled only to be refused afterwards."""
    for item in islice(value.values() if type(value) is dict else value, _LOOKS_MAX):
        kind = type(item)
        if kind is dict or kind is list:
            inner = item.values() if kind is dict else item
            if not set(map(type, islice(inner, _LOOKS_MAX))) <= PLAIN:
                return False
    return True


def scalar_text(value: Any) -> bytes | None:
    """JSON text of a scalar, or None when it is not exact."""
    try:
        text = orjson.dumps(value)
    except TypeError:  # an integer beyond 64 bits, or a lone surrogate
        return None
    return None if text == b"null" and value is not None else text


def scalars_text(values: Any, kinds: set[type]) -> bytes | None:
    """JSON text of a list, tuple or dict of scalars whose types are `kinds`, or None when it is not exact."""
    try:
        text = orjson.dumps(values)
    except TypeError:  # an integer beyond 64 bits, or a lone surrogate
        return None
    # NaN and infinities become null, which is not equal to them; without a null in the text there was none.
    if float in kinds and b"null" in text:
        again = orjson.loads(text)
        if again != (values if type(values) is dict else list(values)):
            return None
    return text


def is_shallow(value: Any, text: bytes, containers: int) -> bool:
    """Whether no container of `value` is nested deeper than PAYLOAD_DEPTH_MAX.

    Args:
        value: What was encoded.
        text: Its JSON text.
        containers: How many containers lie side by side in it; they cannot make depth.
    """
    depth = limits.PAYLOAD_DEPTH_MAX
    if len(text) < 2 * depth or text.count(b"[") + text.count(b"{") <= depth + containers:
        return True
    for _ in range(_ORJSON_DEPTH_MAX - depth):
        value = [value]
    try:
        orjson.dumps(value)
    except TypeError:
        return False
    return True


def exact_text(value: Any) -> bytes | None:
    """JSON text of a plain value of any size, or None when plain JSON does not hold it exactly."""
    kind = type(value)
    if kind is list or kind is dict:
        return plain_text(value)
    return scalar_text(value) if kind in SCALARS else None


def may_stay(value: Any, text: bytes) -> bool:
    """Whether a plain value goes as it is: it is small, not deep, and does not look like an extension."""
    kind = type(value)
    if kind is not list and kind is not dict:
        return len(text) <= limits.PAYLOAD_INLINE_BYTES_MAX
    if len(text) > limits.PAYLOAD_OPAQUE_BYTES_MIN or (kind is dict and len(value) == 1 and EXTENSION in value):
        return False
    return is_shallow(value, text, 0)


_ORJSON_DEPTH_MAX: Final = 254
"""Nesting at which `orjson.dumps` stops; asserted by the tests."""


def _suspicious(marshalled: bytes) -> bool:
    """Whether the marshalled form may hold a tuple, or a buffer that its class refers to."""
    marks = _MARKS if len(marshalled) < _LONG else _marks(min(len(marshalled) >> 24, 0xFF))
    # A loop, because a generator for any() costs more than all of this.
    for byte in _MARKED:  # noqa: SIM110
        if byte in marshalled and _holds(marks, byte, marshalled):
            return True
    return False


def _holds_infinite(marshalled: bytes, text: bytes) -> bool:
    """Whether there may be a NaN or an infinity: a float, and a null in the text, and a float with such an exponent."""
    if 103 not in marshalled and 0xE7 not in marshalled:
        return False
    return b"null" in text and bool(_NOT_FINITE(marshalled) or _NOT_FINITE_SHARED(marshalled))


def _holds(marks: _Marks, byte: int, marshalled: bytes) -> bool:
    """Whether a mark occurs. Going from find to find is quicker than a search while there are few."""
    mark = marks[byte]
    at = marshalled.find(byte)
    for _ in range(_FINDS_MAX):
        if mark.match(marshalled, at):
            return True
        at = marshalled.find(byte, at + 1)
        if at < 0:
            return False
    return mark.search(marshalled, at) is not None


def _marks(last_byte_max: int) -> _Marks:
    """The patterns by type byte.

    Args:
        last_byte_max: Largest last byte (of four) that a length or a reference can have.
    """
    length = rb"...[\x00-" + re.escape(bytes((last_byte_max,))) + rb"]"

    def either(codes: bytes) -> bytes:
        return b"[" + re.escape(codes + bytes(code | 0x80 for code in codes)) + b"]"

    item = b"|".join(
        (
            either(b"NTF{"),
            either(b"i") + b"....",
            either(b"g") + b"........",
            either(b"l") + rb".(?:\x00\x00\x00|\xff\xff\xff)",
            either(b"zZ)") + b".",
            either(b"aAut([rs") + length,
        )
    )
    following = either(b"NTFiglzZaAut()[{rs0") + rb"|\Z"
    small = rb"(?:\x00(?:" + following + rb")|[^\x00](?:" + item + b"))"
    parts = ((b")", small), (b"(", length + b"(?:" + item + b")"), (b"s", length))
    return {
        byte: re.compile(re.escape(bytes((byte,))) + rest, re.DOTALL)
        for code, rest in parts
        for byte in (code[0], code[0] | 0x80)
    }


_Marks = Mapping[int, re.Pattern[bytes]]
_MARKS: Final = MappingProxyType(_marks(0))
_MARKED: Final = (0x29, 0xA9, 0x28, 0xA8, 0xF3)
"""Short tuples, tuples of 256 items and more, buffers; those with the eighth bit may be referred to again."""
_OLD_TUPLE: Final = re.compile(rb"\((?s:...)\x00")
"""A tuple in the version without references."""
