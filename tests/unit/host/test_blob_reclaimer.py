"""Files that are to be reclaimed stay for a moment, then all that are due go, and others keep their own time."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import pytest

from runtime.host import blob_reclaimer
from runtime.host.blob_reclaimer import BlobReclaimer, Reclaimable
from runtime.mail.blobs import BlobStore


def names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


async def gone(path: Path) -> None:
    """Let the loop work until the path is not there any more."""
    for _ in range(10_000_000):
        if path.name not in names_in(path.parent):
            return
        await asyncio.sleep(0)


def test_files_stay_for_a_moment_and_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blob_reclaimer, "STAY_S", 0.05)
    store = BlobStore(tmp_path / "blobs", fsync=False)
    for key in ("one", "two", "three", "kept"):
        store.write(key, "bytes", [b"x"])

    async def let_go() -> None:
        reclaimer = BlobReclaimer(asyncio.get_running_loop(), store)
        reclaimer.add("one")
        reclaimer.add("two")
        reclaimer.add("never written")
        assert names_in(store.folder) == {"one", "two", "three", "kept"}
        await gone(store.folder / "two")
        reclaimer.add("three")
        assert "three" in names_in(store.folder)
        await gone(store.folder / "three")
        await asyncio.get_running_loop().shutdown_default_executor()

    asyncio.run(let_go())
    assert names_in(store.folder) == {"kept"}


def test_with_an_archive_they_wait_for_the_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blob_reclaimer, "STAY_S", 0.01)
    store = BlobStore(tmp_path / "blobs", fsync=False)
    for key in ("before", "one", "two"):
        store.write(key, "bytes", [b"x"])

    async def let_go() -> None:
        waiting = [Reclaimable(5, "before", time.time_ns() + 10**9)]
        reclaimer = BlobReclaimer(asyncio.get_running_loop(), store, rule={}, waiting=waiting)
        reclaimer.add("one", 8)
        reclaimer.add("two", 9)
        reclaimer.add("never written", 9)
        reclaimer.passed(8)
        await gone(store.folder / "one")
        for _ in range(10_000_000):
            if reclaimer.waiting:
                break
            await asyncio.sleep(0)
        assert [entry.run_key for entry in reclaimer.waiting] == ["two"]
        assert names_in(store.folder) == {"two"}
        reclaimer.passed(9)
        await gone(store.folder / "two")
        await asyncio.get_running_loop().shutdown_default_executor()

    asyncio.run(let_go())
    assert names_in(store.folder) == set()


def test_an_id_that_was_used_again_keeps_its_new_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blob_reclaimer, "STAY_S", 0.01)
    store = BlobStore(tmp_path / "blobs", fsync=False)
    old = store.path(store.write("daily", "bytes", [b"x"]))
    os.utime(old, ns=(1, 1))
    new = store.path(store.write("daily", "bytes", [b"y"]))
    os.utime(new, ns=(1 << 62, 1 << 62))

    async def let_go() -> None:
        reclaimer = BlobReclaimer(asyncio.get_running_loop(), store, rule={})
        reclaimer.add("daily", 8)
        reclaimer.passed(8)
        await gone(old)
        await asyncio.get_running_loop().shutdown_default_executor()

    asyncio.run(let_go())
    assert new.exists()


def test_files_that_are_owed_to_an_archive_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blob_reclaimer, "STAY_S", 0.01)
    store = BlobStore(tmp_path / "blobs", fsync=False)
    for key in ("one", "two"):
        store.write(key, "bytes", [b"x"])

    async def let_go() -> None:
        reclaimer = BlobReclaimer(asyncio.get_running_loop(), store, stay={"one"})
        reclaimer.add("one")
        reclaimer.add("two")
        await gone(store.folder / "two")
        await asyncio.get_running_loop().shutdown_default_executor()

    asyncio.run(let_go())
    assert names_in(store.folder) == {"one"}
