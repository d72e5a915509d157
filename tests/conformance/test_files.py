"""One contract for the seam to the disk, held against the real disk and the fake one."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime.storage.files import ASIDE, DiskFiles, Files, write_all, write_whole
from tests.sim.disk import FakeDisk


class Place:
    """A seam and a folder that exists on it."""

    def __init__(self, files: Files, folder: str) -> None:
        self.files = files
        self.folder = folder

    def path(self, name: str) -> str:
        return f"{self.folder}/{name}"

    def put(self, name: str, *pieces: bytes) -> None:
        file = self.files.create(self.path(name))
        write_all(file, list(pieces))
        file.close()


@pytest.fixture(params=["real", "fake"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    if request.param == "real":
        yield Place(DiskFiles(), str(tmp_path))
        return
    disk = FakeDisk()
    disk.make_folder("/folder")
    yield Place(disk, "/folder")
    assert disk.files_open == 0


def test_what_is_written_is_visible_at_once(place: Place) -> None:
    file = place.files.create(place.path("a"))
    assert file.write([b"one", b"", b"two"]) == 6
    assert place.files.read(place.path("a")) == b"onetwo"
    assert file.size() == place.files.size(place.path("a")) == 6
    file.close()


def test_writing_nothing_is_harmless(place: Place) -> None:
    file = place.files.create(place.path("a"))
    assert file.write([b""]) == 0
    file.sync()
    file.close()
    assert place.files.read(place.path("a")) == b""


def test_writes_append(place: Place) -> None:
    place.put("a", b"one")
    file = place.files.open(place.path("a"))
    assert file.size() == 3
    file.write([b"two"])
    file.sync()
    file.write([b"three"])
    file.close()
    assert place.files.read(place.path("a")) == b"onetwothree"


def test_after_a_cut_writing_goes_on_at_the_cut(place: Place) -> None:
    place.put("a", b"one-two")
    file = place.files.open(place.path("a"))
    file.truncate(3)
    file.truncate(3)
    assert file.size() == 3
    file.write([b"!"])
    file.close()
    assert place.files.read(place.path("a")) == b"one!"


def test_create_replaces(place: Place) -> None:
    place.put("a", b"old and long")
    place.put("a", b"new")
    assert place.files.read(place.path("a")) == b"new"
    assert place.files.list(place.folder) == ["a"]


def test_several_files_are_read_in_their_order_and_none_may_be_missing(place: Place) -> None:
    for name in "abc":
        place.put(name, name.encode() * 5)
    assert place.files.read_together([place.path(name) for name in "cab"]) == [b"ccccc", b"aaaaa", b"bbbbb"]
    assert place.files.read_together([]) == []
    with pytest.raises(FileNotFoundError):
        place.files.read_together([place.path("a"), place.path("missing")])


def test_a_part_can_be_read(place: Place) -> None:
    place.put("a", b"0123456789")
    assert place.files.read(place.path("a"), 4) == b"0123"
    assert place.files.read(place.path("a"), 0) == b""
    assert place.files.read(place.path("a"), 100) == b"0123456789"


def test_rename_replaces(place: Place) -> None:
    place.put("a", b"new")
    place.put("b", b"old")
    place.files.rename(place.path("a"), place.path("b"))
    assert place.files.list(place.folder) == ["b"]
    assert place.files.read(place.path("b")) == b"new"


def test_an_open_file_keeps_its_bytes_when_its_name_changes(place: Place) -> None:
    file = place.files.create(place.path("a"))
    file.write([b"one"])
    place.files.rename(place.path("a"), place.path("b"))
    file.write([b"two"])
    file.close()
    assert place.files.read(place.path("b")) == b"onetwo"


def test_a_removed_file_can_still_be_written_by_who_has_it_open(place: Place) -> None:
    file = place.files.create(place.path("a"))
    place.files.remove(place.path("a"))
    assert file.write([b"one"]) == 3
    assert place.files.list(place.folder) == []
    file.close()


@pytest.mark.parametrize("operation", ["read", "size", "open", "remove"])
def test_a_missing_file_is_said_to_be_missing(place: Place, operation: str) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        getattr(place.files, operation)(place.path("missing"))
    assert caught.value.errno == errno.ENOENT


def test_a_missing_folder_is_said_to_be_missing(place: Place) -> None:
    with pytest.raises(FileNotFoundError):
        place.files.list(place.path("missing"))
    with pytest.raises(FileNotFoundError):
        place.files.create(place.path("missing/a"))
    with pytest.raises(FileNotFoundError):
        place.files.rename(place.path("missing"), place.path("b"))


def test_folders_are_made_once(place: Place) -> None:
    place.files.make_folder(place.path("sub"))
    place.files.make_folder(place.path("sub"))
    assert place.files.list(place.path("sub")) == []
    place.files.sync_folder(place.path("sub"))
    place.put("file", b"x")
    with pytest.raises(FileExistsError):
        place.files.make_folder(place.path("file"))


def test_closing_twice_is_harmless(place: Place) -> None:
    file = place.files.create(place.path("a"))
    file.close()
    file.close()


def test_write_whole_puts_a_file_in_place(place: Place) -> None:
    place.put("a" + ASIDE, b"left by a crash")
    write_whole(place.files, place.folder, "a", b"whole")
    assert place.files.read(place.path("a")) == b"whole"
    assert place.files.list(place.folder) == ["a"]


def test_many_pieces(place: Place) -> None:
    pieces = [b"%d" % number for number in range(3000)]
    place.put("a", *pieces)
    assert place.files.read(place.path("a")) == b"".join(pieces)
