"""Records what this process does to the files of a folder, by Python and by SQLite, and lets the disk run full.

    with Recorder(folder) as recorder:      os.*, open() and SQLite's default VFS go through it
        work()
        recorder.note("it returned")
    for disk in recorder.trace.disks(): ...

All is done for real, on the real folder; what is seen beside that goes into a `Trace`. With `full_at=n` the n-th write
that needs room, and all after it, find none, until `full_at` is 0 again; `written` counts those that found some.

Known limits: one thread; names below the folder are moved within their folder only; memory maps are for reading.
"""

from __future__ import annotations

import builtins
import errno
import fcntl
import io
import os
import stat
from collections.abc import Sequence
from typing import Any, Self
from unittest.mock import patch

from runtime.storage import files as seam
from tests.sim.sqlite_vfs import RecordedSqlite
from tests.sim.trace import Trace

_WRITES = os.O_WRONLY | os.O_RDWR


class Recorder:
    """See the module."""

    def __init__(self, root: Any, *, full_at: int = 0) -> None:
        self.trace = Trace(root)
        self.full_at = full_at
        self.written = 0
        self._real = {name: getattr(os, name) for name in _CALLS}
        self._open_real = builtins.open
        self._fds: dict[int, tuple[str, int | None]] = {}
        """Path, and number of the file; None for a folder."""
        self._patches = [patch.object(os, name, getattr(self, f"_{name}")) for name in _CALLS]
        self._patches += [patch.object(module, "open", self._open_file) for module in (builtins, io)]
        self._patches.append(patch.object(seam, "_sync_fd", self._fdatasync))
        self._sqlite = RecordedSqlite(self)

    def __enter__(self) -> Self:
        self._sqlite.begin()
        for one in self._patches:
            one.start()
        return self

    def __exit__(self, *_: object) -> None:
        for one in reversed(self._patches):
            one.stop()
        self._sqlite.end()

    def note(self, word: Any) -> None:
        """Something was promised."""
        self.trace.changes.append(("note", word))

    # --- for SQLite, too ----------------------------------------------------------------------------------------------

    def put(self, *change: Any) -> None:
        """Something was changed."""
        self.trace.changes.append(change)

    def inside(self, path: str) -> str | None:
        """The path relative to the root; None: it is elsewhere."""
        folder, leaf = os.path.split(os.path.abspath(path))
        full = os.path.join(os.path.realpath(folder), leaf)
        if full == self.trace.root:
            return ""
        return os.path.relpath(full, self.trace.root) if full.startswith(f"{self.trace.root}/") else None

    def has_room(self) -> bool:
        """Whether a write that needs room finds some."""
        if self.full_at and self.written + 1 >= self.full_at:
            return False
        self.written += 1
        return True

    # --- files --------------------------------------------------------------------------------------------------------

    def _at(self, path: Any, dir_fd: int | None) -> str | None:
        if dir_fd is not None:
            folder = self._fds.get(dir_fd)
            return None if folder is None else os.path.join(folder[0], os.fspath(path))
        return self.inside(os.fspath(path))

    def _open(self, path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        at = self._at(path, dir_fd)
        there = at is not None and os.path.lexists(os.path.join(self.trace.root, at))
        fd: int = self._real["open"](path, flags, mode, dir_fd=dir_fd)
        if at is None:
            self._fds.pop(fd, None)
        elif stat.S_ISDIR(os.fstat(fd).st_mode):
            self._fds[fd] = at, None
        else:
            if not there:
                self.put("create", at, self.trace.new_number(at))
            number = self.trace.number_of(at)
            if there and flags & os.O_TRUNC and flags & _WRITES:
                self.put("truncate", number, 0)
            self._fds[fd] = at, number
        return fd

    def _close(self, fd: int) -> None:
        self._fds.pop(fd, None)
        self._real["close"](fd)

    def _write(self, fd: int, data: Any) -> int:
        return self._writev(fd, [data])

    def _writev(self, fd: int, pieces: Sequence[Any]) -> int:
        number = self._fds.get(fd, ("", None))[1]
        if number is None:
            return int(self._real["writev"](fd, pieces))
        content = b"".join(map(bytes, pieces))
        size = os.fstat(fd).st_size
        appends = self._appends(fd)
        offset = size if appends else os.lseek(fd, 0, os.SEEK_CUR)
        if offset + len(content) > size and not self.has_room():
            if self.written + 1 > self.full_at or len(content) < 2:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            self.written += 1  # the first of them finds room for a half
            content = content[: len(content) // 2]
        taken = int(self._real["write"](fd, content))
        self.put("write", number, offset, content[:taken])
        return taken

    @staticmethod
    def _appends(fd: int) -> bool:
        return bool(fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_APPEND)

    def _pwrite(self, fd: int, data: Any, offset: int) -> int:
        number = self._fds.get(fd, ("", None))[1]
        grows = offset + len(data) > os.fstat(fd).st_size
        if number is not None and grows and not self.has_room():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        taken = int(self._real["pwrite"](fd, data, offset))
        if number is not None:
            self.put("write", number, offset, bytes(data[:taken]))
        return taken

    def _sendfile(self, *_: Any, **__: Any) -> int:
        raise OSError(errno.ENOTSUP, "what is copied is to be seen")

    def _ftruncate(self, fd: int, size: int) -> None:
        self._real["ftruncate"](fd, size)
        if (number := self._fds.get(fd, ("", None))[1]) is not None:
            self.put("truncate", number, size)

    def _fsync(self, fd: int) -> None:
        self._real["fsync"](fd)
        if (found := self._fds.get(fd)) is not None:
            self.put(*(("sync_folder", found[0]) if found[1] is None else ("sync", found[1])))

    def _fdatasync(self, fd: int) -> None:
        self._fsync(fd)

    # --- names --------------------------------------------------------------------------------------------------------

    def _rename(self, source: Any, target: Any) -> None:
        at, to = self.inside(os.fspath(source)), self.inside(os.fspath(target))
        self._real["replace"](source, target)
        if at is not None and to is not None:
            self.trace.renamed(at, to)
            self.put("rename", at, to)

    def _replace(self, source: Any, target: Any) -> None:
        self._rename(source, target)

    def _unlink(self, path: Any, *, dir_fd: int | None = None) -> None:
        at = self._at(path, dir_fd)
        self._real["unlink"](path, dir_fd=dir_fd)
        if at is not None:
            self.put("remove", at)

    def _remove(self, path: Any, *, dir_fd: int | None = None) -> None:
        self._unlink(path, dir_fd=dir_fd)

    def _rmdir(self, path: Any, *, dir_fd: int | None = None) -> None:
        at = self._at(path, dir_fd)
        self._real["rmdir"](path, dir_fd=dir_fd)
        if at is not None:
            self.put("remove", at)

    def _mkdir(self, path: Any, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        at = self._at(path, dir_fd)
        self._real["mkdir"](path, mode, dir_fd=dir_fd)
        if at is not None:
            self.put("mkdir", at)

    # --- open() -------------------------------------------------------------------------------------------------------

    def _open_file(self, file: Any, mode: str = "r", buffering: int = -1, *more: Any, **options: Any) -> Any:
        if isinstance(file, int) or not set(mode) & set("wax+") or self.inside(os.fspath(file)) is None:
            return self._open_real(file, mode, buffering, *more, **options)
        raw = _RecordedFile(
            file, mode.replace("b", "").replace("t", ""), opener=lambda path, flags: os.open(path, flags, 0o666)
        )
        if buffering == 0:
            return raw
        buffered: Any = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
        return buffered if "b" in mode else io.TextIOWrapper(buffered, *more, **options)


class _RecordedFile(io.FileIO):
    """What `open` gives: its writes are seen."""

    def write(self, data: Any) -> int:
        return os.write(self.fileno(), bytes(data))

    def truncate(self, size: int | None = None) -> int:
        size = self.tell() if size is None else size
        os.ftruncate(self.fileno(), size)
        return size


_CALLS = ("open", "close", "write", "writev", "pwrite", "sendfile", "ftruncate", "fsync", "fdatasync", "rename")
_CALLS += ("replace", "unlink", "remove", "rmdir", "mkdir")
