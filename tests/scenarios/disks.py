"""Small disks that are really full: file systems of some megabytes, mounted by the test where that is permitted."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.scenarios.waiting import until

MB: Final = 1_000_000
_FILLER: Final = "filler"


class SmallDisk:
    """A mounted file system, and a file that takes its space."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @property
    def free_bytes(self) -> int:
        """Bytes that can still be written."""
        found = os.statvfs(self.root)
        return found.f_bavail * found.f_frsize

    def fill(self, leave_bytes: int = 0) -> None:
        """Take all space but so much."""
        fd = os.open(self.root / _FILLER, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            for size in (MB, 4096):  # large pieces, then the rest
                while self.free_bytes > leave_bytes + size and _written(fd, size):
                    pass
            while not leave_bytes and _written(fd, 512):
                pass
            os.fsync(fd)
        finally:
            os.close(fd)

    def free(self) -> None:
        """Give the space back."""
        (self.root / _FILLER).unlink()


def _written(fd: int, size: int) -> bool:
    try:
        return os.write(fd, bytes(size)) == size
    except OSError as full:
        if full.errno != errno.ENOSPC:
            raise
        return False


@contextmanager
def small_disk(kind: str, folder: Path, megabytes: int = 20) -> Iterator[SmallDisk]:
    """Mount a file system, "tmpfs" or "ext4" (on a loop device). Skips where it is not permitted, and says so."""
    root = folder / "disk"
    root.mkdir()
    if kind == "tmpfs":
        _run("mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "mainspring-test", str(root))
    else:
        image = folder / "image"
        with image.open("wb") as file:
            file.truncate(megabytes * MB)
        _run("mkfs.ext4", "-q", "-F", "-m", "0", str(image))
        _run("mount", "-o", "loop", str(image), str(root))
    try:
        yield SmallDisk(root)
    finally:
        until(lambda: subprocess.run(["umount", str(root)], capture_output=True).returncode == 0, f"{root} to be idle")


def _run(*command: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except FileNotFoundError as missing:
        pytest.skip(f"cannot make a small file system: {missing}")
    if done.returncode:
        pytest.skip(f"cannot make a small file system: {done.stderr.strip()}")
