"""Leftovers: the next owner of a folder ends what the one before could not, and nobody else."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime.host import leftovers
from runtime.host.launch import MARK


def started(value: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process that reads for ever, with this value of the mark."""
    reads = [sys.executable, "-c", "input()"]
    with subprocess.Popen(reads, stdin=subprocess.PIPE, env={**os.environ, MARK: value}) as process:
        yield process
        process.kill()


@pytest.fixture
def mark() -> str:
    """The mark of a spawner that is no more."""
    return f"1-{secrets.token_hex(8)}"


@pytest.fixture
def left(mark: str) -> Iterator[subprocess.Popen[bytes]]:
    """What its handlers had started."""
    yield from started(mark)


@pytest.fixture
def other() -> Iterator[subprocess.Popen[bytes]]:
    """What somebody else has started."""
    yield from started(f"1-{secrets.token_hex(8)}")


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch) -> str:
    """The mark of this process."""
    value = f"2-{secrets.token_hex(8)}"
    monkeypatch.setenv(MARK, value)
    return value


def test_the_next_owner_ends_what_was_left(
    tmp_path: Path, mark: str, own: str, left: subprocess.Popen[bytes], other: subprocess.Popen[bytes]
) -> None:
    (tmp_path / leftovers.NAME).write_text(f"{MARK}={mark}")
    assert leftovers.take_over(str(tmp_path)) == 1
    assert left.wait() < 0
    assert other.poll() is None
    assert (tmp_path / leftovers.NAME).read_text() == f"{MARK}={own}"


def test_an_engine_that_is_started_again_by_the_same_spawner_ends_nobody(
    tmp_path: Path, mark: str, left: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(MARK, mark)
    for _ in range(2):
        assert leftovers.take_over(str(tmp_path)) == 0
    assert left.poll() is None


@pytest.mark.parametrize("content", ["", "PATH=", f"{MARK}=", f"{MARK}=1-xyz", "\0\xff"])
def test_what_is_no_mark_is_ignored(tmp_path: Path, own: str, content: str) -> None:
    (tmp_path / leftovers.NAME).write_text(content, encoding="latin-1")
    assert leftovers.take_over(str(tmp_path)) == 0


def test_an_orderly_end_leaves_no_mark(tmp_path: Path, own: str) -> None:
    leftovers.take_over(str(tmp_path))
    leftovers.let_go(str(tmp_path))
    leftovers.let_go(str(tmp_path))
    assert os.listdir(tmp_path) == []
