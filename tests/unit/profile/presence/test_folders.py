"""Whose a folder is that somebody else makes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from runtime.host import kernel
from runtime.profile.presence.folders import Owner, make_folder, owner_of, sweep_requests, write_anew

ME = Owner(os.geteuid(), os.getegid())
NOBODY = Owner(65534 if ME.uid != 65534 else 65533, 65534)
"""Somebody else, also where these tests are nobody's."""


def test_ones_own(tmp_path: Path) -> None:
    made = tmp_path / "made"
    make_folder(made, ME)
    make_folder(made, ME)
    assert (owner_of(made).uid, made.stat().st_mode & 0o777) == (ME.uid, 0o700)
    with pytest.raises(FileExistsError):
        make_folder(made, ME, anew=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives away what it made")
def test_another_ones(tmp_path: Path) -> None:
    made = tmp_path / "made"
    make_folder(made, NOBODY)
    assert owner_of(made) == NOBODY
    mine = tmp_path / "mine"
    mine.mkdir()
    make_folder(mine, NOBODY)
    assert owner_of(mine) == NOBODY, "root left it behind, and its user could not get in"


def test_nothing_is_given_away_by_a_link(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir()
    link = tmp_path / "link"
    link.symlink_to(target)
    with pytest.raises(OSError, match="link"):
        make_folder(link, NOBODY)
    assert owner_of(target).uid == ME.uid


def test_what_cannot_be_given_away_is_not_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise PermissionError("no")

    monkeypatch.setattr(os, "fchown", refused)
    with pytest.raises(PermissionError):
        make_folder(tmp_path / "made", NOBODY)
    assert not list(tmp_path.iterdir())


def test_a_file_is_written_anew_and_not_where_a_link_leads(tmp_path: Path) -> None:
    target, file = tmp_path / "target", tmp_path / "file"
    target.write_bytes(b"theirs")
    file.symlink_to(target)
    write_anew(file, b"ours", ME)
    assert (file.read_bytes(), target.read_bytes()) == (b"ours", b"theirs")
    write_anew(file, b"again", NOBODY if ME.uid == 0 else ME)
    assert file.read_bytes() == b"again"
    assert owner_of(file).uid == (NOBODY if ME.uid == 0 else ME).uid


def test_only_what_a_dead_one_asked_is_removed(tmp_path: Path) -> None:
    mine = tmp_path / f"ask-{os.getpid()}-{kernel.start_time(os.getpid())}-1f"
    dead = tmp_path / f"ask-{os.getpid()}-1-1f"
    others = [tmp_path / "ask-not-ours-x", tmp_path / "bundles"]
    for folder in (mine, dead, *others):
        folder.mkdir()
        (folder / "answer").write_bytes(b"")
    sweep_requests(tmp_path)
    assert sorted(tmp_path.iterdir()) == sorted([mine, *others])
    sweep_requests(tmp_path / "nowhere")
