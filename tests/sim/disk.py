"""A disk in memory behind the files seam, which does to the log what bad days do.

Fault model (what a real disk and kernel may do, and what they may not):

- A write is visible to readers at once. Until `sync` returned, a power cut leaves each 512-byte sector as it was
  after any of the writes since the last sync, or before all of them, whatever happens to the others; sectors that
  were never written read as zeros. The file's size is that after any of the writes, or any less down to what was
  synced, or more (a tail of zeros).
- Sectors that were synced are never lost, unless they were cut off by `truncate`.
- A `truncate` that was not synced may be undone by a power cut.
- A name that was created, renamed or removed keeps its old meaning after a power cut until its folder was synced; each
  such change for itself, in any combination. A rename is one change: never both names, never none.
- A sync that fails has dropped the bytes for good: the next sync succeeds and does not bring them back (this is what
  Linux does, and why the log never tries twice). Readers still see them until the power cut.
- A full disk takes a part of a write, then refuses; space comes back when files are cut or removed, or `capacity`
  grows.
- A killed process (as opposed to a power cut) loses nothing that was written.

Not modelled: bits that flip by themselves (tests flip them on purpose), and folders that vanish.

Every mutating call counts as one operation; at number `cut_at` the power goes: `PowerCut` is raised, a write having got
as far as chance had it. All chance comes from the seed.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from random import Random

SECTOR_BYTES = 512


class PowerCut(BaseException):
    """The machine is off. Not an Exception: nothing must catch it and go on."""


class Inode:
    """A file's bytes: as readers see them, as the platter has them, and the writes between."""

    def __init__(self, content: bytes = b"") -> None:
        self.data = bytearray(content)
        self.durable = bytearray(content)
        self.pending: list[tuple[int, bytes | None]] = []

    def sync(self) -> None:
        """Make the pending writes durable; those that a failed sync dropped stay lost."""
        for offset, piece in self.pending:
            _apply(self.durable, offset, piece)
        self.pending.clear()

    def after_power_cut(self, random: Random) -> bytes:
        """One of the contents this file may have afterwards."""
        states = [bytes(self.durable)]
        for offset, piece in self.pending:
            content = bytearray(states[-1])
            _apply(content, offset, piece)
            states.append(bytes(content))
        keep = random.choice((0.0, 0.5, 0.9, 1.0))
        size = len(random.choice(states))
        content = bytearray()
        for start in range(0, size, SECTOR_BYTES):
            state = states[-1] if random.random() < keep else random.choice(states)
            content += state[start : start + SECTOR_BYTES].ljust(SECTOR_BYTES, b"\0")
        del content[size:]
        if size > len(self.durable) and random.random() < 0.5:
            del content[len(self.durable) + random.randrange(size - len(self.durable) + 1) :]
        if self.pending and random.random() < 0.1:
            content += bytes(random.randrange(1, 2 * SECTOR_BYTES))
        return bytes(content)


def _apply(content: bytearray, offset: int, piece: bytes | None) -> None:
    """Write a piece at an offset, or cut there if it is None."""
    if piece is None:
        del content[offset:]
        return
    if len(content) < offset:
        content += bytes(offset - len(content))
    content[offset : offset + len(piece)] = piece


class FakeFile:
    """`LogFile` on the fake disk."""

    def __init__(self, disk: FakeDisk, inode: Inode) -> None:
        self._disk = disk
        self._inode = inode
        self.open = True

    def write(self, pieces: Sequence[bytes]) -> int:
        content = b"".join(pieces)
        if self._disk.count("write", raising=False):
            self._put(content[: self._disk.random.randrange(len(content) + 1)])
            raise PowerCut
        taken = min(len(content), self._disk.room(self._inode), self._disk.write_bytes_max)
        if content and not taken:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._put(content[:taken])
        return taken

    def _put(self, content: bytes) -> None:
        inode = self._inode
        inode.pending.append((len(inode.data), content))
        inode.data += content

    def sync(self) -> None:
        try:
            self._disk.count("sync")
        except OSError:
            self._inode.pending.clear()
            raise
        self._inode.sync()

    def truncate(self, size: int) -> None:
        self._disk.count("truncate")
        inode = self._inode
        if size < len(inode.data):
            inode.pending.append((size, None))
            del inode.data[size:]
        elif size > len(inode.data):
            raise OSError(errno.EINVAL, "the log never grows a file by truncate")

    def size(self) -> int:
        return len(self._inode.data)

    def close(self) -> None:
        if self.open:
            self.open = False
            self._disk.files_open -= 1


class FakeDisk:
    """`Files` in memory. Paths are plain strings; folders exist once made.

    Args:
        seed: Of all chance.
        capacity: Bytes that fit.
        block_bytes: Unit in which space is given out. File systems give whole blocks, so that a write which ran out of
            space ended with a sector; 1 is harsher than life.
    """

    def __init__(self, seed: int = 0, capacity: int = 1 << 40, block_bytes: int = 1) -> None:
        self.random = Random(seed)
        self.capacity = capacity
        self.block_bytes = block_bytes
        self.write_bytes_max = 1 << 40
        """Most bytes one write takes: the others are short writes."""
        self.operations = 0
        self.cut_at = 0
        """Operation at which the power goes; 0 never."""
        self.log: list[str] = []
        """Names of the operations so far."""
        self.files_open = 0
        self._faults: dict[str, list[int]] = {}
        self._names: dict[str, Inode] = {}
        self._durable_names: dict[str, Inode] = {}
        self._pending_names: list[tuple[str, dict[str, Inode | None]]] = []
        self._folders: set[str] = {"/"}

    # --- bad days -----------------------------------------------------------------------------------------------

    def fail(self, operation: str, error: int, times: int = 1) -> None:
        """Let the next calls of an operation fail with an errno."""
        self._faults.setdefault(operation, []).extend([error] * times)

    def room(self, inode: Inode) -> int:
        """Bytes by which a file may grow: the rest of its last block, and the free blocks."""
        block = self.block_bytes
        free = self.capacity // block - sum(-(-len(one.data) // block) for one in self._names.values())
        return max(0, free * block + -len(inode.data) % block)

    def count(self, operation: str, *, raising: bool = True) -> bool:
        """Count an operation. Return whether the power goes now, or raise it; raise a fault that was asked for."""
        self.operations += 1
        self.log.append(operation)
        if self.operations == self.cut_at:
            if raising:
                raise PowerCut
            return True
        if faults := self._faults.get(operation):
            error = faults.pop(0)
            raise OSError(error, os.strerror(error))
        return False

    def after_kill(self) -> FakeDisk:
        """The disk as the next process finds it when only the process died: everything is there, synced or not."""
        disk = self._successor()
        disk._names = dict(self._names)
        disk._durable_names = dict(self._durable_names)
        disk._pending_names = list(self._pending_names)
        return disk

    def after_power_cut(self, seed: int) -> FakeDisk:
        """One of the disks the next boot may find."""
        random = Random(seed)
        names = dict(self._durable_names)
        keep = random.choice((0.0, 0.5, 1.0))
        for _, change in self._pending_names:
            if random.random() < keep:
                _change(names, change)
        disk = self._successor()
        disk._names = {name: Inode(inode.after_power_cut(random)) for name, inode in names.items()}
        disk._durable_names = dict(disk._names)
        return disk

    def _successor(self) -> FakeDisk:
        disk = FakeDisk(seed=self.random.randrange(1 << 32), capacity=self.capacity, block_bytes=self.block_bytes)
        disk._folders = set(self._folders)
        return disk

    def flip(self, path: str, offset: int, mask: int = 0xFF) -> None:
        """Change bits of a byte, as a failing disk does."""
        inode = self._names[path]
        inode.data[offset] ^= mask
        inode.durable[:] = inode.data

    def put(self, path: str, content: bytes) -> None:
        """Have a durable file with this content."""
        self._names[path] = self._durable_names[path] = Inode(content)

    # --- the seam -----------------------------------------------------------------------------------------------

    def list(self, folder: str) -> list[str]:
        if folder not in self._folders:
            raise FileNotFoundError(errno.ENOENT, "no such folder", folder)
        return [os.path.basename(name) for name in self._names if os.path.dirname(name) == folder]

    def read(self, path: str, size: int = -1) -> bytes:
        data = self._inode(path).data
        return bytes(data) if size < 0 else bytes(data[:size])

    def read_together(self, paths: Sequence[str]) -> list[bytes]:
        return [self.read(path) for path in paths]

    def size(self, path: str) -> int:
        return len(self._inode(path).data)

    def create(self, path: str) -> FakeFile:
        self.count("create")
        if os.path.dirname(path) not in self._folders:
            raise FileNotFoundError(errno.ENOENT, "no such folder", path)
        if path in self._names:
            file = self._opened(path)
            file._inode.pending.append((0, None))
            file._inode.data.clear()
            return file
        self._rename(os.path.dirname(path), {path: Inode()})
        return self._opened(path)

    def open(self, path: str) -> FakeFile:
        self._inode(path)
        return self._opened(path)

    def rename(self, source: str, target: str) -> None:
        self.count("rename")
        self._rename(os.path.dirname(target), {source: None, target: self._inode(source)})

    def remove(self, path: str) -> None:
        self.count("remove")
        self._inode(path)
        self._rename(os.path.dirname(path), {path: None})

    def make_folder(self, path: str) -> None:
        if path in self._names:
            raise FileExistsError(errno.EEXIST, "a file", path)
        self._folders.add(path)

    def sync_folder(self, folder: str) -> None:
        self.count("sync_folder")
        for place, change in self._pending_names:
            if place == folder:
                _change(self._durable_names, change)
        self._pending_names = [pair for pair in self._pending_names if pair[0] != folder]

    def _inode(self, path: str) -> Inode:
        try:
            return self._names[path]
        except KeyError:
            raise FileNotFoundError(errno.ENOENT, "no such file", path) from None

    def _opened(self, path: str) -> FakeFile:
        self.files_open += 1
        return FakeFile(self, self._names[path])

    def _rename(self, folder: str, change: dict[str, Inode | None]) -> None:
        _change(self._names, change)
        self._pending_names.append((folder, change))


def _change(names: dict[str, Inode], change: dict[str, Inode | None]) -> None:
    """Apply one change of names."""
    for name, inode in change.items():
        if inode is None:
            names.pop(name, None)
        else:
            names[name] = inode
