"""No state in modules: nothing that can change is made when a module is loaded, and no default instance.

What is allowed: constants marked `Final` that no function of the module changes, `__all__`, enumerations and types. A
process that must keep something (a worker's current task) says so where it stands: `# global: reason`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from tests.tidy.tree import Source, report, source_of, sources

CONTAINERS: Final = frozenset("dict list set bytearray deque defaultdict OrderedDict Counter array".split())
CHANGING: Final = frozenset(
    "add append appendleft clear discard extend insert pop popitem popleft remove reverse setdefault sort "
    "update".split()
)
TYPES: Final = frozenset("TypeVar ParamSpec TypeVarTuple NewType NamedTuple TypedDict".split())


def mutable(value: ast.expr | None) -> bool:
    """Whether an expression makes a container that can change."""
    if isinstance(value, ast.Dict | ast.List | ast.Set | ast.DictComp | ast.ListComp | ast.SetComp):
        return True
    return isinstance(value, ast.Call) and called(value) in CONTAINERS


def called(call: ast.Call) -> str:
    """Last part of the name that is called."""
    return ast.unparse(call.func).rpartition(".")[2]


def assignments(tree: ast.Module) -> Iterator[tuple[ast.stmt, str, ast.expr | None, bool]]:
    """Module-level assignments: statement, name, value, whether it is marked Final."""
    for node in tree.body:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                yield node, ast.unparse(target), node.value, False
        elif isinstance(node, ast.AnnAssign):
            yield node, ast.unparse(node.target), node.value, ast.unparse(node.annotation).startswith("Final")


def instances(source: Source) -> frozenset[str]:
    """Names in a module that are classes of this project: its own, and those it imports from the project."""
    own = {node.name for node in source.tree.body if isinstance(node, ast.ClassDef)}
    for node in source.tree.body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in ("actors", "runtime"):
            own |= {alias.name for alias in node.names if alias.name[0].isupper() and not alias.name.isupper()}
    return frozenset(own) - TYPES


def module_state(source: Source) -> list[str]:
    """Containers and instances that are made at module level and not marked Final."""
    classes = instances(source)
    found = []
    for node, name, value, final in assignments(source.tree):
        if final or name == "__all__" or source.comment(node, "global"):
            continue
        if mutable(value):
            found.append(source.at(node, f"{name} can change: mark it Final, or move it into an object"))
        elif isinstance(value, ast.Call) and called(value) in classes:
            found.append(source.at(node, f"{name} is an instance made at import: mark it Final if it is frozen"))
    return found


def changed_constants(source: Source) -> list[str]:
    """Places where a module-level container is changed, and `global` statements."""
    names = {name for _, name, value, _ in assignments(source.tree) if mutable(value)}
    found = []
    for node in ast.walk(source.tree):
        target: ast.AST | None = None
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del):
            target = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CHANGING:
            target = node.func.value
        elif isinstance(node, ast.Global) and not source.comment(node, "global"):
            found.append(source.at(node, f"global {', '.join(node.names)} needs a '# global: reason'"))
        if isinstance(target, ast.Name) and target.id in names and not source.comment(node, "global"):
            found.append(source.at(node, f"the constant {target.id} is changed here"))
    return found


def test_modules_hold_no_state() -> None:
    report([line for source in sources("actors", "runtime", "bench") for line in module_state(source)])


def test_constants_stay_constant() -> None:
    report([line for source in sources("actors", "runtime", "bench") for line in changed_constants(source)])


def test_planted_offences_are_found() -> None:
    assert len(module_state(source_of("a = {}\nb: list[int] = []\nc: Final = {1: 2}\n__all__ = ['a']\n"))) == 2
    assert len(module_state(source_of("class Engine: pass\nengine = Engine()\n"))) == 1
    assert len(module_state(source_of("from runtime.flow import Flow\nflow = Flow()\n"))) == 1
    assert (
        len(changed_constants(source_of("C: Final = {}\n\n\ndef f(x):\n    C[x] = 1\n    C.pop(2)\n    x.pop(1)\n")))
        == 2
    )
    assert len(changed_constants(source_of("def f():\n    global a\n    a = 1\n"))) == 1
    assert not module_state(source_of("# global: the task that this worker runs\ncurrent = []\n"))
