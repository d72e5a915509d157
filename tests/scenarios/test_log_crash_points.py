"""Salvage and import, killed at every single thing that they do to the disk: all is there afterwards, or nothing is.

A forked child does the work and ends, without a word and with nothing flushed, at its n-th call that changes a file,
for n = 1, 2, 3, ... until it comes to its end.
"""

from __future__ import annotations

import io
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from actors.protocol.errors import StateFolderError
from runtime.storage import files as seam
from runtime.storage.contents import check_contents
from runtime.storage.recovery import summarise
from runtime.storage.rescue import rescue
from runtime.storage.transfer import export_runs, import_runs
from runtime.storage.verify import verify
from tests.unit.storage import state_folders

pytestmark = pytest.mark.slow

CALLS: Final = ("write", "writev", "fsync", "rename", "replace", "mkdir", "ftruncate", "pwrite", "unlink", "sendfile")
POINTS_MAX: Final = 2000


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("made") / "state"
    state_folders.make(path, runs=1)
    return path


def killed_at(point: int, work: Callable[[], object]) -> bool:
    """Do the work in a child that is killed before its n-th change of a file; whether it was."""
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status) or os.waitstatus_to_exitcode(status) == 0
        return os.WIFSIGNALED(status)
    left = point

    def counted(call: Callable[..., Any]) -> Callable[..., Any]:
        def counting(*arguments: Any, **more: Any) -> Any:
            nonlocal left
            left -= 1
            if not left:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*arguments, **more)

        return counting

    code = 1
    try:
        for name in CALLS:
            setattr(os, name, counted(getattr(os, name)))
        seam._sync_fd = counted(seam._sync_fd)
        work()
        code = 0
    finally:
        os._exit(code)


def points(work: Callable[[], object]) -> Iterator[int]:
    """Numbers of the points, after the child was killed there."""
    for point in range(1, POINTS_MAX):
        if not killed_at(point, work):
            return
        yield point
    raise AssertionError("it has no end")


def contents(path: Path) -> dict[str, bytes]:
    return {str(file): file.read_bytes() for file in path.rglob("*") if file.is_file()}


def exported(path: Path) -> bytes:
    out = io.BytesIO()
    export_runs(path, out)
    return out.getvalue()


def test_salvage_killed_anywhere_leaves_the_old_folder_and_no_half_of_a_new_one(state: Path, tmp_path: Path) -> None:
    before, text = contents(state), exported(state)
    new = tmp_path / "new"
    seen = 0
    for _ in points(lambda: rescue(state, new)):
        seen += 1
        assert contents(state) == before
        if new.exists():
            assert exported(new) == text
            shutil.rmtree(new)
        left = new.with_name("new.part")
        if left.exists() and any(left.iterdir()):
            with pytest.raises(StateFolderError, match=r"new\.part is not empty"):
                rescue(state, new)
        shutil.rmtree(left, ignore_errors=True)
    assert seen > 20
    assert exported(new) == text
    assert verify(new).sound


def test_an_import_killed_anywhere_has_entered_all_or_nothing(state: Path, tmp_path: Path) -> None:
    text = exported(state)
    lines = text.splitlines()
    new = tmp_path / "new"
    entered = seen = 0
    for _ in points(lambda: import_runs(new, lines)):
        seen += 1
        if not (new / "mainspring.json").exists():
            shutil.rmtree(new, ignore_errors=True)
            continue
        runs = summarise(new)["runs"]
        assert verify(new).sound
        assert check_contents(new).problems == ()
        if runs:
            entered += 1
            assert exported(new) == text
            shutil.rmtree(new)
        elif seen % 2:  # every other time the next import goes on with what this one has left
            shutil.rmtree(new)
    assert seen > 20
    assert 0 < entered < seen
    assert exported(new) == text
