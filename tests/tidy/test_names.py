"""One term, one meaning: a class name stands once; only programs print; guards of durability are no asserts."""

from __future__ import annotations

import ast
from collections import defaultdict
from typing import Final

from tests.tidy.tree import Source, report, source_of, sources

PRINTERS: Final = ("runtime/cli/", "runtime/bench/", "runtime/profile/", "bench/", "examples/", "tests/")


def class_names(parts: tuple[Source, ...]) -> dict[str, list[str]]:
    """Public class names at module level, with the modules that define them."""
    found: dict[str, list[str]] = defaultdict(list)
    for source in parts:
        for node in source.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(source.at(node, ""))
    return found


def repeated(parts: tuple[Source, ...]) -> list[str]:
    """Class names with two meanings."""
    return [f"{name}: {' '.join(where)}" for name, where in class_names(parts).items() if len(where) > 1]


def prints(source: Source) -> list[str]:
    """Calls of print() outside programs."""
    if source.path.startswith(PRINTERS) or source.path.endswith("__main__.py"):
        return []
    return [
        source.at(node, "print() outside a program")
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    ]


def asserted_guards(source: Source) -> list[str]:
    """Asserts where durability is guarded: they vanish under -O."""
    if not source.path.startswith("runtime/storage/"):
        return []
    return [
        source.at(node, "a guard of durability raises")
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Assert)
    ]


def test_one_class_name_has_one_meaning() -> None:
    report(repeated(sources("actors", "runtime", "bench", "examples")))


def test_only_programs_print() -> None:
    report([line for source in sources() for line in prints(source)])


def test_guards_of_durability_raise() -> None:
    report([line for source in sources("runtime") for line in asserted_guards(source)])


def test_planted_offences_are_found() -> None:
    assert repeated((source_of("class Run: ...\n"), source_of("class Run: ...\n", "actors/planted.py")))
    assert not repeated((source_of("class _Run: ...\n"), source_of("class _Run: ...\n", "actors/planted.py")))
    assert prints(source_of("print(1)\n"))
    assert not prints(source_of("print(1)\n", "runtime/cli/planted.py"))
    assert asserted_guards(source_of("assert 1\n", "runtime/storage/planted.py"))
