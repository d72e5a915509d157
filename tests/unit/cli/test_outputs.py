"""Files written whole or not at all, and scratch folders that do not stay."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from actors.protocol.errors import EnvironmentFault
from runtime.cli.outputs import check_writable, state_folder, sweep_scratch, write_output


def test_a_file_is_written_with_usual_rights(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    write_output(path, b"one")
    usual = tmp_path / "usual"
    usual.write_bytes(b"")
    assert path.stat().st_mode == usual.stat().st_mode
    path.chmod(0o600)
    write_output(path, b"two")
    assert path.read_bytes() == b"two"
    assert path.stat().st_mode & 0o777 == 0o600
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["out.json", "usual"]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_bytes(b"old")
    link.symlink_to(target)
    write_output(link, b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"


def test_a_device_is_written_as_it_is() -> None:
    write_output(Path(os.devnull), b"gone")
    assert not Path(os.devnull).is_file()


def test_places_that_cannot_be_written_are_refused_before_the_work(tmp_path: Path) -> None:
    check_writable(None)
    check_writable(tmp_path / "new")
    for place, why in [(tmp_path, "is a folder"), (tmp_path / "none" / "x", "does not exist")]:
        with pytest.raises(EnvironmentFault, match=why):
            check_writable(place)
    with pytest.raises(EnvironmentFault, match="cannot be written"):
        write_output(tmp_path / "none" / "x", b"")


def test_a_scratch_folder_is_removed_and_a_given_one_is_kept(tmp_path: Path) -> None:
    with state_folder(tmp_path) as given:
        assert given == tmp_path
    with pytest.raises(KeyboardInterrupt), state_folder(None) as scratch:
        scratch.mkdir()
        (scratch / "file").write_bytes(b"x")
        raise KeyboardInterrupt
    assert not scratch.parent.exists()


def test_what_a_kill_left_is_swept_at_the_next_start(temporary_folder: Path) -> None:
    dead = temporary_folder / "mainspring-run-4194305-abc"  # above the highest pid
    alive = temporary_folder / f"mainspring-run-{os.getpid()}-abc"
    other = temporary_folder / "mainspring-run-x"
    for folder in (dead, alive, other):
        folder.mkdir()
        (folder / "file").write_bytes(b"")
    sweep_scratch()
    assert [folder.exists() for folder in (dead, alive, other)] == [False, True, True]
    for folder in (alive, other):
        (folder / "file").unlink()
        folder.rmdir()
