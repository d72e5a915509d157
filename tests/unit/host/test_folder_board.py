"""Other processes find the board of a folder by who owns it, and no other board."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from runtime.host.folder_board import board_of_process
from runtime.mail.board import BoardReader, BoardWriter, create_board
from runtime.storage.folder import StateFolder

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="found by /proc")


def board_of(folder: StateFolder) -> BoardReader | None:
    pid = folder.owner_pid()
    return board_of_process(pid, str(folder.uuid)) if pid else None


def test_the_board_of_a_folder_is_found_while_it_is_owned(tmp_path: Path) -> None:
    with StateFolder.open(tmp_path / "state") as folder:
        assert board_of(folder) is None
        fd = create_board(str(folder.uuid))
        writer = BoardWriter(os.dup(fd))
        writer.sweep()
        writer.begin()
        found = board_of(folder)
        assert found is not None
        assert found.incarnation() == 1
        found.close()
        writer.close()
        assert board_of_process(os.getpid(), "another") is None
        assert board_of_process(1 << 30, str(folder.uuid)) is None
    with StateFolder.open(tmp_path / "state", owner=False, create=False) as folder:
        assert board_of(folder) is None, "nobody owns it any more"
    os.close(fd)
