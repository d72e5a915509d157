"""Dataclasses and named tuples come back as they were, without their constructors."""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field, make_dataclass
from functools import cached_property
from typing import Any, Generic, NamedTuple, TypeVar

import orjson
import pytest

from actors.protocol.errors import PayloadUnreadable
from runtime.mail import objects
from runtime.mail.codec import Codec
from runtime.mail.refusal import Refused
from tests.unit.mail.values import DictBased, Frozen, Point, Slotted, Strict, same, state_of

T = TypeVar("T")


@dataclass
class Base:
    a: int = 1


@dataclass
class Child(Base):
    b: list[int] = field(default_factory=list)
    not_compared: int = field(default=0, compare=False)


@dataclass(slots=True)
class PrivateSlot:
    __hidden: int = 3


@dataclass
class Box(Generic[T]):
    item: T


@dataclass
class Cached:
    a: int

    @cached_property
    def twice(self) -> int:
        return 2 * self.a


@dataclass(slots=True, weakref_slot=True)
class Weak:
    a: int


@dataclass
class Finalised:
    a: int

    def __del__(self) -> None:
        assert self.a is not None


@dataclass
class ErrorBased(Exception):
    a: int = 1


class NotThePair(NamedTuple):
    a: int


def through(value: Any) -> Any:
    codec = Codec()
    return codec.decode(orjson.loads(codec.encode(value)))


@pytest.mark.parametrize(
    "value", [Child(2, [1], 5), PrivateSlot(7), Box((1, 2)), Weak(1), Finalised(1), Frozen(1), Slotted({1})]
)
def test_all_attributes_come_back(value: Any) -> None:
    found = through(value)
    assert type(found) is type(value)
    if hasattr(value, "__dict__"):
        assert same(vars(found), vars(value))
    else:
        assert found == value


def test_neither_init_nor_post_init_runs() -> None:
    value = Strict(3)
    value.a = -1
    value.doubled = 7
    value.extra = (1,)  # type: ignore[attr-defined]
    found = through(value)
    assert same(vars(found), {"a": -1, "calls": None, "doubled": 7, "extra": (1,)})


def test_what_was_computed_once_comes_back() -> None:
    value = Cached(2)
    assert value.twice == 4
    assert vars(through(value)) == {"a": 2, "twice": 4}


def test_an_attribute_that_was_taken_away_comes_back_as_the_default() -> None:
    value = Frozen(1)
    object.__delattr__(value, "b")
    found = through(value)
    assert "b" not in vars(value)
    assert found.b is None  # the default of its class, as before


def test_a_slotted_class_can_be_referred_to_weakly_again() -> None:
    assert weakref.ref(through(Weak(1))) is not None


def test_a_class_that_gained_a_field_gets_its_default() -> None:
    found = objects.rebuild_dataclass(Child, "x:Child", {"a": 5})
    assert state_of(found) == {"a": 5, "b": [], "not_compared": 0}
    slotted = objects.rebuild_dataclass(Slotted, "x:Slotted", {"a": 5})
    assert slotted == Slotted(5, None)


def test_a_class_that_lost_a_slot_is_unreadable() -> None:
    with pytest.raises(PayloadUnreadable, match="has changed"):
        objects.rebuild_dataclass(Slotted, "x:Slotted", {"gone": 5})


def test_what_is_no_dataclass_any_more_is_unreadable() -> None:
    with pytest.raises(PayloadUnreadable, match="was a dataclass"):
        objects.rebuild_dataclass(int, "x:int", {})
    with pytest.raises(PayloadUnreadable, match="was a named tuple"):
        objects.rebuild_namedtuple(tuple, "x:tuple", [])
    with pytest.raises(PayloadUnreadable, match="2 fields now, the value 1"):
        objects.rebuild_namedtuple(Point, "x:Point", [1])


def test_dataclasses_on_other_types_are_refused() -> None:
    for kind in (DictBased, ErrorBased):
        with pytest.raises(Refused, match="is built on a type whose state is unknown"):
            objects.check_dataclass(kind)


def test_classes_that_cannot_be_found_are_refused() -> None:
    made = make_dataclass("Made", ["a"])
    with pytest.raises(Exception, match="cannot be found"):
        Codec().encode(made(1))

    @dataclass
    class Local:
        a: int = 1

    with pytest.raises(Exception, match="defined inside a function"):
        Codec().encode([Local()])


def test_slots_of_all_bases_are_seen_with_their_private_names() -> None:
    assert objects.slots_of(PrivateSlot) == ["_PrivateSlot__hidden"]
    assert objects.slots_of(Weak) == ["a"]
    assert objects.is_namedtuple_type(NotThePair)
    assert not objects.is_namedtuple_type(tuple)
