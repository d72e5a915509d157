"""Direction of imports: `tests`, `bench` → `runtime` → `actors`; `actors` is pure; no import hides in a function."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from tests.tidy.tree import Source, report, source_of, sources

PURE: Final = frozenset(
    "__future__ abc array base64 binascii bisect collections contextlib copy dataclasses enum fractions functools "
    "hashlib heapq itertools json math numbers operator re statistics string struct sys textwrap types typing "
    "typing_extensions warnings zlib actors orjson sortedcontainers xxhash".split()
)
"""What actors may import. A list of what is allowed, because the list of what does I/O has no end."""
IMPURE_CALLS: Final = frozenset({"open", "print", "input", "eval", "exec", "breakpoint"})
FORBIDDEN: Final = {"runtime": {"tests", "bench", "examples"}, "examples": {"tests", "bench", "actors"}}


def imported(tree: ast.AST) -> Iterator[tuple[ast.stmt, str]]:
    """Every import statement under a node with the full names that it asks for."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node, f"{node.module or '.'}.{alias.name}") for alias in node.names)


def impurities(source: Source) -> list[str]:
    """Imports and calls by which an actor could reach the world."""
    found = [
        source.at(node, f"actors must not import {name}")
        for node, name in imported(source.tree)
        if name.split(".")[0] not in PURE
    ]
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in IMPURE_CALLS:
            found.append(source.at(node, f"actors must not call {node.func.id}()"))
    return found


def wrong_directions(source: Source) -> list[str]:
    """Imports against the direction."""
    forbidden = FORBIDDEN.get(source.package, set())
    return [
        source.at(node, f"{source.package} must not import {name}")
        for node, name in imported(source.tree)
        if name.split(".")[0] in forbidden
    ]


def hidden_imports(source: Source) -> list[str]:
    """Imports inside functions without a `# lazy: reason`."""
    found = []
    for node in ast.walk(source.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            for statement, name in imported(node):
                if not source.comment(statement, "lazy"):
                    found.append(source.at(statement, f"import of {name} inside a function needs a '# lazy: reason'"))
    return sorted(set(found))


def module_edges(source: Source, known: set[str]) -> set[str]:
    """Project modules that a source imports when it is loaded; imports for type checkers only are left out."""
    edges: set[str] = set()
    pending: list[ast.stmt] = list(source.tree.body)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            pending += node.orelse
        elif isinstance(node, ast.If | ast.Try | ast.With | ast.ClassDef):
            pending += [child for child in ast.walk(node) if isinstance(child, ast.Import | ast.ImportFrom)]
        else:
            for _, name in imported(node) if isinstance(node, ast.Import | ast.ImportFrom) else ():
                edges.add(name if name in known else name.rpartition(".")[0])
    return edges & known - {source.module}


def cycle(edges: dict[str, set[str]]) -> list[str]:
    """Modules that import each other, in order; leaves are taken away until only cycles stay."""
    left = {name: set(targets) for name, targets in edges.items()}
    while leaves := [name for name, targets in left.items() if not targets & left.keys()]:
        for name in leaves:
            del left[name]
    if not left:
        return []
    walk = [min(left)]
    while walk[-1] not in walk[:-1]:
        walk.append(min(left[walk[-1]] & left.keys()))
    return walk[walk.index(walk[-1]) :]


def test_actors_are_pure() -> None:
    report([line for source in sources("actors") for line in impurities(source)])


def test_imports_run_one_way() -> None:
    report([line for source in sources("runtime", "examples") for line in wrong_directions(source)])


def test_no_import_hides_in_a_function() -> None:
    report([line for source in sources() for line in hidden_imports(source)])


def test_no_two_modules_import_each_other() -> None:
    product = sources("actors", "runtime")
    known = {source.module for source in product}
    found = cycle({source.module: module_edges(source, known) for source in product})
    assert not found, "import cycle: " + " -> ".join(found)


def test_planted_offences_are_found() -> None:
    actor = source_of("import time\nfrom runtime import config\nopen('x')\n", "actors/planted.py")
    assert len(impurities(actor)) == 3
    assert len(wrong_directions(source_of("import bench.micro\nimport runtime.bench\n"))) == 1
    lazy = "def f():\n    import numpy\n\n\ndef g():\n    import numpy  # lazy: optional dependency\n"
    assert len(hidden_imports(source_of(lazy))) == 1
    assert cycle({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": set()}) == ["b", "c", "b"]
