"""A handler has a name that leads back to it from another process, or is refused with the reason (S27, S28)."""

from __future__ import annotations

import functools
import math
import operator
import sys
from collections.abc import Callable
from decimal import Decimal
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from runtime.errors import HandlerRefused
from runtime.reference import reference_of, refuse_unstorable
from tests.unit.runtime import handlers

HOME = "tests.unit.runtime.handlers"


@pytest.mark.parametrize(
    ("fn", "name"),
    [
        (handlers.add_one, f"{HOME}:add_one"),
        (handlers.slow_echo, f"{HOME}:slow_echo"),
        (handlers.Tool.made, f"{HOME}:Tool.made"),
        (handlers.Tool.double, f"{HOME}:Tool.double"),
        (handlers.Tool.method, f"{HOME}:Tool.method"),
        (handlers.Tool, f"{HOME}:Tool"),
        (handlers.wrapped, f"{HOME}:wrapped"),
        (handlers.plain_task.fn, f"{HOME}:plain_task"),
        (math.sqrt, "math:sqrt"),
        (operator.add, "_operator:add"),
        (sum, "builtins:sum"),
        (str.upper, "builtins:str.upper"),
        (int, "builtins:int"),
        (Decimal, "decimal:Decimal"),
        (dict.fromkeys, "builtins:dict.fromkeys"),
    ],
)
def test_what_can_be_imported_has_a_name(fn: Callable[..., Any], name: str) -> None:
    assert reference_of(fn) == name


@pytest.mark.parametrize(
    ("fn", "reason"),
    [
        (lambda x: x, "lambda"),
        (handlers.make_local(), "exists only while that call runs"),
        (handlers.make_method()[0], "exists only while"),
        (handlers.make_method()[1], "method Local.method of a class"),
        (handlers.generator, "generator"),
        (handlers.async_generator, "generator"),
        (handlers.Tool().method, "bound to an instance of Tool"),
        ([].append, "bound to an instance of list"),
        (handlers.Callee(), "no importable name"),
        (handlers.original_replaced, "another object"),
        (functools.partial(handlers.add_one, 1), "partial"),
        (3, "not callable"),
    ],
)
def test_what_cannot_be_found_again_is_refused(fn: Any, reason: str) -> None:
    with pytest.raises(HandlerRefused, match=reason):
        reference_of(fn)


def test_a_decorator_can_refuse_before_the_name_is_bound() -> None:
    refuse_unstorable(handlers.original_replaced)
    with pytest.raises(HandlerRefused):
        refuse_unstorable(handlers.generator)


def script_function(
    monkeypatch: pytest.MonkeyPatch, file: Path | None, spec: str | None, name: str = "__main__"
) -> Callable[..., Any]:
    """A function of a made-up main module."""
    main = ModuleType(name)
    main.__spec__ = ModuleSpec(spec, None) if spec else None
    if file is not None:
        main.__file__ = str(file)
    code = compile("def work(): return 1", str(file or "<stdin>"), "exec")
    exec(code, main.__dict__)
    monkeypatch.setitem(sys.modules, name, main)
    function: Callable[..., Any] = main.__dict__["work"]
    return function


def test_a_function_of_the_main_script_is_named_by_its_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "script.py"
    file.write_text("def work(): return 1\n")
    for name in ("__main__", "__mp_main__", "__mp_main__.1"):
        assert reference_of(script_function(monkeypatch, file, None, name)) == f"file:{file}:work"


def test_a_function_of_a_module_run_as_main_is_named_by_the_module(monkeypatch: pytest.MonkeyPatch) -> None:
    assert reference_of(script_function(monkeypatch, Path(__file__), "pkg.tool")) == "pkg.tool:work"


def test_a_function_of_a_notebook_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(HandlerRefused, match="notebook"):
        reference_of(script_function(monkeypatch, None, None))
    with pytest.raises(HandlerRefused, match="notebook"):
        reference_of(script_function(monkeypatch, tmp_path / "gone.py", None))
    with pytest.raises(HandlerRefused, match="notebook"):  # a cell of a kernel that was started with `python -m`
        reference_of(script_function(monkeypatch, None, "kernel"))
