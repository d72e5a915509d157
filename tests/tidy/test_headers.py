"""Every package and module opens by saying what it is, and the public face is documented to the end.

The public face is what `runtime/__init__.py` lists in `__all__`: classes and functions there, and their public methods,
have a docstring; with parameters it has Args, with a result Returns, with a `raise` of ours in the body Raises.
"""

from __future__ import annotations

import ast
from pathlib import PurePosixPath
from typing import Final

from tests.tidy.tree import PRODUCT, Source, files, report, source_of, sources

HEADER_CHARS_MIN: Final = 20
PACKAGE_CHARS_MIN: Final = 80

Function = ast.FunctionDef | ast.AsyncFunctionDef


def missing_header(source: Source) -> list[str]:
    """A module or package without a header that says something."""
    text = ast.get_docstring(source.tree) or ""
    package = source.path.endswith("__init__.py")
    wanted = PACKAGE_CHARS_MIN if package and source.package in PRODUCT else HEADER_CHARS_MIN
    if len(text) >= wanted:
        return []
    what = "package docstring: what it knows, what it must not know, reading order" if package else "header"
    return [source.at(source.tree, f"needs a {what} ({len(text)} of {wanted} characters)")]


def is_property(function: Function) -> bool:
    """Whether a method reads like an attribute."""
    return any(
        ast.unparse(decorator).rpartition(".")[2] in ("property", "setter") for decorator in function.decorator_list
    )


def is_overload(function: Function) -> bool:
    """Whether this is a signature for type checkers only."""
    return any(ast.unparse(decorator).rpartition(".")[2] == "overload" for decorator in function.decorator_list)


def parameters(function: Function) -> list[str]:
    """Names of the parameters that a caller gives."""
    given = function.args
    named = [argument.arg for argument in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    starred = [argument.arg for argument in (given.vararg, given.kwarg) if argument]
    return [name for name in (*named, *starred) if name not in ("self", "cls")]


def undocumented(source: Source, function: Function, owner: str = "") -> list[str]:
    """What the docstring of a public function lacks."""
    if is_overload(function):
        return []
    name = f"{owner}{function.name}"
    text = ast.get_docstring(function) or ""
    if not text:
        return [source.at(function, f"{name} needs a docstring")]
    lacks = []
    if parameters(function) and not is_property(function):
        lacks += ["Args"] if "Args:" not in text else []
        result = ast.unparse(function.returns) if function.returns else "None"
        lacks += ["Returns"] if result not in ("None", "Self", "NoReturn") and not says_result(text) else []
    raised = (node for node in ast.walk(function) if isinstance(node, ast.Raise) and node.exc is not None)
    lacks += ["Raises"] if any(raised) and "Raises:" not in text else []
    return [source.at(function, f"the docstring of {name} lacks {' and '.join(lacks)}")] if lacks else []


def says_result(text: str) -> bool:
    """A docstring says what comes back under Returns or Yields, or in its first line."""
    return any(word in text for word in ("Returns:", "Yields:")) or text.startswith(("Return", "Yield"))


def undocumented_face(source: Source, names: set[str]) -> list[str]:
    """What is missing in the docstrings of the classes and functions named."""
    found = []
    for node in source.tree.body:
        if not isinstance(node, ast.ClassDef | Function) or node.name not in names:
            continue
        if isinstance(node, Function):
            found += undocumented(source, node)
            continue
        if not ast.get_docstring(node):
            found.append(source.at(node, f"class {node.name} needs a docstring"))
        for method in node.body:
            if isinstance(method, Function) and not method.name.startswith("_"):
                found += undocumented(source, method, f"{node.name}.")
    return found


def face() -> dict[str, set[str]]:
    """Module path -> names, of what `runtime/__init__.py` offers."""
    found: dict[str, set[str]] = {}
    for source in sources("runtime"):
        if source.path == "runtime/__init__.py":
            for node in ast.walk(source.tree):
                if isinstance(node, ast.ImportFrom) and node.module:
                    path = node.module.replace(".", "/") + ".py"
                    found.setdefault(path, set()).update(alias.name for alias in node.names)
    return found


def test_every_module_says_what_it_is() -> None:
    report([line for source in sources() for line in missing_header(source)])


def test_every_product_folder_is_a_package() -> None:
    folders = {str(PurePosixPath(path).parent) for path in files() if path.endswith(".py")}
    product = [folder for folder in folders if folder.split("/")[0] in PRODUCT]
    report([f"{folder} has no __init__.py" for folder in sorted(product) if f"{folder}/__init__.py" not in files()])


def test_the_public_face_is_documented() -> None:
    offered = face()
    found = [source for source in sources("actors", "runtime") if source.path in offered]
    report([line for source in found for line in undocumented_face(source, offered[source.path])])


def test_planted_offences_are_found() -> None:
    assert missing_header(source_of("x = 1\n"))
    planted = source_of(
        "class Face:\n"
        "    '''A face.'''\n"
        "    def good(self, a: int) -> int:\n"
        "        '''Double.\n\n        Args:\n            a: A number.\n\n"
        "        Returns:\n            Its double.\n        '''\n"
        "    def bare(self): ...\n"
        "    def half(self, a: int) -> int:\n"
        "        '''Double.'''\n"
        "        raise ValueError(a)\n"
        "    @property\n"
        "    def state(self) -> str:\n"
        "        '''The state.'''\n"
    )
    found = undocumented_face(planted, {"Face"})
    assert len(found) == 2
    assert found[1].endswith("lacks Args and Returns and Raises")
