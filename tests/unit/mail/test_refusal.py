"""Paths and reasons of refusals."""

from __future__ import annotations

from typing import Any

from actors.protocol.errors import PayloadError, PayloadTooLarge
from runtime.mail.refusal import Refused, element_step, field_step, inside_key_step, key_step, too_deep
from tests.unit.mail.values import Row


def test_the_path_is_put_together_outermost_first() -> None:
    refused = Refused("odd")
    for step in (field_step("name"), key_step("k"), "[3]"):
        refused.at(step)
    error = refused.error()
    assert type(error) is PayloadError
    assert error.path == "$[3]['k'].name"
    assert error.args == ("$[3]['k'].name: odd", "$[3]['k'].name")
    assert refused.error("args[0]").path == "args[0][3]['k'].name"
    assert type(Refused("big", too_large=True).error()) is PayloadTooLarge


def test_steps_are_short_and_printable() -> None:
    assert key_step("a\n\ud800'") == '["a\\n\\ud800\'"]'
    assert key_step(10**400) == "[<int>]"
    assert key_step(1.5) == "[1.5]"
    assert key_step((1,)) == "[<tuple>]"
    assert len(key_step("x" * 1000)) < 70
    assert inside_key_step((1,)) == "<key <tuple>>"
    assert element_step("a") == "{'a'}"


def test_cycles_are_told_from_depth() -> None:
    deep: Any = 1
    for _ in range(50_000):
        deep = [deep]
    assert "nested more than" in too_deep(deep).reason
    shared: Any = [1]
    for _ in range(100):
        shared = [shared, shared]
    assert "nested more than" in too_deep(shared).reason
    loop: dict[str, Any] = {}
    loop["a"] = ({1: [loop]},)
    assert "contains itself" in too_deep(loop).reason
    row = Row("x")
    row.name = [row]
    assert "contains itself" in too_deep((row,)).reason
    keyed: Any = Row("x")
    keyed.values = [{"k": keyed}]
    assert "contains itself" in too_deep(keyed).reason
