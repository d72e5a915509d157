"""Fresh processes: they talk in lines of JSON, say what went wrong, and leave nobody behind."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from runtime.bench import fresh
from runtime.bench.figures import BenchError

pytestmark = pytest.mark.slow

TALK = """
from runtime.bench import fresh
fresh.say([value * 2 for value in fresh.arguments()])
fresh.listen()
"""
PARENT = """
import subprocess, sys
from runtime.bench import fresh
child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
fresh.say(child.pid)
fresh.listen()
"""


def fail() -> None:
    """Runs in the child."""
    raise BenchError("nothing works")


def test_arguments_go_in_and_values_come_out() -> None:
    with fresh.FreshProcess(TALK, 1, 21) as child:
        assert child.hear() == [2, 42]
        child.finish()


def test_byte_code_is_kept_where_asked_whatever_the_environment_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    with fresh.FreshProcess(TALK, 1, byte_code=tmp_path / "kept") as child:
        child.hear()
        child.finish()
    assert list((tmp_path / "kept").rglob("fresh.*.pyc"))
    with fresh.FreshProcess("import sys; from runtime.bench import fresh; fresh.say(sys.dont_write_bytecode)") as child:
        assert child.hear() is True


def test_a_child_that_ends_early_is_an_error() -> None:
    with fresh.FreshProcess("raise SystemExit(3)") as child, pytest.raises(BenchError, match="status 3"):
        child.hear()


def test_a_failure_arrives_as_one_line() -> None:
    code = "from runtime.bench import fresh\ndef f(): raise OSError('disk gone')\nfresh.run(f)"
    with fresh.FreshProcess(code) as child, pytest.raises(BenchError, match="OSError: disk gone"):
        child.hear()


def test_a_program_names_an_importable_function() -> None:
    assert fresh.program(fail) == f"from runtime.bench import fresh; from {__name__} import fail as f; fresh.run(f)"


def test_leaving_kills_the_whole_family() -> None:
    with fresh.FreshProcess(PARENT) as child:
        grandchild = child.hear()
        assert set(child.family()) == {child.pid, grandchild}
    assert not psutil.pid_exists(grandchild) or psutil.Process(grandchild).status() == psutil.STATUS_ZOMBIE


def test_killing_a_process_that_is_gone_is_no_error() -> None:
    fresh.kill_all([2**22 + 1])
