"""The examples run as scripts, from anywhere, and leave nothing where they were started but what they say."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.tidy.tree import ROOT, files

pytestmark = pytest.mark.slow

EXAMPLES: Final = [path for path in files() if path.startswith("examples/") and path.endswith(".py")]
SAYS: Final = {
    "examples/hello.py": "Hello, Ada! Hello, Grace! Hello, Barbara!\n",
    "examples/etl.py": "east ",
    "examples/dynamic.py": " lines of Python\n",
    "examples/index_stdlib.py": "run succeeded in ",
}


def run(*command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Python in development mode, with warnings as errors, elsewhere than in the project, with a temporary folder."""
    temporary = cwd.parent / f"{cwd.name}-temporary"
    temporary.mkdir()
    return subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", *map(str, command)],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(temporary)},
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_each_example_is_known_here() -> None:
    assert set(EXAMPLES) == set(SAYS)


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_example_runs_as_a_script(example: str, tmp_path: Path) -> None:
    done = run(ROOT / example, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert SAYS[example] in done.stdout
    assert "Traceback" not in done.stderr
    assert {path.name for path in tmp_path.iterdir()} <= {"demo-out"}


@pytest.mark.parametrize("example", [e for e in EXAMPLES if e != "examples/index_stdlib.py"])
def test_the_example_runs_by_the_command(example: str, tmp_path: Path) -> None:
    """As each of them says at its head; the report is written, and shown in words."""
    done = run("-m", "runtime", "run", ROOT / example, "--report", "out.html", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "succeeded" in done.stdout
    assert "Traceback" not in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["out.html"]
    assert (tmp_path / "out.html").read_text(encoding="utf-8").startswith("<!doctype html>")
