"""Pins: the files of large values, opened as soon as a value is known, so that it can be read whenever its owner likes.

A run's files are removed when the retention rule lets go of it, while a handle of the run may be held for long. An open
mapping outlives its file (POSIX): the disk space comes back when the last handle that could read it is dropped.

In a pinned wire value the name of each blob is replaced by a view of its content. Only what `typed` calls a node is
walked, never a user's own lists, which may look like one. A file that cannot be opened, or is one mapping too many for
the system, keeps its name, and is opened when the value is read.

Costs about 30 us a file and an entry in the process's map, no descriptor and no memory until it is read.
"""

from __future__ import annotations

from typing import Any, Final

import orjson

from actors.protocol.errors import PayloadUnreadable
from runtime.mail.blobs import BlobStore
from runtime.mail.plain import EXTENSION

MARK: Final = b"blob"
"""Bytes without which no frame names a file."""
_TEXT_MARK: Final = '["blob"'
_NAME: Final = 1
_CONTAINERS: Final = frozenset({"l", "t", "s", "fs", "m", "od", "ct", "dd", "dq", "d", "nt"})


def pin(wires: list[Any], store: BlobStore) -> None:
    """Open the files that these wire values name, in place."""
    for wire in wires:
        if type(wire) is dict and len(wire) == 1 and EXTENSION in wire:
            extension = wire[EXTENSION]
            if extension[0] == "blob":
                _open(extension, store)
            elif extension[0] == "tree":
                _pin_tree(extension, store)


def _pin_tree(extension: list[Any], store: BlobStore) -> None:
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
                _open(node, store)
            elif node[0] in _CONTAINERS:
                todo += node[1:]


def _open(node: list[Any], store: BlobStore) -> None:
    try:
        node[_NAME] = store.open(node[_NAME])
    except PayloadUnreadable:
        pass
