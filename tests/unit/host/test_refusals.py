"""A machine that refuses something is no bug, and the error says whose limit it is."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from runtime.errors import EngineUnavailable
from runtime.host.refusals import is_refusal, obituary, unavailable

PROGRAM = """
import sys
from runtime import Runtime
from runtime.errors import MainspringError
if __name__ == "__main__":
    try:
        with Runtime(sys.argv[1]) as rt:
            print(rt.submit(abs, -3).result(30))
    except MainspringError as refused:
        print(refused)
"""


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.EMFILE, "ulimit -n"),
        (errno.ENOMEM, "memory limit of the container"),
        (errno.ENOSPC, "--shm-size"),
        (errno.EPERM, "seccomp"),
    ],
)
def test_a_refusal_names_the_limit(number: int, words: str) -> None:
    refusal = OSError(number, os.strerror(number))
    error = unavailable("it cannot start", refusal)
    assert is_refusal(refusal)
    assert type(error) is EngineUnavailable
    assert words in error.message
    assert os.strerror(number) in error.message


def test_a_file_that_is_forbidden_is_no_matter_of_containers() -> None:
    refusal = PermissionError(errno.EACCES, os.strerror(errno.EACCES), "/etc/shadow")
    assert not is_refusal(refusal)
    assert "seccomp" not in unavailable("it cannot start", refusal).message


def test_what_is_not_known_is_repeated() -> None:
    assert not is_refusal(OSError("odd"))
    assert not is_refusal(ValueError("odd"))
    assert unavailable("it cannot start", OSError("odd")).message == "it cannot start: odd"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("limit", "most", "words"),
    [
        (resource.RLIMIT_NOFILE, 20, "too many open files"),
        (resource.RLIMIT_NOFILE, 30, "too many open files"),
        (resource.RLIMIT_FSIZE, 100_000, "ulimit -f"),
    ],
    ids=["20 files", "30 files", "100 kB"],
)
def test_a_start_that_is_refused_something_is_told_as_such(tmp_path: Path, limit: int, most: int, words: str) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, program, tmp_path / "state"],
        env={**os.environ, "PYTHONPATH": os.getcwd(), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        preexec_fn=lambda: resource.setrlimit(limit, (most, most)),
    )
    assert done.stdout.startswith("[MS208]"), done.stdout + done.stderr
    assert words in done.stdout


def test_how_an_end_is_told() -> None:
    assert obituary({"did": "engine_exited", "status": 9}) == "the engine process was killed by signal 9"
    assert obituary({"did": "spawner_exited", "status": 256}) == "the spawner process ended with exit code 1"
    assert "no memory" in obituary({"did": "refused", "text": "no memory"})
