"""Sizes, with a ratchet: a module has at most 400 lines and a function 60, docstrings of functions not counted.

A hot loop, or a table that is long because what it lists is long, says so where it stands: `# long: reason` at the head
of the function, up to 120 lines. Modules that are over the limit are listed here, and the list may only shrink.
"""

from __future__ import annotations

import ast
from typing import Final

from tests.tidy.tree import Source, functions, report, source_of, sources

MODULE_LINES: Final = {"actors": 400, "runtime": 400, "bench": 500, "examples": 300, "tests": 600}
FUNCTION_LINES: Final = {"actors": 60, "runtime": 60, "bench": 80, "examples": 60, "tests": 80}
LONG_FUNCTION_LINES: Final = 120
LARGER: Final[dict[str, int]] = {}
"""Module: lines it may have. Take an entry out when the module fits; do not add any."""


def length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of a function without its decorators and docstring."""
    lines = (function.end_lineno or function.lineno) - function.lineno + 1
    first = function.body[0]
    if ast.get_docstring(function, clean=False) is not None:
        lines -= (first.end_lineno or first.lineno) - first.lineno + 1
    return lines


def oversized_module(source: Source, allowed: dict[str, int]) -> list[str]:
    """The module, if it is too large; its entry in the list, if it is not needed."""
    lines, limit = len(source.lines), MODULE_LINES[source.package]
    if lines > allowed.get(source.path, limit):
        return [f"{source.path}: {lines} lines, {allowed.get(source.path, limit)} allowed"]
    if source.path in allowed and lines <= limit:
        return [f"{source.path}: fits now; take it out of LARGER"]
    return []


def oversized_functions(source: Source) -> list[str]:
    """Functions that are too large."""
    found = []
    for function in functions(source.tree):
        limit = LONG_FUNCTION_LINES if source.comment(function, "long") else FUNCTION_LINES[source.package]
        if length(function) > limit:
            found.append(source.at(function, f"{function.name} has {length(function)} lines, {limit} allowed"))
    return found


def test_modules_are_of_a_readable_size() -> None:
    report([line for source in sources() for line in oversized_module(source, LARGER)])


def test_functions_are_of_a_readable_size() -> None:
    report([line for source in sources() for line in oversized_functions(source)])


def test_planted_offences_are_found() -> None:
    long = source_of("x = 1\n" * 401)
    assert oversized_module(long, {})
    assert not oversized_module(long, {long.path: 401})
    assert oversized_module(source_of("x = 1\n"), {long.path: 401})
    body = "    x = 1\n" * 61
    assert oversized_functions(source_of("def f():\n" + body))
    assert not oversized_functions(source_of("# long: the inner loop of everything\ndef f():\n" + body))
    assert not oversized_functions(source_of('def f():\n    """Text.\n' + "    more\n" * 80 + '    """\n'))
