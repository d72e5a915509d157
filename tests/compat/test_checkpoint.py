"""Checkpoints of released versions are read, and gone on with."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from uuid import UUID

import pytest

from actors.saved import SavedPart
from runtime.storage.checkpoint import CHECKPOINT_FORMAT, CHECKPOINT_NAME, CheckpointFile
from tests.compat.make_checkpoint import LSN, parts
from tests.compat.make_log import UUID_TEXT

HERE = Path(__file__).parent
FOLDERS = sorted(path.name for path in HERE.glob("checkpoint_v*") if path.is_dir())


def found(path: Path) -> tuple[int, list[SavedPart]]:
    checkpoint = CheckpointFile.read(str(path), UUID(UUID_TEXT))
    assert checkpoint is not None
    with checkpoint:
        return checkpoint.lsn, list(checkpoint.parts())


def format_of(path: Path) -> int:
    with closing(sqlite3.connect(path / CHECKPOINT_NAME)) as database:
        (format_,) = database.execute("SELECT value FROM meta WHERE name = 'format'").fetchone()
        return int(format_)


def test_each_format_has_its_folder() -> None:
    assert [format_of(HERE / name) for name in FOLDERS] == list(range(1, CHECKPOINT_FORMAT + 1))


@pytest.mark.parametrize("name", FOLDERS)
def test_it_is_read_and_gone_on_with(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    shutil.copytree(HERE / name, path)
    assert found(path) == (LSN, parts(LSN))
    for lsn in range(LSN + 1, LSN + 4):
        with CheckpointFile.write(str(path), UUID(UUID_TEXT)) as checkpoint:
            checkpoint.put(lsn, parts(lsn), [1, 7])
        assert found(path) == (lsn, parts(lsn))
    assert format_of(path) == CHECKPOINT_FORMAT
