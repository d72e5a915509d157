"""Classes and values that the tests of the codec share, and a comparison that sees types, NaN, order and sign.

They live at the top level of an importable module, because that is what the codec asks of classes.
"""

from __future__ import annotations

import math
import struct
from array import array
from collections import Counter, OrderedDict, defaultdict, deque
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, Flag, IntEnum, IntFlag, StrEnum, auto
from fractions import Fraction
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, NamedTuple
from uuid import UUID, uuid1
from zoneinfo import ZoneInfo


class Colour(Enum):
    RED = 1
    BLUE = "blue"
    PAIR = (1, 2)
    ALIAS = 1  # noqa: PIE796  # an alias is meant


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Word(StrEnum):
    YES = "yes"


class Right(Flag):
    READ = auto()
    WRITE = auto()


class Bits(IntFlag):
    A = 1
    B = 2


class ByteMember(bytes, Enum):
    """Exports a buffer and has a value that JSON holds: the case that escapes both marshal and orjson."""

    _value_: int

    def __new__(cls, number: int) -> ByteMember:
        member = bytes.__new__(cls, b"x")
        member._value_ = number
        return member

    ONE = 1

    def __repr__(self) -> str:
        return f"ByteMember.{self._name_}"


class Outer:
    class Inner(Enum):
        X = "x"


class Point(NamedTuple):
    x: Any
    y: Any = 0


@dataclass
class Row:
    name: Any
    values: list[Any] = field(default_factory=list)


@dataclass(frozen=True)
class Frozen:
    a: Any
    b: Any = None


@dataclass(frozen=True, slots=True)
class Slotted:
    a: Any
    b: Any = None


@dataclass
class Strict:
    """Its constructor refuses what its instances may hold later, and counts its calls."""

    a: int
    doubled: int = field(init=False)
    calls: Any = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if self.a < 0:
            raise ValueError("negative")
        self.doubled = 2 * self.a


@dataclass
class DictBased(dict):  # type: ignore[type-arg]
    a: int = 1


class IntChild(int):
    pass


class StrChild(str):
    pass


class ListChild(list):  # type: ignore[type-arg]
    pass


class DictChild(dict):  # type: ignore[type-arg]
    pass


class TupleChild(tuple):  # type: ignore[type-arg]
    pass


class FloatChild(float):
    pass


class PointChild(Point):
    """Unlike its base it has a `__dict__`."""


class Plain:
    pass


PARIS = ZoneInfo("Europe/Paris")

EXAMPLES: list[Any] = [
    None,
    True,
    0,
    -1,
    2**63 - 1,
    -(2**63),
    2**64 - 1,
    2**64,
    -(2**63) - 1,
    10**5000,
    0.0,
    -0.0,
    1.0,
    5e-324,
    1.7976931348623157e308,
    math.nan,
    struct.unpack(">d", bytes.fromhex("fff8000000000123"))[0],
    math.inf,
    -math.inf,
    "",
    "text",
    "é€😀",
    "nul\0 and \\u0000 and \x7f",
    "\ud800",
    "a\udfffb",
    "\ud83d\ude00",
    '"!"',
    "x" * 3000,
    b"",
    b"\0\xff",
    bytearray(b"ab"),
    1j,
    complex(math.nan, -0.0),
    (),
    [],
    {},
    (1, (2, [3])),
    [(), [()], {"a": ()}],
    [40, 41, "f(x)", ")", "(("],
    [True, 1, 1.0, False, 0, 0.0, -0.0],
    [None, math.nan],
    [[1.5, None], [math.inf]],
    {"a": {"b": [1, 2, {"c": None}]}},
    {"b": 1, "a": 2},
    {"!": 1},
    {"!": ["tree", ["t"]]},
    {"!": 1, "x": 2},
    {"a": {"!": 1}},
    [{"!": [1]}],
    {1: "int", "1": "str"},
    {None: 1, True: 2, 2.5: 3, (1, 2): 4, frozenset({1}): 5},
    {"\ud800": 1},
    {"": ""},
    {math.inf: 1},
    set(),
    {1, 2, 3},
    frozenset({"a", (1, 2)}),
    {(1, "x"), (2, "y")},
    range(10),
    range(0, 2**70, 3),
    Ellipsis,
    NotImplemented,
    datetime(2024, 2, 29, 12, 30, 15, 123456),
    datetime(1, 1, 1),
    datetime(2024, 10, 27, 2, 30, fold=1, tzinfo=PARIS),
    datetime(2024, 10, 27, 2, 30, fold=0, tzinfo=PARIS),
    datetime(2024, 1, 1, tzinfo=UTC),
    datetime(2024, 1, 1, tzinfo=timezone(timedelta(hours=5, minutes=30, microseconds=1), "IST")),
    datetime(2024, 1, 1, fold=1),
    date(2024, 2, 29),
    time(23, 59, 59, 999999, fold=1, tzinfo=UTC),
    time(0, 0),
    timedelta(days=-3, microseconds=7),
    UTC,
    timezone(timedelta(0), "Zulu"),
    PARIS,
    Decimal("1.10"),
    Decimal("-0"),
    Decimal("sNaN12"),
    Decimal("-Infinity"),
    Decimal("1E+400"),
    Fraction(-1, 3),
    Fraction(2**80, 3),
    UUID(int=5),
    uuid1(),
    PurePosixPath("/a/b"),
    PureWindowsPath("C:\\x"),
    Path("relative"),
    Path("odd\udc80name"),
    Colour.RED,
    Colour.BLUE,
    Colour.PAIR,
    Colour.ALIAS,
    Level.HIGH,
    Word.YES,
    Right.READ,
    Right.READ | Right.WRITE,
    Right(0),
    Bits.A | Bits.B,
    Bits(8),
    ByteMember.ONE,
    [ByteMember.ONE],
    [Level.LOW, 1],
    {"level": Level.LOW},
    {Word.YES: 1},
    [Word.YES, "yes"],
    Outer.Inner.X,
    Point(1, [2]),
    [Point(1)],
    Row("a", [1, (2,)]),
    Row({"a": Row(None)}),
    Frozen(1, Frozen(2)),
    {Frozen(1): 2},
    Slotted(1, {2}),
    OrderedDict([("b", 1), ("a", (1,))]),
    Counter("hello"),
    deque([1, (2,)], maxlen=5),
    deque(),
    array("d", [1.5, math.nan]),
    array("B"),
    defaultdict(list, {"a": [1]}),
    defaultdict(None, {}),
    int,
    Row,
    math.sqrt,
    len,
    [{"deep": [{"deeper": ({"deepest": {1, 2}},)}]}],
]


def same(a: Any, b: Any) -> bool:
    """Equal and of the same types, recursively; NaN is the same as NaN of the same bits, -0.0 is not 0.0."""
    if type(a) is not type(b):
        return False
    if isinstance(a, float):
        return struct.pack(">d", a) == struct.pack(">d", b)
    if isinstance(a, complex):
        return same(a.real, b.real) and same(a.imag, b.imag)
    if isinstance(a, Enum) or a is None or isinstance(a, type):
        return a is b
    if isinstance(a, Decimal):
        return a.as_tuple() == b.as_tuple()
    if isinstance(a, datetime):
        return same_time(a, b) and a.date() == b.date()
    if isinstance(a, time):
        return same_time(a, b)
    if isinstance(a, range):
        return (a.start, a.stop, a.step) == (b.start, b.stop, b.step)
    if isinstance(a, defaultdict) and a.default_factory is not b.default_factory:
        return False
    if isinstance(a, dict):
        return len(a) == len(b) and all(
            same(k, m) and same(v, w) for (k, v), (m, w) in zip(a.items(), b.items(), strict=True)
        )
    if isinstance(a, deque) and a.maxlen != b.maxlen:
        return False
    if isinstance(a, list | tuple | deque | array):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, set | frozenset):
        return len(a) == len(b) and all(any(same(x, y) for y in b) for x in a)
    if hasattr(a, "__dataclass_fields__"):
        return same(state_of(a), state_of(b))
    if isinstance(a, timezone):
        return repr(a) == repr(b)
    return bool(a == b)


def same_time(a: Any, b: Any) -> bool:
    fields = ("hour", "minute", "second", "microsecond", "fold")
    return all(getattr(a, f) == getattr(b, f) for f in fields) and same(a.tzinfo, b.tzinfo)


def state_of(value: Any) -> dict[str, Any]:
    if hasattr(value, "__dict__"):
        return dict(vars(value))
    return {name: getattr(value, name) for name in value.__dataclass_fields__}
