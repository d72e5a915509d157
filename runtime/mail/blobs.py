"""Large values as files: written once, aside, made durable, renamed, and read through a memory mapping.

    <folder>/<run key>/<node>-<attempt>.<random>.<suffix>
    <folder>/<run key>/*.part                                   a write that has not ended, or never will

A run's files share one folder, so that forgetting a run is removing its folder, and the sweep at start needs names
only. Names are random, so that two processes (forks of one included), two attempts, or a process and its successor
never choose the same; nothing is ever overwritten.

States of a file: absent -> `.part` -> present -> removed. A name is given out only when the file is present and, with
`fsync`, on the disk together with its folder entries. What a crash leaves is a `.part`, or a file that no record names:
both go with the run's folder, `.part` also at the next `sweep`.

Concurrency: any number of stores in any number of processes on one folder; a store may be used from several threads.
A mapping stays readable after its file was removed (POSIX), so removal needs no count of readers: the disk space comes
back with the last of them. Files are never changed in place, therefore a mapping never changes either.

Limits: nothing is compressed; a reader of a truncated file is refused by size before it could meet SIGBUS.
"""

from __future__ import annotations

import errno
import mmap
import os
import secrets
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import xxhash

from actors.protocol import limits
from actors.protocol.errors import DiskFull, PayloadError, PayloadUnreadable, StateFolderError
from runtime.mail.refusal import Refused

PART: Final = ".part"
_NO_SPACE: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_BUFFERS_PER_CALL: Final = 512
"""Below IOV_MAX of Linux and macOS (1,024)."""


class BlobStore:
    """Blob files below one folder.

    Args:
        folder: Holds one folder per run; made with the first write.
        fsync: Whether a blob is on the disk when its name is given out (durability "fsync"), or only in the page cache.
        also: Another folder, where blobs are looked for that are not in the first: that of the archive.
    """

    def __init__(
        self, folder: str | os.PathLike[str], fsync: bool = True, also: str | os.PathLike[str] | None = None
    ) -> None:
        self._folder = Path(folder)
        self._also = None if also is None else Path(also)
        self._fsync = fsync
        self._synced = ""

    @property
    def folder(self) -> Path:
        """The folder of all runs."""
        return self._folder

    def write(self, key: str, suffix: str, buffers: Sequence[Any]) -> str:
        """Write a blob and return its name, relative to the folder.

        Args:
            key: "run key" or "run key/node-attempt"; the first part becomes the folder.
            suffix: Form of the content, for people who look.
            buffers: C-contiguous byte buffers, written one after the other without an intermediate copy.

        Raises:
            DiskFull: No space, or over quota. StateFolderError: any other fault of the file system.

        Crash: at most a `.part` file, or a complete file whose name nobody has.
        """
        run_key, _, rest = key.partition("/")
        leaf = f"{rest.replace('/', '-') or 'value'}.{secrets.token_hex(8)}.{suffix}"
        name = f"{run_key}/{leaf}"
        path = self._path(name)
        part = path.with_name(leaf + PART)
        try:
            self._make_folder(path.parent)
            try:
                self._write_part(part, buffers)
                os.rename(part, path)
            except BaseException:
                with suppress(OSError):
                    part.unlink()
                raise
            if self._fsync:
                _sync_folder(path.parent)
        except OSError as fault:
            if fault.errno in _NO_SPACE:
                raise DiskFull(f"no space for a value of {sum(map(_size, buffers)):,} bytes: {fault}") from fault
            raise StateFolderError(f"a large value could not be written: {fault}") from fault
        return name

    def open(self, name: str) -> memoryview:
        """The content, mapped read-only; unmapped when the last view of it is gone.

        Raises:
            PayloadUnreadable: There is no such blob.
        """
        try:
            fd = self._opened(self._path(name))
            try:
                size = os.fstat(fd).st_size
                return memoryview(mmap.mmap(fd, size, prot=mmap.PROT_READ) if size else b"")
            finally:
                os.close(fd)
        except (OSError, ValueError) as fault:
            raise PayloadUnreadable(f"blob {name} cannot be read: {fault}") from fault

    def read(self, name: str | memoryview, size: int, checksum: int) -> memoryview:
        """`open`, unless it is open already (see `pins`), and check that the content is what was written.

        Reads every byte (10 GB/s when cached), copies none.

        Raises:
            PayloadUnreadable: The blob is missing, or has another size or checksum.
        """
        view = self.open(name) if isinstance(name, str) else name
        if len(view) != size:
            raise PayloadUnreadable(f"blob {name} has {len(view):,} bytes instead of {size:,}")
        if xxhash.xxh3_64_intdigest(view) != checksum:
            raise PayloadUnreadable(f"blob {name} is damaged: its checksum differs")
        return view

    def path(self, name: str) -> Path:
        """Where a blob of this name is, or would be. Raises PayloadUnreadable: it is no name of a blob."""
        return self._path(name)

    def remove(self, names: Sequence[str]) -> None:
        """Remove single blobs, those of an encoding that was given up."""
        for name in names:
            with suppress(OSError):
                self._path(name).unlink()

    def remove_run(self, run_key: str, before_ns: int | None = None) -> None:
        """Remove a run's blobs. Readers keep what they have mapped; there may be none.

        Args:
            run_key: Of the run.
            before_ns: Only those that were written before this time: the id may have been used again since.

        Crash: some files remain; `sweep` removes them when the run is not live.
        """
        folder = self._path(run_key)
        if before_ns is None:
            shutil.rmtree(folder, ignore_errors=True)
            return
        with suppress(OSError):
            for path in list(folder.iterdir()):
                if path.stat().st_mtime_ns < before_ns:
                    path.unlink()
            folder.rmdir()

    def has_run(self, run_key: str) -> bool:
        """Whether there is something of a run."""
        return self._path(run_key).is_dir()

    def sweep(self, live: Callable[[str], bool]) -> list[str]:
        """Remove the blobs of runs that are not live, and what interrupted writes left. For use while nobody writes.

        Returns:
            The run keys that were removed.
        """
        removed: list[str] = []
        with suppress(FileNotFoundError):
            for entry in sorted(self._folder.iterdir()):
                if not entry.is_dir():
                    continue
                if live(entry.name):
                    for part in entry.glob("*" + PART):
                        part.unlink(missing_ok=True)
                else:
                    shutil.rmtree(entry, ignore_errors=True)
                    removed.append(entry.name)
        return removed

    def _opened(self, path: Path) -> int:
        try:
            return os.open(path, os.O_RDONLY)
        except FileNotFoundError as missing:
            if self._also is None:
                raise
            try:
                return os.open(self._also / path.relative_to(self._folder), os.O_RDONLY)
            except FileNotFoundError:
                raise missing from None  # it belongs here, whoever else might have had it

    def _path(self, name: str) -> Path:
        parts = name.split("/")
        if "\0" in name or any(part in ("", ".", "..") for part in parts):
            raise PayloadUnreadable(f"{name!a} is not the name of a blob")
        return self._folder.joinpath(*parts)

    def _make_folder(self, folder: Path) -> None:
        if self._synced == folder.name and folder.is_dir():
            return
        folder.mkdir(parents=True, exist_ok=True)
        # Also when another process made it: its own sync of the entry may not have happened yet.
        if self._fsync:
            _sync_folder(self._folder)
            _sync_folder(self._folder.parent)
        self._synced = folder.name

    def _write_part(self, part: Path, buffers: Sequence[Any]) -> None:
        fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            _write_all(fd, [memoryview(buffer).cast("B") for buffer in buffers])
            if self._fsync:
                os.fsync(fd)
        finally:
            os.close(fd)


class Spill:
    """The blobs of one call of the codec: what went out of line, how much per value, and how to take it back.

    States: open; `undo` ends it when the call failed.
    """

    def __init__(self, store: BlobStore, key: str) -> None:
        self._store = store
        self._key = key
        self._names: list[str] = []
        self._bytes = 0

    def begin(self) -> None:
        """Another value begins; the limit is counted per value."""
        self._bytes = 0

    def write(self, form: str, buffers: Sequence[Any], *meta: Any) -> list[Any]:
        """Write one blob and return its node: `["blob", name, form, size, checksum, meta...]`.

        Raises:
            Refused: The value as a whole would be over PAYLOAD_BYTES_MAX.
        """
        size = sum(map(_size, buffers))
        self.refuse_over_limit(size)
        self._bytes += size
        name = self._store.write(self._key, form, buffers)
        self._names.append(name)
        hasher = xxhash.xxh3_64()
        for buffer in buffers:
            hasher.update(buffer)
        return ["blob", name, form, size, hasher.intdigest(), *meta]

    def refuse_over_limit(self, size: int) -> None:
        """Refuse a part that would bring the value over PAYLOAD_BYTES_MAX.

        Raises:
            Refused: It would.
        """
        total = self._bytes + size
        if total > limits.PAYLOAD_BYTES_MAX:
            raise Refused(f"has {total:,} bytes or more; the limit is {limits.PAYLOAD_BYTES_MAX:,}", too_large=True)

    def undo(self) -> None:
        """Remove the blobs again: nobody will know their names."""
        self._store.remove(self._names)


def open_node(store: BlobStore | None, node: Sequence[Any]) -> memoryview:
    """The content of a blob node.

    Raises:
        PayloadUnreadable: It is missing or damaged. PayloadError: this codec has no store.
    """
    if store is None:
        raise PayloadError("the value is in a blob file, and this process has no blob store")
    return store.read(node[1], node[3], node[4])


def _size(buffer: Any) -> int:
    return memoryview(buffer).nbytes


def _write_all(fd: int, views: list[memoryview]) -> None:
    """Write all views; the kernel takes at most 2 GiB a call, and fewer when it is interrupted or the disk is full."""
    at = 0
    while at < len(views):
        written = os.writev(fd, views[at : at + _BUFFERS_PER_CALL])
        while at < len(views) and written >= len(views[at]):
            written -= len(views[at])
            at += 1
        if written:
            views[at] = views[at][written:]


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
