"""Where a handler is that is known by its name only, as engines know them: found in its source, imported by nobody."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from runtime.profile.model import Frame

if TYPE_CHECKING:
    import ast

_SOURCE_BYTES_MAX: Final = 4_000_000


@lru_cache(1_000)
def frame_of(reference: str) -> Frame:
    """The first line of "module:qualname"; without a file where that is not found."""
    module, _, name = reference.partition(":")
    with suppress(OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        file = _file_of(module)
        if file and os.path.getsize(file) <= _SOURCE_BYTES_MAX:
            import ast  # lazy: only for a finding of the engine

            with open(file, "rb") as source:
                line = _line_of(ast.parse(source.read()), name.split("."))
            if line:
                return Frame(name, file, line)
    return Frame(reference)


def _file_of(module: str) -> str:
    known = getattr(sys.modules.get(module), "__file__", None)
    if known:
        return str(known)
    path = module.replace(".", os.sep)
    for folder in sys.path:
        for end in (".py", f"{os.sep}__init__.py"):
            file = os.path.join(folder or os.curdir, path + end)
            if os.path.isfile(file):
                return os.path.abspath(file)
    return ""


def _line_of(tree: ast.AST, names: list[str]) -> int:
    """The line where a function begins, its decorators included, as code objects have it."""
    import ast  # lazy: as above

    at: ast.AST = tree
    for name in names:
        if name == "<locals>":
            continue
        found = [
            node
            for node in ast.iter_child_nodes(at)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and node.name == name
        ]
        if not found:
            return 0
        at = found[-1]
    if not isinstance(at, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return 0
    return min(at.lineno, *(one.lineno for one in at.decorator_list)) if at.decorator_list else at.lineno
