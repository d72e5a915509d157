"""What CPython's own tests ask of a pool and cannot ask of ours in their words: crashes, initialisers, exit."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from concurrent.futures import BrokenExecutor
from pathlib import Path
from typing import Any

import pytest

from runtime.executor import Executor
from tests.tidy.tree import ROOT

pytestmark = [pytest.mark.cpython, pytest.mark.slow]


class BreaksOnLoad:
    """Pickles, and raises when it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return int, ("not a number",)


def make_breaking() -> BreaksOnLoad:
    """A result that cannot be loaded."""
    return BreaksOnLoad()


def fail() -> None:
    """An initialiser that fails."""
    raise ValueError("error in initialiser")


def run_script(text: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a program that ends by itself, as the interpreter of a user would."""
    script = folder / "program.py"
    script.write_text(textwrap.dedent(text), encoding="utf-8")
    return subprocess.run(
        [sys.executable, script],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_crash_fails_its_own_task_and_the_pool_refills() -> None:
    with Executor(max_workers=2) as executor:
        crashed = executor.submit(os._exit, 3)
        with pytest.raises(BrokenExecutor):
            crashed.result(timeout=60)
        assert executor.submit(pow, 2, 8).result(timeout=60) == 256


def test_an_argument_that_cannot_be_loaded_fails_its_own_task() -> None:
    with Executor(max_workers=1) as executor:
        with pytest.raises(Exception, match="not a number"):
            executor.submit(id, BreaksOnLoad()).result(timeout=60)
        assert executor.submit(pow, 2, 8).result(timeout=60) == 256


def test_a_result_that_cannot_be_loaded_fails_its_own_task() -> None:
    with Executor(max_workers=1) as executor:
        with pytest.raises(Exception, match="not a number"):
            executor.submit(make_breaking).result(timeout=60)
        assert executor.submit(pow, 2, 8).result(timeout=60) == 256


def test_a_failing_initialiser_breaks_the_executor() -> None:
    with (
        Executor(max_workers=1, initializer=fail) as executor,
        pytest.raises(BrokenExecutor, match="error in initialiser"),
    ):
        executor.submit(pow, 2, 8).result(timeout=60)


def test_work_that_was_accepted_is_done_when_the_program_ends_without_shutdown(tmp_path: Path) -> None:
    done = run_script(
        """
        from pathlib import Path
        from runtime import Executor
        if __name__ == "__main__":
            executor = Executor(2)
            executor.submit(Path.write_text, Path("apple"), "apple")
        """,
        tmp_path,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "apple").read_text() == "apple"


def test_work_goes_on_after_shutdown_without_waiting(tmp_path: Path) -> None:
    done = run_script(
        """
        from pathlib import Path
        from runtime import Executor
        if __name__ == "__main__":
            executor = Executor(2)
            executor.submit(Path.write_text, Path("apple"), "apple")
            executor.shutdown(wait=False)
        """,
        tmp_path,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "apple").read_text() == "apple"


def test_nothing_is_accepted_once_the_interpreter_ends(tmp_path: Path) -> None:
    done = run_script(
        """
        import atexit
        from runtime import Executor
        if __name__ == "__main__":
            @atexit.register
            def run_last():
                try:
                    executor.submit(id, None)
                except RuntimeError:
                    print("runtime-error")
            executor = Executor(2)
            executor.submit(id, 42).result()
        """,
        tmp_path,
    )
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "runtime-error", "")


def test_a_dropped_executor_leaves_nothing_behind() -> None:
    executor = Executor(max_workers=2)
    results = executor.map(abs, range(-5, 5))
    del executor
    assert list(results) == [5, 4, 3, 2, 1, 0, 1, 2, 3, 4]
