"""The seam to the disk: the few file operations the log needs, and nothing else.

Everything durable goes through `Files`, so that `tests/sim/disk.py` can stand in for the disk and forget, tear, fill up
and fail. `tests/conformance/test_files.py` holds both to the same contract:

- `LogFile.write` appends; it may take fewer bytes than given; what it took is visible to readers at once, durable only
  after `sync`.
- `sync` returns when the file's bytes and size are durable. An error from it says that earlier writes may be lost for
  good, whatever a later `sync` says.
- A name made by `create`, `rename` or `remove` is durable only after `sync_folder` of its folder.
- `rename` replaces its target in one step: any reader sees the old or the new file, whole.

Concurrency: one thread at a time per `LogFile`; `Files` itself has no state.
Known limits: trusts the drive to obey a flush; network file systems are as good as their fsync.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from actors.protocol import limits

if sys.platform == "darwin":
    import fcntl

FILE_MODE = 0o644


class LogFile(Protocol):
    """A file opened for appending."""

    def write(self, pieces: Sequence[bytes]) -> int:
        """Append the pieces, as far as one call goes; return how many bytes were taken. Raises OSError."""

    def sync(self) -> None:
        """Make all written bytes durable. Raises OSError; then their fate is unknown."""

    def truncate(self, size: int) -> None:
        """Cut the file to `size` bytes; the next write appends there."""

    def size(self) -> int:
        """Bytes in the file now."""

    def close(self) -> None:
        """Close without syncing. Closing twice is harmless."""


class Files(Protocol):
    """The operations on names."""

    def list(self, folder: str) -> list[str]:
        """Names in a folder, in no order. Raises FileNotFoundError."""

    def read(self, path: str, size: int = -1) -> bytes:
        """The first `size` bytes of a file, or all of it. Raises FileNotFoundError."""

    def read_together(self, paths: Sequence[str]) -> Sequence[bytes]:
        """All of several files, which may be on several disks. Raises FileNotFoundError."""

    def size(self, path: str) -> int:
        """Bytes in a file. Raises FileNotFoundError."""

    def create(self, path: str) -> LogFile:
        """Make an empty file, replacing one of that name, and open it for appending."""

    def open(self, path: str) -> LogFile:
        """Open an existing file for appending. Raises FileNotFoundError."""

    def rename(self, source: str, target: str) -> None:
        """Give a file another name in one step, replacing a file of that name."""

    def remove(self, path: str) -> None:
        """Remove a name. Raises FileNotFoundError."""

    def make_folder(self, path: str) -> None:
        """Make one folder; harmless where it exists. Raises OSError."""

    def sync_folder(self, folder: str) -> None:
        """Make the names in a folder durable. Raises OSError."""


if sys.platform == "darwin":

    def _sync_fd(fd: int) -> None:
        """F_FULLFSYNC: on macOS a plain fsync leaves the bytes in the drive's cache."""
        try:
            fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
        except OSError:  # not every file system knows it
            os.fsync(fd)

else:
    _sync_fd = getattr(os, "fdatasync", os.fsync)  # fdatasync includes a changed size, and spares the time stamps


class DiskFile:
    """`LogFile` on the real disk."""

    __slots__ = ("_fd",)

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def write(self, pieces: Sequence[bytes]) -> int:
        if len(pieces) == 1:
            return os.write(self._fd, pieces[0])
        return os.writev(self._fd, pieces[: limits.LOG_PIECES_PER_WRITE_MAX])

    def sync(self) -> None:
        _sync_fd(self._fd)

    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class DiskFiles:
    """`Files` on the real disk. No state: one instance serves any number of logs."""

    __slots__ = ()

    def list(self, folder: str) -> list[str]:
        return os.listdir(folder)

    def read(self, path: str, size: int = -1) -> bytes:
        with open(path, "rb", buffering=0) as file:
            return _read_whole(file.fileno(), size if size >= 0 else sys.maxsize)

    def read_together(self, paths: Sequence[str]) -> Sequence[bytes]:
        """A thread for each, with the interpreter lock held by none while its disk works."""
        with ThreadPoolExecutor(max(1, len(paths)), "mainspring-files") as threads:
            return list(threads.map(self.read, paths))

    def size(self, path: str) -> int:
        return os.stat(path).st_size

    def create(self, path: str) -> DiskFile:
        return DiskFile(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, FILE_MODE))

    def open(self, path: str) -> DiskFile:
        return DiskFile(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC))

    def rename(self, source: str, target: str) -> None:
        os.replace(source, target)

    def remove(self, path: str) -> None:
        os.unlink(path)

    def make_folder(self, path: str) -> None:
        try:
            os.mkdir(path)
        except FileExistsError:
            if not os.path.isdir(path):
                raise

    def sync_folder(self, folder: str) -> None:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def _read_whole(fd: int, size: int) -> bytes:
    """Read up to `size` bytes. One call in nearly every case; Linux caps a read at 2 GiB."""
    pieces: list[bytes] = []
    left = min(size, os.fstat(fd).st_size)
    while left > 0:
        piece = os.read(fd, left)
        if not piece:
            break
        pieces.append(piece)
        left -= len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def write_whole(files: Files, folder: str, name: str, content: bytes) -> None:
    """Put a small file in place so that a crash leaves the old file, no file, or the new one whole.

    Args:
        files: The seam.
        folder: Folder of the file.
        name: Its name; `name + ASIDE` is used on the way, and may be left behind by a crash.
        content: What it shall hold.
    """
    target = os.path.join(folder, name)
    aside = target + ASIDE
    file = files.create(aside)
    try:
        write_all(file, [content])
        file.sync()
    finally:
        file.close()
    files.rename(aside, target)
    files.sync_folder(folder)


ASIDE = ".aside"
"""Suffix of a file that is not yet in place. Never read; removed at the next opening."""
DAMAGED = ".damaged"
"""Suffix of a damaged file that is kept as it was found. Never read, nor removed by us."""


def write_all(file: LogFile, pieces: Sequence[bytes]) -> None:
    """Append all pieces in as few calls as possible. Raises OSError; then a part of them may have been written."""
    left = sum(map(len, pieces))
    while True:
        taken = file.write(pieces)
        left -= taken
        if not left:
            return
        pieces = _after(pieces, taken)


def _after(pieces: Sequence[bytes], taken: int) -> Sequence[bytes]:
    """What remains of the pieces after `taken` bytes."""
    for index, piece in enumerate(pieces):
        if taken < len(piece):
            return [piece[taken:], *pieces[index + 1 :]]
        taken -= len(piece)
    return []
