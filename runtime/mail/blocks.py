"""Anonymous shared memory: a descriptor without a name.

A block is made by one process and reaches others by inheritance or over a socket (`SCM_RIGHTS`). It never has a
name that outlives its creation, so a process killed at any instant leaves nothing behind (guarantee G9): the kernel
frees the memory with the last descriptor and mapping.

Prior art: `memfd_create(2)`; on systems without it `shm_open` with an immediate `shm_unlink`, else an unlinked
temporary file. Where a block is made by the second or third way, a SIGKILL within the few microseconds between
creation and unlinking can leave an empty object; nothing was written to it yet.

Concurrency: no state here. What the memory holds is the business of `ring`, `link` and `lease_table`.

Known limit: each mapping keeps a duplicate of the descriptor (CPython's `mmap` makes it), so a mapped block costs two.
"""

from __future__ import annotations

import importlib
import mmap
import os
import secrets
import sys
import tempfile
from contextlib import suppress
from functools import lru_cache
from typing import Final

PAGE_BYTES: Final = mmap.PAGESIZE
_PLACE_BYTES: Final = 150
"""Of a file's name; a label may have 249 bytes."""


def create_block(bytes_: int, *, lockable: bool = False, label: str = "mainspring") -> int:
    """Make a zero-filled block and return its descriptor (close-on-exec, as all descriptors made by Python).

    Args:
        bytes_: size, in bytes; rounded up to whole pages.
        lockable: whether `fcntl.lockf` must work on the descriptor. Some systems refuse it for `shm_open` objects.
        label: shown by the system's tools where it supports that. One without a ":" gets who made the block, and where:
            ":PID-START@FILE+LINE", so that a block outlives its maker not unknown (`runtime.profile.leak_check`).

    Crash: nothing is left; see the head of this module.
    """
    fd = _open_memfd(label)
    if fd is None and not lockable:
        fd = _open_shared_memory()
    if fd is None:
        fd = _open_unlinked_file()
    try:
        os.ftruncate(fd, -(-bytes_ // PAGE_BYTES) * PAGE_BYTES)
    except BaseException:
        os.close(fd)
        raise
    return fd


def map_block(fd: int) -> mmap.mmap:
    """Map a whole block, shared and writable. The mapping stays valid when `fd` is closed."""
    return mmap.mmap(fd, os.fstat(fd).st_size)


def _open_memfd(label: str) -> int | None:
    create = getattr(os, "memfd_create", None)
    if create is None:
        return None
    if ":" not in label:
        label = f"{label}:{_maker()}"
    try:
        return int(create(label))
    except OSError:
        return None


@lru_cache(1)
def _start_time(pid: int) -> int:
    """Of this process, as `runtime.host.kernel` has it; a fork has another pid, and looks for its own."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[19])
    except OSError:
        return 0


def _maker() -> str:
    """This process, and the nearest caller outside of this module."""
    frame = sys._getframe(2)
    while frame.f_code.co_filename == __file__ and frame.f_back is not None:
        frame = frame.f_back
    pid = os.getpid()
    return f"{pid}-{_start_time(pid)}@{frame.f_code.co_filename[-_PLACE_BYTES:]}+{frame.f_lineno}"


def _open_shared_memory() -> int | None:
    try:
        posix = importlib.import_module("_posixshmem")  # what multiprocessing.shared_memory is made of
        name = f"/mainspring-{secrets.token_hex(8)}"  # macOS allows 31 characters
        fd = int(posix.shm_open(name, os.O_CREAT | os.O_EXCL | os.O_RDWR, mode=0o600))
    except (ImportError, OSError):
        return None
    with suppress(OSError):
        posix.shm_unlink(name)
    return fd


def _open_unlinked_file() -> int:
    fd, path = tempfile.mkstemp(prefix="mainspring-")
    os.unlink(path)
    return fd
