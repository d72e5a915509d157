"""The sources of the project, read once: which files there are, their text and their syntax trees.

Files are those that git tracks or would track; without git (an unpacked archive) all files outside hidden and generated
folders.
"""

from __future__ import annotations

import ast
import functools
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
PRODUCT: Final = ("actors", "runtime")
PYTHON_FOLDERS: Final = ("actors", "runtime", "bench", "examples", "tests")
GENERATED: Final = ("build", "dist", "demo-out", "__pycache__")


@dataclass(frozen=True, slots=True)
class Source:
    """One Python file: its path from the root, text, lines and syntax tree."""

    path: str
    text: str
    lines: tuple[str, ...]
    tree: ast.Module

    @property
    def package(self) -> str:
        """The top folder: actors, runtime, tests ..."""
        return self.path.split("/", 1)[0]

    @property
    def module(self) -> str:
        """Dotted name."""
        return self.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    def at(self, node: ast.AST, text: str) -> str:
        """A finding, as an editor can jump to it."""
        return f"{self.path}:{getattr(node, 'lineno', 1)}: {text}"

    def comment(self, node: ast.AST, mark: str) -> bool:
        """Whether a line of the node's head, or the line above it, says `# mark: reason` with a reason."""
        line = getattr(node, "lineno", 1)
        heads = self.lines[max(line - 2, 0) : line + 1]
        return any(len(head.partition(f"# {mark}:")[2].strip()) >= 8 for head in heads)


def source_of(text: str, path: str = "runtime/planted.py") -> Source:
    """A source from a text, for planted offences."""
    return Source(path, text, tuple(text.splitlines()), ast.parse(text))


@functools.cache
def files() -> tuple[str, ...]:
    """Paths of all files that belong to the project, from the root, sorted."""
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    names = listing.stdout.splitlines() if listing.returncode == 0 else list(_walk())
    return tuple(sorted(name for name in names if (ROOT / name).is_file()))


def _walk() -> Iterator[str]:
    for path in ROOT.rglob("*"):
        parts = path.relative_to(ROOT).parts
        hidden = any(part.startswith(".") and part != ".ci" for part in parts)
        if not hidden and not set(parts) & set(GENERATED):
            yield "/".join(parts)


@functools.cache
def read(path: str) -> str:
    """Text of a file; empty when it is not text."""
    try:
        return (ROOT / path).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return ""


@functools.cache
def sources(*packages: str) -> tuple[Source, ...]:
    """Python sources under the named top folders (all by default)."""
    wanted = packages or PYTHON_FOLDERS
    paths = [path for path in files() if path.endswith(".py") and path.split("/", 1)[0] in wanted]
    return tuple(_parsed(path) for path in paths)


@functools.cache
def _parsed(path: str) -> Source:
    return source_of(read(path), path)


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """All functions and methods, nested ones included."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def report(findings: list[str]) -> None:
    """Fail with all findings at once."""
    assert not findings, f"{len(findings)} to mend:\n" + "\n".join(findings)
