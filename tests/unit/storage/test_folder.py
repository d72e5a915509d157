"""The state folder: identity, ownership, and every wrong thing to find in its place (scenario S13)."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import runtime.storage.folder
from actors.protocol.errors import (
    DiskFull,
    NewerFormat,
    NotAStateFolder,
    OtherShards,
    StateFolderError,
    StateFolderInUse,
)
from runtime.storage.files import ASIDE, DiskFiles
from runtime.storage.folder import IDENTITY_NAME, LOCK_NAME, UNNAMED, StateFolder
from runtime.storage.new_folder import TO_READ


class Refusing(DiskFiles):
    """The real disk, which refuses one operation."""

    def __init__(self, operation: str, error: int) -> None:
        self._operation, self._error = operation, error

    def __getattribute__(self, name: str) -> object:
        if name == object.__getattribute__(self, "_operation"):
            error = object.__getattribute__(self, "_error")

            def refuse(*_: object) -> None:
                raise OSError(error, os.strerror(error))

            return refuse
        return object.__getattribute__(self, name)


def test_a_new_folder_has_its_parts(tmp_path: Path) -> None:
    with StateFolder.open(tmp_path / "state") as folder:
        assert sorted(os.listdir(folder.path)) == ["blobs", "lock", "log", IDENTITY_NAME]
        assert folder.owner
        assert folder.log.folder == os.path.join(folder.path, "log")
        assert folder.log.uuid == folder.uuid
        assert folder.blobs_path == os.path.join(folder.path, "blobs")
        identity = json.loads((tmp_path / "state" / IDENTITY_NAME).read_text())
        assert identity["uuid"] == str(folder.uuid)
        assert identity["created"] == folder.created


def test_it_stays_the_same_folder(tmp_path: Path) -> None:
    with StateFolder.open(tmp_path) as first:
        uuid = first.uuid
    with StateFolder.open(tmp_path) as second:
        assert second.uuid == uuid
    assert StateFolder.open(tmp_path, create=False, owner=False).uuid == uuid


def test_missing_parents_are_made(tmp_path: Path) -> None:
    with StateFolder.open(tmp_path / "a" / "b" / "state") as folder:
        assert os.path.isdir(folder.path)


def test_relative_paths_and_text_are_fine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with StateFolder.open("state/") as folder:
        assert folder.path == os.path.realpath(tmp_path / "state")


def test_a_symbolic_link_to_a_folder_is_followed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    with StateFolder.open(tmp_path / "link") as folder:
        assert folder.path == os.path.realpath(tmp_path / "real")
        with pytest.raises(StateFolderInUse):
            StateFolder.open(tmp_path / "real")


def test_wrong_places_are_refused_with_our_own_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "nowhere").symlink_to("missing")
    (tmp_path / "loop").symlink_to("loop")
    for name, text in {
        "file": "is a file",
        "file/state": "is a file",
        "nowhere": "link to nothing",
        "loop": "link",
        "x" * 300: "too long",
    }.items():
        with pytest.raises(StateFolderError, match=text) as refused:
            StateFolder.open(tmp_path / name)
        with pytest.raises(StateFolderError, match=text) as unread:
            StateFolder.open(tmp_path / name, create=False, owner=False)
        if text in ("is a file", "link to nothing"):
            hints = (refused.value.hint, unread.value.hint)
            assert hints == ("name a folder; or move what is in its place", TO_READ), "no permission would help"


def test_a_name_with_nul_is_refused() -> None:
    with pytest.raises(StateFolderError, match="NUL"):
        StateFolder.open("a\0b")


def test_a_missing_folder_is_not_made_unasked(tmp_path: Path) -> None:
    for owner in (True, False):
        with pytest.raises(StateFolderError, match="does not exist"):
            StateFolder.open(tmp_path / "state", create=False, owner=owner)
    with pytest.raises(StateFolderError, match="does not exist"):
        StateFolder.open(tmp_path / "state", create=True, owner=False)
    assert os.listdir(tmp_path) == []


def test_a_folder_with_other_contents_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(NotAStateFolder):
        StateFolder.open(tmp_path)
    assert os.listdir(tmp_path) == ["thesis.txt"]


@pytest.mark.parametrize("content", ["[]", "{}", '{"magic": "other"}', "null"])
def test_an_identity_of_something_else_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / IDENTITY_NAME).write_text(content)
    with pytest.raises(NotAStateFolder):
        StateFolder.open(tmp_path)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"\0" * 100])
def test_a_damaged_identity_is_named(tmp_path: Path, content: bytes) -> None:
    StateFolder.open(tmp_path).close()
    (tmp_path / IDENTITY_NAME).write_bytes(content)
    with pytest.raises(StateFolderError, match="damaged"):
        StateFolder.open(tmp_path)


@pytest.mark.parametrize("uuid", [None, 5, "x", ""])
def test_an_identity_without_uuid_is_damaged(tmp_path: Path, uuid: object) -> None:
    StateFolder.open(tmp_path).close()
    identity = json.loads((tmp_path / IDENTITY_NAME).read_text())
    identity["uuid"] = uuid
    (tmp_path / IDENTITY_NAME).write_text(json.dumps(identity))
    with pytest.raises(StateFolderError, match="damaged"):
        StateFolder.open(tmp_path)


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    StateFolder.open(tmp_path).close()
    identity = json.loads((tmp_path / IDENTITY_NAME).read_text())
    (tmp_path / IDENTITY_NAME).write_text(json.dumps({**identity, "format": 3}))
    with pytest.raises(NewerFormat):
        StateFolder.open(tmp_path)


def test_the_log_of_a_new_folder_can_lie_in_shards(tmp_path: Path) -> None:
    with StateFolder.open(tmp_path / "state", log_shards=3) as folder:
        assert (folder.log_name, folder.log_shards) == ("log", 3)
        assert [part.folder for part in folder.log.parts()] == [f"{folder.path}/log/{shard}" for shard in range(3)]
        assert sorted(os.listdir(folder.log.folder)) == ["0", "1", "2"]
    assert json.loads((tmp_path / "state" / IDENTITY_NAME).read_text())["format"] == 2
    for same in (None, 3):
        with StateFolder.open(tmp_path / "state", log_shards=same) as folder:
            assert folder.log_shards == 3
    with pytest.raises(OtherShards, match=r"lies in 3 shards, not in 1 .*reshard STATE N"):
        StateFolder.open(tmp_path / "state", log_shards=1)
    StateFolder.open(tmp_path / "state").close()  # the lock was given up


def test_a_log_in_one_piece_is_as_it_always_was(tmp_path: Path) -> None:
    with StateFolder.open(tmp_path, log_shards=1) as folder:
        assert folder.log.folder == os.path.join(folder.path, "log")
    identity = json.loads((tmp_path / IDENTITY_NAME).read_text())
    assert set(identity) == {"magic", "format", "uuid", "created"}
    assert identity["format"] == 1
    with pytest.raises(OtherShards):
        StateFolder.open(tmp_path, log_shards=2)


@pytest.mark.parametrize(
    "log",
    [{"folder": "../x", "shards": 1}, {"folder": "log", "shards": 0}, {"folder": "log", "shards": 65}, {}, "log", 5],
)
def test_a_damaged_place_of_the_log_is_told(log: object, tmp_path: Path) -> None:
    StateFolder.open(tmp_path).close()
    identity = json.loads((tmp_path / IDENTITY_NAME).read_text())
    (tmp_path / IDENTITY_NAME).write_text(json.dumps({**identity, "log": log}))
    with pytest.raises(StateFolderError, match="damaged"):
        StateFolder.open(tmp_path)


def test_contents_without_identity_are_not_taken_for_a_new_folder(tmp_path: Path) -> None:
    StateFolder.open(tmp_path).close()
    (tmp_path / "log" / "00000001.seg").write_bytes(b"x")
    (tmp_path / IDENTITY_NAME).unlink()
    with pytest.raises(StateFolderError, match="missing"):
        StateFolder.open(tmp_path)


@pytest.mark.parametrize("left", [[], [LOCK_NAME], [LOCK_NAME, IDENTITY_NAME + ASIDE], ["lost+found"]])
def test_a_folder_whose_making_was_cut_short_is_made_anew(tmp_path: Path, left: list[str]) -> None:
    for name in left:
        (tmp_path / name).touch()
    with pytest.raises(StateFolderError, match="not a state folder yet"):
        StateFolder.open(tmp_path, create=False)
    with StateFolder.open(tmp_path) as folder:
        assert os.path.isdir(folder.log.folder)


def test_missing_parts_are_made_again(tmp_path: Path) -> None:
    StateFolder.open(tmp_path).close()
    (tmp_path / "log").rmdir()
    with StateFolder.open(tmp_path) as folder:
        assert os.path.isdir(folder.log.folder)


@pytest.mark.parametrize(
    ("operation", "error", "expected", "text"),
    [
        ("make_folder", errno.EACCES, StateFolderError, "permission denied"),
        ("make_folder", errno.EROFS, StateFolderError, "read-only"),
        ("create", errno.ENOSPC, DiskFull, "no space"),
        ("sync_folder", errno.EIO, StateFolderError, "nput/output error"),
        ("read", errno.EACCES, StateFolderError, "permission denied"),
    ],
)
def test_refusals_of_the_system_become_our_errors(
    tmp_path: Path, operation: str, error: int, expected: type[Exception], text: str
) -> None:
    with pytest.raises(expected, match=text) as caught:
        StateFolder.open(tmp_path / "state", files=Refusing(operation, error))
    assert type(caught.value) is expected


# --- ownership ----------------------------------------------------------------------------------------------------


def test_s13_a_second_owner_is_told_the_pid_of_the_first(tmp_path: Path) -> None:
    with StateFolder.open(tmp_path):
        with pytest.raises(StateFolderInUse, match=str(os.getpid())) as caught:
            StateFolder.open(tmp_path)
        assert caught.value.pid == os.getpid()
        assert caught.value.retryable
    StateFolder.open(tmp_path).close()


def test_the_holder_may_be_another_process_than_the_one_with_the_lock(tmp_path: Path) -> None:
    with StateFolder.open(tmp_path, holder_pid=os.getppid()):
        with pytest.raises(StateFolderInUse) as caught:
            StateFolder.open(tmp_path)
        assert caught.value.pid == os.getppid()


def test_readers_need_no_lock(tmp_path: Path) -> None:
    with StateFolder.open(tmp_path) as owner:
        before = sorted(os.listdir(tmp_path))
        with StateFolder.open(tmp_path, create=False, owner=False) as reader:
            assert reader.uuid == owner.uuid
            assert not reader.owner
        assert sorted(os.listdir(tmp_path)) == before
        with pytest.raises(StateFolderInUse):
            StateFolder.open(tmp_path)


def test_closing_twice_is_harmless(tmp_path: Path) -> None:
    folder = StateFolder.open(tmp_path)
    folder.close()
    folder.close()
    assert not folder.owner


def test_a_lock_without_pid_still_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime.storage.folder, "_OPENING_S", 0.01)
    StateFolder.open(tmp_path).close()
    fd = os.open(tmp_path / LOCK_NAME, os.O_RDWR)
    fcntl.flock(fd, fcntl.LOCK_EX)
    try:
        with pytest.raises(StateFolderInUse) as caught:
            StateFolder.open(tmp_path)
        assert caught.value.pid == 0
    finally:
        os.close(fd)


@pytest.fixture
def zombie() -> Iterator[int]:
    """Pid of a process that has ended and whose status nobody has read yet."""
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
        yield ended.pid


def test_the_engine_of_a_program_that_was_killed_is_waited_for(
    tmp_path: Path, zombie: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = StateFolder.open(tmp_path, holder_pid=zombie)
    monkeypatch.setattr(time, "sleep", lambda _: left.close())
    StateFolder.open(tmp_path).close()
    assert not left.owner


def test_an_engine_that_does_not_end_is_named_at_last(
    tmp_path: Path, zombie: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime.storage.folder, "_GONE_S", 0.01)
    with StateFolder.open(tmp_path, holder_pid=zombie), pytest.raises(StateFolderInUse) as caught:
        StateFolder.open(tmp_path)
    assert caught.value.pid == zombie


@pytest.mark.parametrize("own_pid", [os.getppid(), UNNAMED])
def test_who_only_looks_and_the_own_engine_of_before_are_waited_for(
    tmp_path: Path, own_pid: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime.storage.folder, "_MOMENT_S", 0.0)
    left = StateFolder.open(tmp_path, holder_pid=own_pid)
    monkeypatch.setattr(time, "sleep", lambda _: left.close())
    StateFolder.open(tmp_path, holder_pid=own_pid).close()
    assert not left.owner


HOLD = """
import sys
from runtime.storage.folder import StateFolder
folder = StateFolder.open(sys.argv[1])
print(folder.uuid, flush=True)
sys.stdin.read()
"""


@pytest.mark.slow
def test_the_lock_of_a_killed_owner_is_free(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout is not None
        uuid = owner.stdout.readline().strip()
        with pytest.raises(StateFolderInUse) as caught:
            StateFolder.open(tmp_path)
        assert caught.value.pid == owner.pid
        owner.kill()
    with StateFolder.open(tmp_path) as folder:
        assert str(folder.uuid) == uuid


def test_who_only_reads_is_not_told_to_name_a_new_folder(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("mine")
    for name in ("nowhere", "other"):
        with pytest.raises(StateFolderError) as refused:
            StateFolder.open(tmp_path / name, create=False, owner=False)
        assert refused.value.hint == "name the folder that a Runtime was opened with"
        assert pickle.loads(pickle.dumps(refused.value)).hint == refused.value.hint
    with pytest.raises(NotAStateFolder) as refused:
        StateFolder.open(tmp_path / "other")
    assert refused.value.hint == NotAStateFolder.hint
    StateFolder.open(tmp_path / "state").close()
    (tmp_path / "state" / IDENTITY_NAME).write_text("{")
    with pytest.raises(StateFolderError) as refused:
        StateFolder.open(tmp_path / "state")
    assert "from a copy" in refused.value.hint


class MadeMeanwhile(DiskFiles):
    """The real disk; another process opens the folder right before this one lists it, and looks inside."""

    def __init__(self) -> None:
        self._made = False

    def list(self, folder: str) -> list[str]:
        if not self._made:
            self._made = True
            StateFolder.open(folder).close()
            os.mkdir(os.path.join(folder, "profile"))
        return super().list(folder)


def test_a_folder_that_another_one_makes_just_now_is_no_foreign_one(tmp_path: Path) -> None:
    """As workers of a web server do that open it all at once (S51)."""
    with StateFolder.open(tmp_path, files=MadeMeanwhile()) as folder:
        assert folder.owner
        assert json.loads((tmp_path / IDENTITY_NAME).read_text())["uuid"] == str(folder.uuid)
