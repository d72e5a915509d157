"""Blob files: complete or absent, never overwritten, removed by run, and mapped rather than read."""

from __future__ import annotations

import errno
import os
import stat
import threading
from pathlib import Path
from typing import Any

import pytest

from actors.protocol import limits
from actors.protocol.errors import DiskFull, PayloadError, PayloadUnreadable, StateFolderError
from runtime.mail import blobs
from runtime.mail.blobs import BlobStore, Spill, open_node
from runtime.mail.refusal import Refused


@pytest.fixture
def store(tmp_path: Path) -> BlobStore:
    return BlobStore(tmp_path / "deep" / "blobs")


def test_what_is_written_is_read(store: BlobStore) -> None:
    name = store.write("s-1/7-2", "json", [b"ab", memoryview(b"cd"), bytearray(b""), b"e"])
    assert name.startswith("s-1/7-2.")
    assert name.endswith(".json")
    view = store.open(name)
    assert view.readonly
    assert bytes(view) == b"abcde"
    assert [path.name for path in (store.folder / "s-1").iterdir()] == [name.partition("/")[2]]


def test_an_empty_blob_is_read(store: BlobStore) -> None:
    assert bytes(store.open(store.write("s-1", "bytes", []))) == b""


def test_names_are_never_used_twice(tmp_path: Path) -> None:
    stores = [BlobStore(tmp_path), BlobStore(tmp_path)]
    names = [store.write("s-1/0-1", "x", [b"a"]) for store in stores for _ in range(20)]
    assert len(set(names)) == 40


def test_writing_from_several_threads(store: BlobStore) -> None:
    names: list[str] = []

    def write(number: int) -> None:
        names.extend(store.write(f"s-{turn % 3}/{number}-1", "x", [bytes([number])]) for turn in range(10))

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(names)) == 40
    assert all(store.open(name)[0] == int(name.partition("/")[2][0]) for name in names)


def test_many_and_large_buffers_are_written_in_several_calls(store: BlobStore, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[int] = []
    real = os.writev

    def at_most_seven_bytes(fd: int, buffers: list[memoryview]) -> int:
        assert len(buffers) <= 1024
        count = real(fd, [b"".join(buffers)[:7]])
        written.append(count)
        return count

    content = [bytes([n % 256]) * (n % 5) for n in range(2000)]
    monkeypatch.setattr(os, "writev", at_most_seven_bytes)
    name = store.write("s-1", "x", content)
    assert bytes(store.open(name)) == b"".join(content)
    assert len(written) > 500


@pytest.mark.parametrize("fsync", [True, False])
def test_with_fsync_the_file_and_its_folders_are_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fsync: bool
) -> None:
    events: list[str] = []
    real_sync, real_rename = os.fsync, os.rename

    def sync(fd: int) -> None:
        events.append("folder" if stat.S_ISDIR(os.fstat(fd).st_mode) else "file")
        real_sync(fd)

    def rename(a: Any, b: Any) -> None:
        events.append("rename")
        real_rename(a, b)

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(os, "rename", rename)
    store = BlobStore(tmp_path / "blobs", fsync=fsync)
    store.write("s-1", "x", [b"a"])
    assert events == (["folder", "folder", "file", "rename", "folder"] if fsync else ["rename"])
    events.clear()
    store.write("s-1", "x", [b"a"])
    assert events == (["file", "rename", "folder"] if fsync else ["rename"])


@pytest.mark.parametrize(
    ("number", "error"), [(errno.ENOSPC, DiskFull), (errno.EDQUOT, DiskFull), (errno.EIO, StateFolderError)]
)
@pytest.mark.parametrize("call", ["writev", "fsync", "rename"])
def test_faults_leave_no_file_and_say_what_happened(
    store: BlobStore, monkeypatch: pytest.MonkeyPatch, number: int, error: type[Exception], call: str
) -> None:
    store.write("s-1", "x", [b"first"])

    def fail(*_: Any) -> int:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(os, call, fail)
        with pytest.raises(error):
            store.write("s-1", "x", [b"second"])
    assert len(list((store.folder / "s-1").iterdir())) == 1
    assert bytes(store.open(store.write("s-1", "x", [b"third"]))) == b"third"


def test_a_folder_that_cannot_be_made_is_a_fault_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "blobs").write_text("a file")
    with pytest.raises(StateFolderError):
        BlobStore(tmp_path / "blobs").write("s-1", "x", [b"a"])


def test_a_mapping_outlives_its_file(store: BlobStore) -> None:
    name = store.write("s-1/0-1", "x", [b"abc" * 1000])
    view = store.open(name)
    store.remove_run("s-1")
    assert bytes(view) == b"abc" * 1000
    with pytest.raises(PayloadUnreadable, match="s-1/0-1"):
        store.open(name)
    store.remove_run("s-1")


def test_removing_a_run_leaves_the_others(store: BlobStore) -> None:
    kept, _ = store.write("s-1/0-1", "x", [b"a"]), store.write("s-10/0-1", "x", [b"b"])
    store.remove_run("s-10")
    assert bytes(store.open(kept)) == b"a"
    assert bytes(store.open(store.write("s-10/0-2", "x", [b"c"]))) == b"c"


def test_the_sweep_removes_dead_runs_and_interrupted_writes(store: BlobStore) -> None:
    kept = store.write("live-1/0-1", "x", [b"a"])
    store.write("dead-1/0-1", "x", [b"b"])
    part = store.folder / "live-1" / ("0-2.x" + blobs.PART)
    part.write_bytes(b"half")
    (store.folder / "a file").write_bytes(b"not ours")
    assert store.sweep(lambda run: run.startswith("live")) == ["dead-1"]
    assert bytes(store.open(kept)) == b"a"
    assert not part.exists()
    assert sorted(path.name for path in store.folder.iterdir()) == ["a file", "live-1"]


def test_a_sweep_before_the_first_write_finds_nothing(store: BlobStore) -> None:
    assert store.sweep(lambda run: False) == []


@pytest.mark.parametrize("name", ["", "..", "../x", "a/../../x", "/etc/hostname", "a//b", "a\0b", "."])
def test_names_that_lead_elsewhere_are_refused(store: BlobStore, name: str) -> None:
    for use in (store.open, store.remove_run, lambda n: store.write(n, "x", [b""])):
        if use is not store.open and name in ("a/../../x", "a//b"):
            continue
        with pytest.raises(PayloadError):
            use(name)


def test_a_spill_tells_how_to_read_and_takes_back(store: BlobStore) -> None:
    spill = Spill(store, "s-1/0-1")
    node = spill.write("npy", [b"abc", b"def"], "<f4", [1])
    assert node[0] == "blob"
    assert node[2:4] == ["npy", 6]
    assert node[5:] == ["<f4", [1]]
    assert bytes(open_node(store, node)) == b"abcdef"
    with pytest.raises(PayloadUnreadable, match="damaged"):
        open_node(store, [*node[:4], node[4] ^ 1])
    spill.undo()
    with pytest.raises(PayloadUnreadable):
        open_node(store, node)


def test_the_limit_is_per_value(store: BlobStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PAYLOAD_BYTES_MAX", 10)
    spill = Spill(store, "s-1")
    spill.write("x", [b"12345678"])
    with pytest.raises(Refused) as refused:
        spill.write("x", [b"123"])
    assert refused.value.too_large
    spill.begin()
    spill.write("x", [b"123"])


def test_what_is_not_there_is_looked_for_in_another_folder(tmp_path: Path) -> None:
    archived = BlobStore(tmp_path / "archive", fsync=False)
    store = BlobStore(tmp_path / "blobs", fsync=False, also=archived.folder)
    name, own = archived.write("old", "bytes", [b"old"]), store.write("new", "bytes", [b"new"])
    assert (bytes(store.open(name)), bytes(store.open(own))) == (b"old", b"new")
    for nowhere in ("old/x", "none/x"):
        with pytest.raises(PayloadUnreadable):
            store.open(nowhere)
    with pytest.raises(PayloadUnreadable, match=f"{store.folder}/none/x") as lost:  # where it is to be restored
        store.open("none/x")
    assert "archive/" not in lost.value.message


def test_of_a_folder_only_older_files_go(tmp_path: Path) -> None:
    store = BlobStore(tmp_path / "blobs", fsync=False)
    old, new = (store.path(store.write("run", "bytes", [b"x"])) for _ in range(2))
    os.utime(old, ns=(1, 1))
    store.remove_run("run", before_ns=2)
    assert (old.exists(), new.exists()) == (False, True)
    store.remove_run("run", before_ns=1 << 62)
    assert not new.parent.exists()
    store.remove_run("run", before_ns=1 << 62)
