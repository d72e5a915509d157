"""What a program did to a folder, change by change, and every disk that a crash at any of them may leave.

    recorder (real calls on a real folder) ──► Trace ──► after each change: a Disk ──► images ──► files of a new folder

The faults are those of `tests.sim.disk`: what was not synced may be lost sector by sector and write by write, a name is
durable when its folder was synced, a rename is one change. Here folders are names, too: one that was not synced in its
parent may be gone with all that was synced in it.

`note` puts a word of the program into the trace ("acknowledged up to here"), so that an oracle knows what had been
promised at the moment of the crash.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from tests.sim.disk import Inode


class Folder:
    """A folder: its names as readers see them, as the platter has them, and the changes between."""

    def __init__(self) -> None:
        self.names: dict[str, Inode | Folder] = {}
        self.durable: dict[str, Inode | Folder] = {}
        self.pending: list[dict[str, Inode | Folder | None]] = []

    def change(self, change: dict[str, Inode | Folder | None]) -> None:
        """Change names in one step."""
        _change(self.names, change)
        self.pending.append(change)

    def sync(self) -> None:
        """Make the names durable, as they are."""
        self.durable = dict(self.names)
        self.pending.clear()

    def after_power_cut(self, random: Random) -> dict[str, Any]:
        """One of the contents this folder may have afterwards, with all below it."""
        names, keep = dict(self.durable), random.choice((0.0, 0.5, 1.0))
        for change in self.pending:
            if random.random() < keep:
                _change(names, change)
        return {name: node.after_power_cut(random) for name, node in sorted(names.items())}

    def visible(self) -> dict[str, Any]:
        """What readers see, with all below it."""
        return {
            name: node.visible() if isinstance(node, Folder) else bytes(node.data) for name, node in self.names.items()
        }


def _change(names: dict[str, Inode | Folder], change: dict[str, Inode | Folder | None]) -> None:
    for name, node in change.items():
        if node is None:
            names.pop(name, None)
        else:
            names[name] = node


@dataclass
class Disk:
    """The folder as it is after some changes, and what the program had noted by then."""

    root: Folder = field(default_factory=Folder)
    notes: list[Any] = field(default_factory=list)
    inodes: dict[int, Inode] = field(default_factory=dict)

    def folder(self, path: str) -> Folder:
        """The folder at a path, relative to the root; "" is the root."""
        found: Inode | Folder = self.root
        for part in Path(path).parts:
            assert isinstance(found, Folder)
            found = found.names[part]
        assert isinstance(found, Folder), path
        return found

    def apply(self, change: Change) -> None:
        """Go on by one change."""
        kind, *rest = change
        getattr(self, f"_{kind}")(*rest)

    def after_kill(self) -> dict[str, Any]:
        """What is there when only the process died: names to bytes or, for a folder, such a mapping."""
        return self.root.visible()

    def after_power_cut(self, seed: object) -> dict[str, Any]:
        """One of the contents after a power cut."""
        return self.root.after_power_cut(Random(f"{seed}"))

    # --- one method a change ------------------------------------------------------------------------------------------

    def _note(self, word: Any) -> None:
        self.notes.append(word)

    def _mkdir(self, path: str) -> None:
        parent, leaf = os.path.split(path)
        self.folder(parent).change({leaf: Folder()})

    def _create(self, path: str, number: int) -> None:
        parent, leaf = os.path.split(path)
        self.inodes[number] = Inode()
        self.folder(parent).change({leaf: self.inodes[number]})

    def _write(self, number: int, offset: int, piece: bytes) -> None:
        inode = self.inodes[number]
        inode.pending.append((offset, piece))
        if len(inode.data) < offset:
            inode.data += bytes(offset - len(inode.data))
        inode.data[offset : offset + len(piece)] = piece

    def _truncate(self, number: int, size: int) -> None:
        inode = self.inodes[number]
        if size > len(inode.data):
            self._write(number, len(inode.data), bytes(size - len(inode.data)))
        else:
            inode.pending.append((size, None))
            del inode.data[size:]

    def _sync(self, number: int) -> None:
        self.inodes[number].sync()

    def _rename(self, source: str, target: str) -> None:
        parent, leaf = os.path.split(source)
        to_parent, to_leaf = os.path.split(target)
        assert parent == to_parent, "a move to another folder is not modelled"
        folder = self.folder(parent)
        folder.change({leaf: None, to_leaf: folder.names[leaf]})

    def _remove(self, path: str) -> None:
        parent, leaf = os.path.split(path)
        self.folder(parent).change({leaf: None})

    def _sync_folder(self, path: str) -> None:
        self.folder(path).sync()


Change = tuple[Any, ...]
"""Its kind (a method of `Disk`, without the dash) and what that takes."""


class Trace:
    """All changes, and the folder before them. Made by `tests.sim.recorder`."""

    def __init__(self, root: Path) -> None:
        self.root = os.path.realpath(root)
        self.changes: list[Change] = []
        self._before = Disk()
        self._numbers: dict[str, int] = {}
        self._count = 0
        self._load(self._before.root, self.root)

    def disks(self) -> Iterator[Disk]:
        """The folder before the first change and after each, one object that goes on."""
        disk = self._before
        yield disk
        for change in self.changes:
            if change[0] == "write" and len(change[3]) > 1:  # killed in the middle of a call
                _, number, offset, piece = change
                half = Random(f"{number} {offset}").randrange(1, len(piece))
                disk.apply(("write", number, offset, piece[:half]))
                yield disk
            disk.apply(change)
            yield disk

    def number_of(self, path: str) -> int:
        """The number of the file that has this name now."""
        return self._numbers[path]

    def new_number(self, path: str) -> int:
        """A number for a file that gets this name."""
        self._count += 1
        self._numbers[path] = self._count
        return self._count

    def renamed(self, source: str, target: str) -> None:
        """Names moved, those of a folder with it."""
        for path in list(self._numbers):
            if path == source or path.startswith(f"{source}/"):
                self._numbers[target + path[len(source) :]] = self._numbers.pop(path)

    def _load(self, folder: Folder, path: str) -> None:
        for entry in os.scandir(path):
            if entry.is_dir(follow_symlinks=False):
                node: Inode | Folder = Folder()
                self._load(node, entry.path)
            elif entry.is_file(follow_symlinks=False):
                node = Inode(Path(entry.path).read_bytes())
                self._before.inodes[self.new_number(os.path.relpath(entry.path, self.root))] = node
            else:
                continue
            folder.names[entry.name] = folder.durable[entry.name] = node


def put(content: dict[str, Any], target: Path) -> Path:
    """Write an image into a new folder."""
    target.mkdir()
    for name, node in content.items():
        if isinstance(node, dict):
            put(node, target / name)
        else:
            (target / name).write_bytes(node)
    return target
