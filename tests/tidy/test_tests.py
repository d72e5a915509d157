"""Rules for tests: they wait for signals and never sleep, and stand where their sources stand."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path, PurePosixPath
from typing import Final

from tests.tidy.tree import ROOT, Source, files, report, source_of, sources

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


def racy_looks(source: Source) -> list[str]:
    """Lists of all processes whose members are asked one by one: one that ends meanwhile raises. `process_iter` with
    the names of what is wanted leaves those out; a pid needs no asking."""
    found = []
    for node in ast.walk(source.tree):
        for part in node.generators if isinstance(node, ast.ListComp | ast.GeneratorExp | ast.SetComp) else [node]:
            if not isinstance(part, ast.For | ast.comprehension) or not _lists_all(part.iter):
                continue
            asked = {ast.unparse(call.func) for call in ast.walk(node) if isinstance(call, ast.Call)}
            name = ast.unparse(part.target)
            if racy := sorted(call for call in asked if call.startswith(f"{name}.") and not call.endswith(".kill")):
                found.append(
                    source.at(part.iter, f"{racy[0]}() of a process that may have ended: name it in process_iter")
                )
    return found


def _lists_all(iterated: ast.expr) -> bool:
    return isinstance(iterated, ast.Call) and ast.unparse(iterated.func).endswith("process_iter") and not iterated.args


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


def test_no_process_is_asked_that_may_have_ended() -> None:
    report(
        [
            line
            for folder in ("tests", "runtime", "examples")
            for source in sources(folder)
            for line in racy_looks(source)
        ]
    )


def test_planted_offences_are_found() -> None:
    asked = "[p.name() for p in psutil.process_iter() if p.status() == 1]\n"
    assert racy_looks(source_of(asked, "tests/planted.py"))
    assert racy_looks(source_of("for p in psutil.process_iter():\n    print(p.cmdline())\n", "tests/planted.py"))
    assert not racy_looks(source_of("[p.info for p in psutil.process_iter(['name'])]\n", "tests/planted.py"))
    assert not racy_looks(source_of("[p.pid for p in psutil.process_iter()]\n", "tests/planted.py"))
    assert sleeps(source_of("import time\ntime.sleep(1)\n", "tests/unit/planted.py"))
    assert not sleeps(source_of("import time\ntime.sleep(1)\n", "tests/scenarios/handlers.py"))
    assert not sleeps(source_of("await_ = asyncio.sleep(0)\n", "tests/unit/planted.py"))
    assert not sleeps(source_of("sleep(1)  # sleep: runs in a worker\n", "tests/unit/planted.py"))
    product = frozenset({"runtime/mail/ring.py"})
    assert not homeless("tests/unit/mail/test_ring.py", product)
    assert not homeless("tests/unit/runtime/mail/test_ring_wrap.py", product)
    assert homeless("tests/unit/mail/test_cube.py", product)


SHELLS = """
import os, shutil
from tests.conftest import SPEAKS

def test_shell():
    assert not set(SPEAKS) & set(os.environ)
    assert shutil.get_terminal_size() == (80, 24)
"""


def test_what_a_shell_or_ci_sets_does_not_reach_tests(tmp_path: Path) -> None:
    """Pytest under CI says messages in full, argparse wraps at COLUMNS: what tests read must not depend on it."""
    tmp_path.joinpath("test_shell.py").write_text(SHELLS)
    set_there = {"CI": "true", "COLUMNS": "40", "LINES": "9", "FORCE_COLOR": "1", "NO_COLOR": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.conftest", "-p", "no:cacheprovider", "-n", "0"]
    ran = subprocess.run(
        [*command, f"--rootdir={tmp_path}", f"--basetemp={tmp_path / 'base'}", str(tmp_path / "test_shell.py")],
        cwd=ROOT, env={**os.environ, **set_there}, stdin=subprocess.DEVNULL, capture_output=True, text=True,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr
