"""Rules for tests: they wait for signals and never sleep, and stand where their sources stand."""

from __future__ import annotations

import ast
from pathlib import PurePosixPath
from typing import Final

from tests.tidy.tree import Source, files, report, source_of, sources

SLEEPS: Final = frozenset({"time.sleep", "sleep", "asyncio.sleep"})


def sleeps(source: Source) -> list[str]:
    """Sleeps in tests.

    Handler modules run in workers, and programs are hosts that tests watch: they may. `sleep(0)` is none; others say
    `# sleep: why`.
    """
    path = PurePosixPath(source.path)
    if "handlers" in path.stem.split("_") or {"handlers", "programs"} & set(path.parts):
        return []
    found = []
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.Call) or ast.unparse(node.func) not in SLEEPS or source.comment(node, "sleep"):
            continue
        if not (node.args and isinstance(node.args[0], ast.Constant) and node.args[0].value == 0):
            found.append(source.at(node, "a test waits for a signal, or moves a virtual clock"))
    return found


def homeless(path: str, product: frozenset[str]) -> bool:
    """Whether a unit test stands for no source: tests/unit/.../test_x.py needs an x.py in a package of that name."""
    parts = PurePosixPath(path).parts
    folder, stem = parts[2:-1], parts[-1].removeprefix("test_").removesuffix(".py")
    for source in product:
        where = PurePosixPath(source)
        fits = where.parts[:-1][-len(folder) :] == folder if folder else True
        if fits and (stem == where.stem or stem.startswith(where.stem + "_")):
            return False
    return True


def unit_tests() -> list[str]:
    """Paths of the unit tests."""
    return [path for path in files() if path.startswith("tests/unit/") and PurePosixPath(path).name.startswith("test_")]


def test_no_test_sleeps() -> None:
    report([line for source in sources("tests") for line in sleeps(source)])


def test_unit_tests_mirror_their_sources() -> None:
    product = frozenset(path for path in files() if path.startswith(("actors/", "runtime/", "bench/")))
    report([f"{path}: stands for no source" for path in unit_tests() if homeless(path, product)])


def test_planted_offences_are_found() -> None:
    assert sleeps(source_of("import time\ntime.sleep(1)\n", "tests/unit/planted.py"))
    assert not sleeps(source_of("import time\ntime.sleep(1)\n", "tests/scenarios/handlers.py"))
    assert not sleeps(source_of("await_ = asyncio.sleep(0)\n", "tests/unit/planted.py"))
    assert not sleeps(source_of("sleep(1)  # sleep: runs in a worker\n", "tests/unit/planted.py"))
    product = frozenset({"runtime/mail/ring.py"})
    assert not homeless("tests/unit/mail/test_ring.py", product)
    assert not homeless("tests/unit/runtime/mail/test_ring_wrap.py", product)
    assert homeless("tests/unit/mail/test_cube.py", product)
