"""Which blob files a stored value refers to, found without rebuilding it: no class of the program is imported.

`blobs_in(wire, read)` yields the blob nodes of one wire value, those inside of other blobs among them; `values_of` cuts
a task's stored item into the wire values that it is made of, by the shape of its kind. What a user's own text or dict
looks like is never taken for a reference: plain content is not looked at, as when values are decoded (see `codec`).

Concurrency: functions without state. Known limit: a pickle is opaque, and never names a blob.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import orjson

from runtime.mail.plain import EXTENSION

_PLAIN_CODES: Final = frozenset({"j", "T"})
"""Nodes whose content is plain, so that what looks like a node in it is the user's."""
_NODE_PARTS_MIN: Final = 5


class BlobRef(NamedTuple):
    """A blob file as a stored value names it."""

    name: str
    form: str
    size: int
    checksum: int


def blobs_in(wire: Any, read: Callable[[BlobRef], Any]) -> Iterator[BlobRef]:
    """The blobs of a wire value, outer ones first.

    Args:
        wire: As `orjson.loads` reads it.
        read: Gives the content of a blob with a typed tree, in which there may be others; None where it has none.
    """
    if not (type(wire) is dict and len(wire) == 1 and EXTENSION in wire):
        return
    extension = wire[EXTENSION]
    if type(extension) is not list or not extension:
        return
    if extension[0] == "blob":
        yield from _follow(extension, read)
    elif extension[0] == "tree" and len(extension) > 1:
        node = extension[1]
        yield from _in_tree(_loads(node) if type(node) is str else node, read)


def values_of(shape: str, item: Any) -> list[Any]:
    """The wire values of a task's stored item.

    Args:
        shape: Of its kind, see `actors.protocol.kinds.Shape`.
        item: As it is stored; None where the task has none.
    """
    if item is None or shape == "parents":
        return []
    if shape == "one":
        return [item]
    if type(item) is not list:
        return []
    if shape == "args":
        return item
    if shape == "mixed":
        return item[0] if item and type(item[0]) is list else []
    args, kwargs = [*item, None, None][:2]
    return [*(args if type(args) is list else ()), *(kwargs.values() if type(kwargs) is dict else ())]


def _loads(text: str | bytes | memoryview) -> Any:
    try:
        return orjson.loads(text)
    except ValueError:  # it will be refused when it is read
        return None


def _follow(node: list[Any], read: Callable[[BlobRef], Any]) -> Iterator[BlobRef]:
    if len(node) < _NODE_PARTS_MIN:
        return
    _, name, form, size, checksum = node[:5]
    if not (type(name) is str and type(size) is int and type(checksum) is int):
        return
    found = BlobRef(name, str(form), size, checksum)
    yield found
    if form == "tree":
        content = read(found)
        if content is not None:
            yield from _in_tree(_loads(content), read)


def _in_tree(node: Any, read: Callable[[BlobRef], Any]) -> Iterator[BlobRef]:
    waiting = [node]
    while waiting:
        node = waiting.pop()
        if type(node) is dict:
            waiting.extend(part for part in node.values() if type(part) in (list, dict))
        elif type(node) is list and node and node[0] not in _PLAIN_CODES:
            if node[0] == "blob":
                yield from _follow(node, read)
            else:
                waiting.extend(part for part in node[1:] if type(part) in (list, dict))
