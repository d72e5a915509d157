"""Leaving files: they stay for a moment, then all that are due go, and others keep their own time."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from runtime.host import leaving_files
from runtime.host.leaving_files import LeavingFiles
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
    monkeypatch.setattr(leaving_files, "STAY_S", 0.05)
    store = BlobStore(tmp_path / "blobs", fsync=False)
    for key in ("one", "two", "three", "kept"):
        store.write(key, "bytes", [b"x"])

    async def let_go() -> None:
        leaving = LeavingFiles(asyncio.get_running_loop(), store)
        leaving.add("one")
        leaving.add("two")
        leaving.add("never written")
        assert names_in(store.folder) == {"one", "two", "three", "kept"}
        await gone(store.folder / "two")
        leaving.add("three")
        assert "three" in names_in(store.folder)
        await gone(store.folder / "three")
        await asyncio.get_running_loop().shutdown_default_executor()

    asyncio.run(let_go())
    assert names_in(store.folder) == {"kept"}
