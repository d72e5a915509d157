"""Pins: the files of large values, opened as soon as a value is known, so that it can be read whenever its owner likes.

A run's files are removed when the retention rule lets go of it, while a handle of the run may be held for long. An open
mapping outlives its file (POSIX): the disk space comes back when the last handle that could read it is dropped.

In a pinned wire value the name of each blob is replaced by a view of its content. Only what `typed` calls a node is
walked, never a user's own lists, which may look like one. A file that cannot be opened, or that would be one more than
`PINNED_FILES_MAX`, keeps its name, and is opened when the value is read.

Costs about 30 us a file and an entry in the process's map, no descriptor and no memory until it is read.
Concurrency: under the client's lock; mappings may go in any thread.
"""

from __future__ import annotations

import mmap
import weakref
from typing import Any, Final

import orjson

from actors.protocol import limits
from actors.protocol.errors import PayloadUnreadable
from runtime.mail.blobs import BlobStore
from runtime.mail.plain import EXTENSION

MARK: Final = b"blob"
"""Bytes without which no frame names a file."""
_TEXT_MARK: Final = '["blob"'
_NAME: Final = 1
_CONTAINERS: Final = frozenset({"l", "t", "s", "fs", "m", "od", "ct", "dd", "dq", "d", "nt"})


class Pins:
    """The pinned files of one session.

    Args:
        store: Where they are.
    """

    def __init__(self, store: BlobStore) -> None:
        self._store = store
        self._held: set[weakref.ref[Any]] = set()

    def __len__(self) -> int:
        return len(self._held)

    def pin(self, wires: list[Any]) -> None:
        """Open the files that these wire values name, in place."""
        for wire in wires:
            if type(wire) is dict and len(wire) == 1 and EXTENSION in wire:
                extension = wire[EXTENSION]
                if extension[0] == "blob":
                    self._open(extension)
                elif extension[0] == "tree":
                    self._pin_tree(extension)

    def _pin_tree(self, extension: list[Any]) -> None:
        node = extension[1]
        if type(node) is str:
            if _TEXT_MARK not in node:
                return
            node = extension[1] = orjson.loads(node)
        todo = [node]
        while todo:
            node = todo.pop()
            if type(node) is dict:
                todo += node.values()
            elif type(node) is list and node:
                if node[0] == "blob":
                    self._open(node)
                elif node[0] in _CONTAINERS:
                    todo += node[1:]

    def _open(self, node: list[Any]) -> None:
        if len(self._held) >= limits.PINNED_FILES_MAX:
            return
        try:
            view = node[_NAME] = self._store.open(node[_NAME])
        except PayloadUnreadable:
            return
        if isinstance(view.obj, mmap.mmap):  # an empty file has none
            self._held.add(weakref.ref(view.obj, self._held.discard))
