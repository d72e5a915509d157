"""Copies of what a crash left: put right, and nothing of them stays behind, however their reader ends."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from actors.protocol.errors import StateFolderError
from runtime.storage import private_copy as module
from runtime.storage.private_copy import PREFIX, open_copy

_READER = """
import os, signal, sys
from runtime.storage import private_copy
when, path = sys.argv[1:]
if when == "while copying":
    private_copy.shutil.copyfile = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
database = private_copy.open_copy(path)
assert database.execute("SELECT * FROM t").fetchall() == [(1,)]
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """For temporary files."""
    path = tmp_path / "temporary"
    path.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(path))
    monkeypatch.setenv("TMPDIR", str(path))
    return path


@pytest.fixture
def left(tmp_path: Path) -> str:
    """A file and its journal, as a writer leaves them that is killed."""
    with sqlite3.connect(tmp_path / "whole.db", isolation_level=None) as database:
        database.execute("CREATE TABLE t(x)")
        database.execute("INSERT INTO t VALUES (1)")
        database.execute("PRAGMA cache_size=1")
        database.execute("BEGIN")
        database.execute("UPDATE t SET x = 2")
        database.executemany("INSERT INTO t VALUES (?)", [("x" * 3000,)] * 50)
        for suffix in ("", "-journal"):
            (tmp_path / f"left.db{suffix}").write_bytes((tmp_path / f"whole.db{suffix}").read_bytes())
        database.execute("ROLLBACK")
    database.close()
    return str(tmp_path / "left.db")


def test_it_is_what_was_before_the_crash_and_has_no_name(folder: Path, left: str) -> None:
    before = Path(left).read_bytes()
    database = open_copy(left)
    try:
        assert not list(folder.iterdir())
        for _ in range(3):
            assert database.execute("SELECT * FROM t").fetchall() == [(1,)]
    finally:
        database.close()
    assert Path(left).read_bytes() == before


@pytest.mark.parametrize("when", ["while copying", "while reading"])
def test_of_a_reader_that_is_killed_nothing_stays(folder: Path, left: str, when: str) -> None:
    done = subprocess.run([sys.executable, "-c", _READER, when, left], check=False)
    assert done.returncode == -signal.SIGKILL
    assert len(list(folder.iterdir())) == (when == "while copying")
    open_copy(left).close()
    assert not list(folder.iterdir())


def test_what_another_reader_makes_just_now_is_left_alone(folder: Path, left: str) -> None:
    theirs, held = module._made()
    (folder / "other").mkdir()
    open_copy(left).close()
    assert {path.name for path in folder.iterdir()} == {"other", os.path.basename(theirs)}
    assert os.path.basename(theirs).startswith(PREFIX)
    os.close(held)


def test_a_file_that_is_none_leaves_nothing(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "none.db").write_bytes(b"x" * 5000)
    with pytest.raises(sqlite3.DatabaseError):
        open_copy(str(tmp_path / "none.db"))
    assert not list(folder.iterdir())


def test_no_room_for_it_is_an_error_of_ours(folder: Path, left: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(folder / "missing"))
    with pytest.raises(StateFolderError, match="no copy"):
        open_copy(left)
