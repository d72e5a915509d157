"""Typed leaves: values without parts that plain JSON does not hold, one writer and one reader per type.

A leaf is a JSON array `[code, data...]`. Codes are persisted: append only.

    f   NaN, infinity       hex of the big-endian IEEE 754 bits (keeps the payload of a NaN)
    i   int beyond 64 bit   hex text, because decimal text is limited to 4,300 digits
    u   str                 base64 of UTF-8 with lone surrogates passed
    c   complex             real, imaginary
    dt  datetime            ISO text without zone, fold, zone
    da  date                ISO text
    ti  time                ISO text without zone, fold, zone
    td  timedelta           days, seconds, microseconds
    tz  timezone            timedelta, name or null
    zi  ZoneInfo            key
    dc  Decimal             its text
    fr  Fraction            numerator, denominator
    uu  UUID                hex, is_safe or absent
    r   range               start, stop, step
    p   pure and real path  class name, text
    e   enum member         class name, member name; or null and the value of a composed flag
    x   Ellipsis, NotImplemented

Exact types only: a subclass may carry what is not known here. Writers are free of context and state.
"""

from __future__ import annotations

import binascii
import math
import struct
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from pathlib import PosixPath, PurePosixPath, PureWindowsPath, WindowsPath
from types import EllipsisType, MappingProxyType, NotImplementedType
from typing import Any, Final
from uuid import UUID, SafeUUID
from zoneinfo import ZoneInfo

from actors.protocol.errors import PayloadUnreadable
from runtime.mail.names import find, name_of
from runtime.mail.refusal import Refused

Node = Any
"""A JSON value of the typed tree: a scalar, an object (dict with string keys), or an array that starts with a code."""

INT_MIN: Final = -(1 << 63)
INT_MAX: Final = (1 << 64) - 1
"""What orjson writes and reads as an integer."""
_DOUBLE: Final = struct.Struct(">d")
_PATHS: Final[Mapping[str, type]] = MappingProxyType(
    {kind.__name__: kind for kind in (PurePosixPath, PosixPath, PureWindowsPath, WindowsPath)}
)
_SINGLETONS: Final[Mapping[str, Any]] = MappingProxyType({"...": ..., "NotImplemented": NotImplemented})


def base64_text(data: Any) -> str:
    """Base64 of a buffer. Not base85: Python writes that a hundred times more slowly for a twentieth fewer bytes."""
    return binascii.b2a_base64(data, newline=False).decode("ascii")


def integer(value: int) -> Node:
    return value if INT_MIN <= value <= INT_MAX else ["i", f"{value:x}"]


def number(value: float) -> Node:
    return value if math.isfinite(value) else ["f", _DOUBLE.pack(value).hex()]


def is_text(value: str) -> bool:
    """Whether JSON text can hold the string: it has no lone surrogates."""
    if value.isascii():
        return True
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def string(value: str) -> Node:
    return value if is_text(value) else ["u", base64_text(value.encode("utf-8", "surrogatepass"))]


def _same(value: Any) -> Node:
    return value


def _complex(value: complex) -> Node:
    return ["c", number(value.real), number(value.imag)]


def _zone(zone: tzinfo | None) -> Node:
    if zone is None:
        return None
    if type(zone) is timezone:
        delta, *name = zone.__getinitargs__()  # type: ignore[attr-defined]  # what its pickle is made of
        return ["tz", _timedelta(delta), string(name[0]) if name else None]
    if type(zone) is ZoneInfo:
        if zone.key is None:
            raise Refused("its ZoneInfo was read from a file and has no key")
        return ["zi", zone.key]
    raise Refused(f"its time zone is of type {type(zone).__qualname__}; only timezone and ZoneInfo are stored")


def _datetime(value: datetime) -> Node:
    return ["dt", value.replace(tzinfo=None).isoformat(), value.fold, _zone(value.tzinfo)]


def _time(value: time) -> Node:
    return ["ti", value.replace(tzinfo=None).isoformat(), value.fold, _zone(value.tzinfo)]


def _timedelta(value: timedelta) -> Node:
    return ["td", value.days, value.seconds, value.microseconds]


def _uuid(value: UUID) -> Node:
    return ["uu", value.hex] if value.is_safe is SafeUUID.unknown else ["uu", value.hex, value.is_safe.value]


def _path(value: PurePosixPath | PureWindowsPath) -> Node:
    return ["p", type(value).__name__, string(str(value))]


def enum_member(value: Enum) -> Node:
    """A member by name; a composed flag by its number.

    Raises:
        Refused: The class has no importable name, or the value is not one of its members.
    """
    kind = type(value)
    name = name_of(kind)
    if kind.__members__.get(value._name_ or "") is value:
        return ["e", name, value._name_]
    number_ = value._value_
    if type(number_) is int and _called(kind, number_) is value:
        return ["e", name, None, integer(number_)]
    raise Refused(f"{kind.__qualname__} has no such member any more")


def _called(kind: type[Enum], value: Any) -> Enum | None:
    try:
        return kind(value)
    except ValueError:
        return None


LEAF_WRITERS: Final[Mapping[type, Callable[[Any], Node]]] = MappingProxyType(
    {
        str: string,
        int: integer,
        float: number,
        bool: _same,
        type(None): _same,
        complex: _complex,
        datetime: _datetime,
        date: lambda v: ["da", v.isoformat()],
        time: _time,
        timedelta: _timedelta,
        timezone: _zone,
        ZoneInfo: _zone,
        Decimal: lambda v: ["dc", str(v)],
        Fraction: lambda v: ["fr", integer(v.numerator), integer(v.denominator)],
        UUID: _uuid,
        range: lambda v: ["r", integer(v.start), integer(v.stop), integer(v.step)],
        **dict.fromkeys(_PATHS.values(), _path),
        EllipsisType: lambda v: ["x", "..."],
        NotImplementedType: lambda v: ["x", "NotImplemented"],
    }
)


# --- reading ------------------------------------------------------------------------------------------------------


def read_leaf(node: Node) -> Any:
    """The value of a scalar or leaf node."""
    return LEAF_READERS[node[0]](node) if type(node) is list else node


def _read_datetime(node: Node) -> datetime:
    return datetime.fromisoformat(node[1]).replace(fold=node[2], tzinfo=read_leaf(node[3]))


def _read_time(node: Node) -> time:
    return time.fromisoformat(node[1]).replace(fold=node[2], tzinfo=read_leaf(node[3]))


def _read_timezone(node: Node) -> timezone:
    delta = read_leaf(node[1])
    return timezone(delta) if node[2] is None else timezone(delta, read_leaf(node[2]))


def _read_uuid(node: Node) -> UUID:
    return UUID(hex=node[1], is_safe=SafeUUID(node[2]) if len(node) > 2 else SafeUUID.unknown)


def _read_enum(node: Node) -> Enum:
    kind = find(node[1])
    if not (isinstance(kind, type) and issubclass(kind, Enum)):
        raise PayloadUnreadable(f"{node[1]} was an Enum when the value was stored")
    try:
        return kind[node[2]] if node[2] is not None else kind(read_leaf(node[3]))
    except (KeyError, ValueError):
        raise PayloadUnreadable(f"{node[1]} has no member {node[2] or node[3]} any more") from None


LEAF_READERS: Final[Mapping[str, Callable[[Node], Any]]] = MappingProxyType(
    {
        "f": lambda n: _DOUBLE.unpack(bytes.fromhex(n[1]))[0],
        "i": lambda n: int(n[1], 16),
        "u": lambda n: binascii.a2b_base64(n[1]).decode("utf-8", "surrogatepass"),
        "c": lambda n: complex(read_leaf(n[1]), read_leaf(n[2])),
        "dt": _read_datetime,
        "da": lambda n: date.fromisoformat(n[1]),
        "ti": _read_time,
        "td": lambda n: timedelta(n[1], n[2], n[3]),
        "tz": _read_timezone,
        "zi": lambda n: ZoneInfo(n[1]),
        "dc": lambda n: Decimal(n[1]),
        "fr": lambda n: Fraction(read_leaf(n[1]), read_leaf(n[2])),
        "uu": _read_uuid,
        "r": lambda n: range(read_leaf(n[1]), read_leaf(n[2]), read_leaf(n[3])),
        "p": lambda n: _PATHS[n[1]](read_leaf(n[2])),
        "e": _read_enum,
        "x": lambda n: _SINGLETONS[n[1]],
    }
)
