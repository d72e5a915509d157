"""Values of older versions of a type are brought up to date; what has no way is refused, and the way named."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.protocol.errors import ConfigurationError, PayloadUnreadable
from runtime.mail.codec import Codec
from runtime.mail.versions import TypeVersion, upcast, version_of, versioned

MODULE = "tests_shop"
CODEC = Codec()

FIRST = """
from dataclasses import dataclass

@dataclass
class Order:
    number: str
    total: int
    note: str = ""
"""
SECOND = """
from dataclasses import dataclass
from runtime import upcast, versioned

@upcast("order", "1.0", to="1.1")
def widened(order):
    return {**order, "total": float(order["total"])}

@upcast("order", "1.1", to="1.2")
def added_and_renamed(order):
    order["remark"] = order.pop("note")
    return {**order, "currency": "EUR"}

@upcast("order", "1.2", to="2.0")
def split_and_removed(order):
    prefix, _, number = order.pop("number").partition("-")
    del order["remark"]
    return {**order, "shop": prefix, "number": int(number)}

@versioned("order", "2.0")
@dataclass(slots=True)
class Order:
    shop: str
    number: int
    total: float
    currency: str
"""


@pytest.fixture(autouse=True)
def no_module() -> Iterator[None]:
    yield
    sys.modules.pop(MODULE, None)


def shop(code: str) -> Any:
    """The module of the program, in another version of it."""
    module = ModuleType(MODULE)
    sys.modules[MODULE] = module
    exec(code, vars(module))
    return module


def stored(value: Any) -> bytes:
    return CODEC.encode(value)


def read(wire: bytes) -> Any:
    return CODEC.decode(orjson.loads(wire))


def test_what_was_stored_without_a_version_is_brought_up_step_by_step() -> None:
    wire = stored([shop(FIRST).Order("paris-7", 30, "soon")])
    module = shop(SECOND)
    assert read(wire) == [module.Order("paris", 7, 30.0, "EUR")]
    assert type(read(wire)[0].total) is float


def test_a_value_says_its_version_and_comes_back_as_it_is() -> None:
    module = shop(SECOND)
    order = module.Order("rome", 8, 1.5, "CHF")
    assert b'["dv","tests_shop:Order","order","2.0"' in stored(order)
    assert read(stored(order)) == order


def between(version: str, steps: str = SECOND) -> bytes:
    """A value that a program stored when the type had this version."""
    code = f"{FIRST.replace('@dataclass', '')}".replace(
        "class Order:", f'@versioned("order", "{version}")\n@dataclass\nclass Order:'
    )
    wire = stored(shop(f"from runtime import versioned\n{code}").Order("paris-7", 30, "soon"))
    shop(steps)
    return wire


def test_it_begins_at_the_version_that_is_stored() -> None:
    assert type(read(between("1.0")).total) is float
    found = read(between("1.1"))
    assert (found.total, found.currency) == (30, "EUR")


def test_a_missing_step_is_refused_and_the_way_named() -> None:
    wire = between("1.0", SECOND.replace('"1.1", to="1.2"', '"1.5", to="1.6"'))
    with pytest.raises(
        PayloadUnreadable, match=r"order 1.0 cannot be read as 2.0: there is no step from 1.1"
    ) as refused:
        read(wire)
    assert "1.0 -> 1.1 -> ? -> 2.0" in refused.value.message
    assert "@upcast('order', '1.1', to=...) in tests_shop" in refused.value.message


def test_a_step_that_leads_past_the_version_is_none() -> None:
    with pytest.raises(PayloadUnreadable, match=r"no step from 1.2"):
        read(between("1.0", SECOND.replace('"1.2", to="2.0"', '"1.2", to="3.0"')))


def test_two_steps_from_one_version_are_refused() -> None:
    with pytest.raises(PayloadUnreadable, match=r"there are 2 steps from 1.0"):
        read(between("1.0", f'{SECOND}\n@upcast("order", "1.0", to="1.2")\ndef another(order): return order\n'))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("raise KeyError('x')", r"order 1.0 -> 1.1 failed: KeyError\('x'\)"),
        ("return None", "order 1.0 -> 1.1 must return a dict of attributes"),
        ("return {1: 2}", "must return a dict"),
    ],
)
def test_a_step_that_fails_is_named(body: str, message: str) -> None:
    with pytest.raises(PayloadUnreadable, match=message):
        read(between("1.0", SECOND.replace('return {**order, "total": float(order["total"])}', body)))


def test_a_newer_value_is_read_within_a_major_version_and_refused_beyond() -> None:
    assert (
        read(
            between(
                "2.3",
                FIRST.replace("@dataclass", "@versioned('order', '2.1')\n@dataclass").replace(
                    "from dataclasses", "from runtime import versioned\nfrom dataclasses"
                ),
            )
        ).number
        == "paris-7"
    )
    with pytest.raises(PayloadUnreadable, match=r"stored as order 3.0; this program reads order 2.0"):
        read(between("3.0"))


def test_a_class_that_has_lost_its_version_or_changed_its_type_is_refused() -> None:
    with pytest.raises(PayloadUnreadable, match=r"tests_shop:Order has no version, .* as order 1.4"):
        read(between("1.4", FIRST))
    with pytest.raises(PayloadUnreadable, match=r"is of type bill, and the value was stored as order 1.4"):
        read(between("1.4", SECOND.replace('@versioned("order"', '@versioned("bill"')))


def test_a_class_that_moved_is_found_by_its_old_name() -> None:
    wire = stored(shop(FIRST).Order("paris-7", 30))
    moved = SECOND.replace("class Order", "class Purchase") + "\nOrder = Purchase\n"
    assert type(read(wire)).__name__ == "Order"
    module = shop(moved)
    assert read(wire) == module.Purchase("paris", 7, 30.0, "EUR")


def test_values_inside_of_values_have_versions_of_their_own() -> None:
    code = f"{FIRST}\n@dataclass\nclass Cart:\n    orders: list\n    last: Order\n"
    first = shop(code)
    wire = stored({"cart": first.Cart([first.Order("a-1", 1)], first.Order("b-2", 2))})
    second = shop(f"{SECOND}\n@dataclass\nclass Cart:\n    orders: list\n    last: Order\n")
    cart = read(wire)["cart"]
    assert cart.orders == [second.Order("a", 1, 1.0, "EUR")]
    assert cart.last.shop == "b"


@versioned("point", "1.3")
@dataclass
class Base:
    x: int = 0
    names: list[str] = field(default_factory=list)


@dataclass
class Below(Base):
    y: int = 0


def test_a_base_gives_its_version_to_nobody() -> None:
    assert version_of(Base) == TypeVersion("point", "1.3")
    assert version_of(Below) is None
    assert b'"d",' in stored(Below(1, [], 2))
    assert read(stored(Below(1, ["a"], 2))) == Below(1, ["a"], 2)


@pytest.mark.parametrize("version", ["", "1", "1.0.0", "01.0", "1.x", "-1.0", " 1.0", None, 1.0])
def test_what_is_no_version_is_refused(version: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"major.minor"):
        versioned("a", version)
    with pytest.raises(ConfigurationError, match=r"before must be .* to must be"):
        upcast("a", version, to=version)


def test_all_that_is_wrong_is_told_at_once() -> None:
    with pytest.raises(ConfigurationError, match=r"name must be .*; version must be"):
        versioned("", "x")
    with pytest.raises(ConfigurationError, match=r"to must be newer than 1.10, not 1.9"):
        upcast("a", "1.10", to="1.9")
    with pytest.raises(ConfigurationError, match=r"is no dataclass"):
        versioned("a", "1.0")(int)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 12)), min_size=2, max_size=8, unique=True))
def test_any_chain_of_versions_is_walked_in_order(parts: list[tuple[int, int]]) -> None:
    versions = [f"{major}.{minor}" for major, minor in sorted(parts)]
    steps = "".join(
        f'@upcast("t", "{a}", to="{b}")\ndef step_{i}(x): return {{"way": [*x["way"], "{b}"]}}\n'
        for i, (a, b) in enumerate(zip(versions, versions[1:], strict=False))
    )
    head = "from dataclasses import dataclass\nfrom runtime import upcast, versioned\n"
    kept = '@versioned("t", "{}")\n@dataclass\nclass T:\n    way: list\n'
    wire = stored(shop(head + kept.format(versions[0])).T([]))
    shop(head + steps + kept.format(versions[-1]))
    assert read(wire).way == versions[1:]
