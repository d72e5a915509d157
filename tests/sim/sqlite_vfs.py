"""SQLite's own writes, syncs and removals, seen through its VFS: the very library that the module `sqlite3` uses.

While it is recorded, the default VFS is a copy of the real one whose `xOpen` and `xDelete` are ours. A file that they
open has the real methods, but for `xWrite`, `xTruncate` and `xSync`, which do the same and tell. Nothing is emulated:
locks, reading and all else are SQLite's.

As its Unix VFS does it, the folder of a new journal is synced with the first sync of the journal, and the folder of a
file that is removed when SQLite asks for that.
"""

from __future__ import annotations

import _sqlite3
import ctypes
import os
from ctypes import CFUNCTYPE, POINTER, Structure, c_char_p, c_int, c_int64, c_void_p
from typing import Any

import pytest

_OK, _FULL = 0, 13
_CREATE, _JOURNAL = 0x4, 0x800

_OPEN = CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p, c_int, POINTER(c_int))  # the name is kept: no copy of it
_DELETE = CFUNCTYPE(c_int, c_void_p, c_char_p, c_int)
_WRITE = CFUNCTYPE(c_int, c_void_p, c_void_p, c_int, c_int64)
_TRUNCATE = CFUNCTYPE(c_int, c_void_p, c_int64)
_SYNC = CFUNCTYPE(c_int, c_void_p, c_int)
_SIZE = CFUNCTYPE(c_int, c_void_p, POINTER(c_int64))


class _Vfs(Structure):
    """`sqlite3_vfs`, as far as it is touched; the rest is copied."""

    _fields_ = [
        ("version", c_int), ("file_bytes", c_int), ("path_max", c_int), ("next", c_void_p), ("name", c_char_p),
        ("data", c_void_p), ("open", c_void_p), ("delete", c_void_p), ("rest", c_void_p * 13),
    ]  # fmt: skip


class _Methods(Structure):
    """`sqlite3_io_methods`."""

    _fields_ = [
        ("version", c_int), ("close", c_void_p), ("read", c_void_p), ("write", c_void_p), ("truncate", c_void_p),
        ("sync", c_void_p), ("size", c_void_p), ("rest", c_void_p * 12),
    ]  # fmt: skip


class RecordedSqlite:
    """See the module. `recorder` has `put`, `inside`, `has_room` and `trace`."""

    def __init__(self, recorder: Any) -> None:
        self._recorder = recorder
        try:
            self._library = ctypes.CDLL(getattr(_sqlite3, "__file__", None))
            find, self._register = self._library.sqlite3_vfs_find, self._library.sqlite3_vfs_register
        except (OSError, AttributeError) as hidden:
            pytest.skip(f"this Python does not show its SQLite: {hidden}")
        find.restype, self._register.argtypes = c_void_p, [c_void_p, c_int]
        self._real: int = find(None)
        self._vfs = _Vfs.from_buffer_copy((ctypes.c_char * ctypes.sizeof(_Vfs)).from_address(self._real))
        self._real_open, self._real_delete = _OPEN(self._vfs.open), _DELETE(self._vfs.delete)
        self._callbacks: list[Any] = [_OPEN(self._open), _DELETE(self._delete)]
        self._vfs.next, self._vfs.name = None, b"recorded"
        self._vfs.open, self._vfs.delete = (ctypes.cast(one, c_void_p) for one in self._callbacks)
        self._methods: dict[int, _Methods] = {}
        self._files: dict[int, list[Any]] = {}
        """By address: number of the file, and the folder that its first sync makes durable, or None."""

    def begin(self) -> None:
        """From now on."""
        self._register(ctypes.addressof(self._vfs), 1)

    def end(self) -> None:
        """No more; all databases must be closed."""
        self._register(self._real, 1)
        self._library.sqlite3_vfs_unregister(c_void_p(ctypes.addressof(self._vfs)))

    def _open(self, vfs: int, name_at: int | None, file: int, flags: int, out: Any) -> int:
        name = None if name_at is None else os.fsdecode(ctypes.string_at(name_at))
        path = None if name is None else self._recorder.inside(name)
        there = name is not None and os.path.exists(name)
        done: int = self._real_open(vfs, name_at, file, flags, out)
        if done != _OK or path is None or not flags & _CREATE:
            return done
        trace = self._recorder.trace
        if not there:
            self._recorder.put("create", path, trace.new_number(path))
        folder = os.path.dirname(path) if flags & _JOURNAL and not there else None
        self._files[file] = [trace.number_of(path), folder]
        methods = c_void_p.from_address(file)
        assert methods.value is not None
        if methods.value not in self._methods:
            self._methods[methods.value] = self._recorded(methods.value)
        methods.value = ctypes.addressof(self._methods[methods.value])
        return done

    def _recorded(self, real_at: int) -> _Methods:
        """A copy of the methods in which those that change something tell."""
        made = _Methods.from_buffer_copy((ctypes.c_char * ctypes.sizeof(_Methods)).from_address(real_at))
        real_write, real_truncate, real_sync = _WRITE(made.write), _TRUNCATE(made.truncate), _SYNC(made.sync)
        real_size, recorder = _SIZE(made.size), self._recorder

        def write(file: int, data: int, count: int, offset: int) -> int:
            size = c_int64()
            real_size(file, ctypes.byref(size))
            if offset + count > size.value and not recorder.has_room():
                return _FULL
            done: int = real_write(file, data, count, offset)
            if done == _OK:
                recorder.put("write", self._files[file][0], offset, ctypes.string_at(data, count))
            return done

        def truncate(file: int, size: int) -> int:
            done: int = real_truncate(file, size)
            if done == _OK:
                recorder.put("truncate", self._files[file][0], size)
            return done

        def sync(file: int, flags: int) -> int:
            done: int = real_sync(file, flags)
            number, folder = self._files[file]
            recorder.put("sync", number)
            if folder is not None:
                recorder.put("sync_folder", folder)
                self._files[file][1] = None
            return done

        callbacks = [_WRITE(write), _TRUNCATE(truncate), _SYNC(sync)]
        self._callbacks += callbacks
        made.write, made.truncate, made.sync = (ctypes.cast(one, c_void_p) for one in callbacks)
        return made

    def _delete(self, vfs: int, name: bytes, sync_folder: int) -> int:
        path = self._recorder.inside(os.fsdecode(name))
        done: int = self._real_delete(vfs, name, sync_folder)
        if done == _OK and path is not None:
            self._recorder.put("remove", path)
            if sync_folder:
                self._recorder.put("sync_folder", os.path.dirname(path))
        return done
