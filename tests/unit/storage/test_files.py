"""The real disk, where it differs from the fake: see tests/conformance/test_files.py for what they share."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from actors.protocol import limits
from runtime.storage.files import ASIDE, DiskFiles, write_all, write_whole


class Stingy:
    """A file that takes a few bytes at a time."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.content = b""
        self.calls = 0

    def write(self, pieces: Sequence[bytes]) -> int:
        taken = b"".join(pieces)[: self.most]
        self.content += taken
        self.calls += 1
        return len(taken)

    def sync(self) -> None: ...

    def truncate(self, size: int) -> None: ...

    def size(self) -> int:
        return len(self.content)

    def close(self) -> None: ...


@pytest.mark.parametrize("most", [1, 2, 3, 5, 100])
def test_short_writes_are_continued_where_they_stopped(most: int) -> None:
    file = Stingy(most)
    write_all(file, [b"abc", b"", b"defgh", b"i"])
    assert file.content == b"abcdefghi"
    assert file.calls == -(-9 // most)


def test_more_pieces_than_one_call_takes(tmp_path: Path) -> None:
    pieces = [b"%d," % i for i in range(2 * limits.LOG_PIECES_PER_WRITE_MAX + 3)]
    file = DiskFiles().create(str(tmp_path / "many"))
    write_all(file, pieces)
    file.close()
    assert (tmp_path / "many").read_bytes() == b"".join(pieces)


def test_a_file_is_closed_once(tmp_path: Path) -> None:
    file = DiskFiles().create(str(tmp_path / "file"))
    file.close()
    file.close()


def test_write_whole_replaces_and_leaves_nothing_aside(tmp_path: Path) -> None:
    files = DiskFiles()
    write_whole(files, str(tmp_path), "name", b"old")
    write_whole(files, str(tmp_path), "name", b"new")
    assert (tmp_path / "name").read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["name"]


def test_descriptors_are_not_inherited(tmp_path: Path) -> None:
    file = DiskFiles().create(str(tmp_path / "file"))
    assert not os.get_inheritable(file._fd)
    file.close()


def test_aside_is_no_segment_name() -> None:
    assert ASIDE.startswith(".")
    assert ASIDE != ".seg"
