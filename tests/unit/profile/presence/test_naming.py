"""Functions under other names: the same function, another name in stacks."""

from __future__ import annotations

import sys

import pytest

from runtime.profile.presence.naming import renamed


class Thing:
    """Has a method."""

    def place(self, added: int = 1, *, more: int = 2) -> tuple[str, int]:
        """The name of its own code."""
        return sys._getframe().f_code.co_name, added + more


def test_a_method_has_another_name_and_does_the_same() -> None:
    thing = Thing()
    method = renamed(thing.place, "node:http")
    assert method() == ("node:http", 3)
    assert method(5, more=6) == ("node:http", 11)
    assert thing.place() == ("place", 3)
    assert method.__self__ is thing  # type: ignore[attr-defined]  # it is a bound method, typed as any callable


def test_what_is_no_function_stays_as_it_is() -> None:
    assert renamed(len, "node:http") is len


def test_tracebacks_show_the_real_file() -> None:
    def fails() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError) as found:
        renamed(fails, "node:http")()
    assert found.traceback[-1].path.name == "test_naming.py"
