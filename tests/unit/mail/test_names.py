"""Names of classes lead back to the same class, here, in a worker, and under `python -m`."""

from __future__ import annotations

import sys
import types
from collections import OrderedDict
from importlib.machinery import ModuleSpec
from typing import Any

import pytest

from actors.protocol.errors import PayloadUnreadable
from runtime.mail.names import find, name_of
from runtime.mail.refusal import Refused
from tests.unit.mail.values import Outer, Row


class Replaced:
    pass


Original = Replaced


class Replaced:  # type: ignore[no-redef]
    pass


def module(name: str, **members: Any) -> types.ModuleType:
    made = types.ModuleType(name)
    made.__dict__.update(members)
    return made


def script_class(module_name: str) -> type:
    return type("Job", (), {"__module__": module_name})


def test_names_lead_there_and_back() -> None:
    for thing, name in (
        (Row, "tests.unit.mail.values:Row"),
        (Outer.Inner, "tests.unit.mail.values:Outer.Inner"),
        (int, "builtins:int"),
        (len, "builtins:len"),
        (OrderedDict, "collections:OrderedDict"),
    ):
        assert name_of(thing) == name
        assert find(name) is thing


def test_what_has_no_name_of_its_own_is_refused() -> None:
    class Local:
        pass

    for thing, reason in (
        (Local, "inside a function"),
        (Original, "another object"),
        (script_class("gone"), "No module"),
    ):
        with pytest.raises(Refused, match=reason):
            name_of(thing)
    odd = type("a\nb", (), {})
    odd.__qualname__ = "a\nb"
    with pytest.raises(Refused, match="no importable name"):
        name_of(odd)


def test_missing_names_are_unreadable(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("no.such.module:X", "builtins:NoSuch", "", "nonsense", "tests.unit.mail.values:Row.nothing"):
        with pytest.raises(PayloadUnreadable):
            find(name)


def test_a_script_and_its_worker_agree_on_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    here = script_class("__main__")
    monkeypatch.setitem(sys.modules, "__main__", module("__main__", Job=here, __spec__=None))
    monkeypatch.delitem(sys.modules, "__mp_main__", raising=False)
    assert name_of(here) == "__main__:Job"
    assert find("__main__:Job") is here
    there = script_class("__mp_main__")
    monkeypatch.setitem(sys.modules, "__main__", module("__main__", __spec__=None))
    monkeypatch.setitem(sys.modules, "__mp_main__", module("__mp_main__", Job=there))
    assert name_of(there) == "__main__:Job"
    assert find("__main__:Job") is there
    with pytest.raises(PayloadUnreadable, match="Absent"):
        find("__main__:Absent")
    second = script_class("__mp_main__.1")
    with pytest.raises(Refused, match="another object"):
        name_of(second)
    monkeypatch.setitem(sys.modules, "__main__", module("__main__", __spec__=None, Job=second))
    assert name_of(second) == "__main__:Job"
    assert find("__main__:Job") is second
    with pytest.raises(Refused, match="another object"):
        name_of(there)


def test_a_program_started_as_a_module_has_its_real_name(monkeypatch: pytest.MonkeyPatch) -> None:
    here = script_class("__main__")
    main = module("__main__", Job=here, __spec__=ModuleSpec("pkg.app", None))
    monkeypatch.setitem(sys.modules, "__main__", main)
    monkeypatch.delitem(sys.modules, "__mp_main__", raising=False)
    assert name_of(here) == "pkg.app:Job"
    assert find("pkg.app:Job") is here
