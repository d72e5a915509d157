"""Leaves: their persisted text, and enum members by name."""

from __future__ import annotations

import enum
from datetime import UTC, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from fractions import Fraction
from pathlib import PurePosixPath
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import orjson
import pytest

from actors.protocol.errors import PayloadUnreadable
from runtime.mail.leaves import LEAF_WRITERS, enum_member, integer, is_text, number, read_leaf, string
from runtime.mail.refusal import Refused
from tests.unit.mail.values import Bits, Colour, Level, Outer, Right, same

VALUES = "tests.unit.mail.values"


@pytest.mark.parametrize(
    ("value", "node"),
    [
        (2**64, ["i", "10000000000000000"]),
        (-(2**63) - 1, ["i", "-8000000000000001"]),
        (float("inf"), ["f", "7ff0000000000000"]),
        (1j, ["c", 0.0, 1.0]),
        ("\ud800", ["u", "7aCA"]),
        (datetime(2024, 1, 2, 3, 4, 5, 6, fold=1), ["dt", "2024-01-02T03:04:05.000006", 1, None]),
        (datetime(2024, 1, 2, tzinfo=UTC), ["dt", "2024-01-02T00:00:00", 0, ["tz", ["td", 0, 0, 0], None]]),
        (time(1, 2, tzinfo=ZoneInfo("UTC")), ["ti", "01:02:00", 0, ["zi", "UTC"]]),
        (timedelta(-1), ["td", -1, 0, 0]),
        (timezone(timedelta(hours=1), "X"), ["tz", ["td", 0, 3600, 0], "X"]),
        (Decimal("1.50"), ["dc", "1.50"]),
        (Fraction(1, 2**70), ["fr", 1, ["i", "400000000000000000"]]),
        (UUID(int=1), ["uu", "00000000000000000000000000000001"]),
        (range(1, 9, 2), ["r", 1, 9, 2]),
        (PurePosixPath("/a"), ["p", "PurePosixPath", "/a"]),
        (..., ["x", "..."]),
    ],
)
def test_the_node_of_each_type_is_pinned(value: Any, node: Any) -> None:
    written = LEAF_WRITERS[type(value)](value)
    assert orjson.loads(orjson.dumps(written)) == node
    assert same(read_leaf(node), value)


def test_scalars_are_themselves() -> None:
    assert integer(2**64 - 1) == 2**64 - 1
    assert number(1.5) == 1.5
    assert string("é") == "é"
    assert is_text("é\0")
    assert not is_text("é\udc80")


@pytest.mark.parametrize(
    ("member", "node"),
    [
        (Colour.RED, ["e", f"{VALUES}:Colour", "RED"]),
        (Colour.ALIAS, ["e", f"{VALUES}:Colour", "RED"]),
        (Level.HIGH, ["e", f"{VALUES}:Level", "HIGH"]),
        (Outer.Inner.X, ["e", f"{VALUES}:Outer.Inner", "X"]),
        (Right.READ | Right.WRITE, ["e", f"{VALUES}:Right", None, 3]),
        (Right(0), ["e", f"{VALUES}:Right", None, 0]),
        (Bits(12), ["e", f"{VALUES}:Bits", None, 12]),
    ],
)
def test_members_go_by_name_and_composed_flags_by_number(member: Any, node: Any) -> None:
    assert enum_member(member) == node
    assert read_leaf(node) is member


def test_members_of_local_enums_are_refused() -> None:
    local = enum.Enum("local", "A B")
    with pytest.raises(Refused, match="cannot be found"):
        enum_member(local.A)


def test_a_member_that_is_gone_is_named() -> None:
    for node in (["e", f"{VALUES}:Colour", "GREEN"], ["e", f"{VALUES}:Right", None, 64]):
        with pytest.raises(PayloadUnreadable, match="has no member"):
            read_leaf(node)
    with pytest.raises(PayloadUnreadable, match="was an Enum"):
        read_leaf(["e", f"{VALUES}:Row", "x"])


def test_zones_of_unknown_classes_are_refused() -> None:
    class Odd(tzinfo):
        def utcoffset(self, when: datetime | None) -> timedelta:
            return timedelta(0)

    with pytest.raises(Refused, match="Odd"):
        LEAF_WRITERS[datetime](datetime(2024, 1, 1, tzinfo=Odd()))


def test_the_zone_keeps_the_hour_that_comes_twice() -> None:
    paris = ZoneInfo("Europe/Paris")
    for fold, hours in ((0, 2), (1, 1)):
        when = datetime(2024, 10, 27, 2, 30, fold=fold, tzinfo=paris)
        found = read_leaf(LEAF_WRITERS[datetime](when))
        assert found.utcoffset() == timedelta(hours=hours)
        assert found.fold == fold
