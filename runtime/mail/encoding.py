"""How one value, or a list of them, becomes the text of wire values: the decisions of `codec`, on the way out.

    plain and small        as it is
    plain, else            `json`: one string, or a blob
    not plain              typed tree, or pickle: in line, one string, or a blob

Whole lists are written by one call where all is plain and small; the values that are not are encoded one by one and put
in place, so that one odd value does not slow the rest. What decides between in line and `json` is then the mean size: a
value hidden among small ones may stay in line up to INLINE_MEAN_BYTES times their number, which is at most
PAYLOAD_INLINE_BYTES_MAX.

States: an `Encoding` serves one call of the codec; its `undo` takes back the blobs of a call that failed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import orjson

from actors.protocol import limits
from actors.protocol.errors import EnvironmentFault, PayloadError
from runtime.mail import pickled
from runtime.mail.blobs import BlobStore, Spill
from runtime.mail.leaves import INT_MAX, INT_MIN
from runtime.mail.plain import (
    PLAIN,
    SCALARS,
    is_shallow,
    nested_text,
    plain_text,
    scalar_text,
    scalars_text,
)
from runtime.mail.refusal import Refused, refuse_large_without_store, too_deep
from runtime.mail.typed import TooDeep, TreeWriter

EXTENSION: Final = "!"
INLINE_MEAN_BYTES: Final = 256
"""Mean size of values up to which a list is encoded by one call, without looking at single sizes. Larger values are
worth a call each."""
BLOCK_VALUES: Final = limits.PAYLOAD_INLINE_BYTES_MAX // INLINE_MEAN_BYTES
"""Longer lists go in blocks, so that no value above PAYLOAD_INLINE_BYTES_MAX can hide among small ones."""
_ESCAPED_BYTES_MAX: Final = 6
"""Longest JSON text of one character."""
_CONTAINERS: Final = frozenset({list, dict})

IndexOf = Callable[[object], int | None]


def exact_text(value: Any) -> bytes | None:
    """JSON text of a plain value of any size, or None when plain JSON does not hold it exactly."""
    kind = type(value)
    if kind is list or kind is dict:
        return plain_text(value)
    return scalar_text(value) if kind in SCALARS else None


def may_stay(value: Any, text: bytes) -> bool:
    """Whether a plain value goes as it is: it is small, not deep, and does not look like an extension."""
    kind = type(value)
    if kind is not list and kind is not dict:
        return len(text) <= limits.PAYLOAD_INLINE_BYTES_MAX
    if len(text) > limits.PAYLOAD_OPAQUE_BYTES_MIN or (kind is dict and len(value) == 1 and EXTENSION in value):
        return False
    return is_shallow(value, text, 0)


def quick_list_text(values: list[Any]) -> bytes | None:
    """JSON text of a list of plain and small values, or None when one of them is not."""
    kinds = set(map(type, values))
    if kinds <= SCALARS:
        text = scalars_text(values, kinds)
        if text is None or len(text) <= limits.PAYLOAD_INLINE_BYTES_MAX or str not in kinds:
            return text
        longest = max(len(value) for value in values if type(value) is str)
        return text if longest * _ESCAPED_BYTES_MAX < limits.PAYLOAD_INLINE_BYTES_MAX else None
    return _plain_list_text(values, kinds)


def _plain_list_text(values: list[Any], kinds: set[type]) -> bytes | None:
    text = nested_text(values, kinds)
    limit = min(INLINE_MEAN_BYTES * len(values), limits.PAYLOAD_INLINE_BYTES_MAX)
    if text is None or len(text) > max(limit, limits.PAYLOAD_OPAQUE_BYTES_MIN):
        return None
    if 33 in text and b'"!"' in text:  # one of them may look like an extension
        return None
    return text if is_shallow(values, text, len(values) if kinds <= _CONTAINERS else 0) else None


class Encoding:
    """One call of the codec.

    Args:
        store: Takes large values; None keeps all in line.
        key: Names the blobs; empty keeps all in line.
        pickle: Whether what is not plain goes through pickle.
        index_of: In templates, tells objects that stand for a parent's result.
    """

    __slots__ = ("_index_of", "_pickle", "_spill", "_writer")

    def __init__(self, store: BlobStore | None, key: str, pickle: bool, index_of: IndexOf | None = None) -> None:
        self._spill = Spill(store, key) if store is not None and key else None
        self._pickle = pickle
        self._index_of = index_of
        self._writer = TreeWriter(self._spill, index_of)

    def undo(self) -> None:
        """Remove the blobs that were written: the call failed, nobody will know their names."""
        if self._spill is not None:
            self._spill.undo()

    def text(self, value: Any, root: str) -> bytes:
        """JSON text of one wire value. Arguments and errors as for `placed`."""
        text = exact_text(value)
        if text is not None and may_stay(value, text):
            return text
        return self.placed(value, text, root)

    def placed(self, value: Any, text: bytes | None, root: str) -> bytes:
        """JSON text of the wire value of what cannot stay as it is.

        Args:
            value: The value.
            text: Its JSON text if that is exact.
            root: What its path starts with.

        Raises:
            PayloadError: It cannot be stored exactly, or is too large.
        """
        if self._spill is not None:
            self._spill.begin()
        try:
            if text is not None:
                return self._by_size("json", text, is_leaf=type(value) is str)
            return self._typed(value)
        except Refused as refused:
            raise refused.error(root) from None
        except TooDeep:
            raise too_deep(value).error(root) from None
        except RecursionError:
            raise Refused("is nested more deeply than what is left of the call stack").error(root) from None
        except (EnvironmentFault, PayloadError, MemoryError):
            raise
        except Exception as reason:  # from code of the value's class, or because it changes meanwhile
            raise Refused(f"cannot be stored: {type(reason).__qualname__}: {reason}").error(root) from reason

    def list_text(self, values: list[Any]) -> bytes:
        """JSON array of the wire values of values that are not all plain and small. Raises as `text`."""
        if len(values) <= BLOCK_VALUES:
            return self._block_text(values, 0)
        texts = []
        for start in range(0, len(values), BLOCK_VALUES):
            block = values[start : start + BLOCK_VALUES]
            texts.append((quick_list_text(block) or self._block_text(block, start))[1:-1])
        return b"[" + b",".join(texts) + b"]"

    def _block_text(self, values: list[Any], start: int) -> bytes:
        """`list_text` of a part of the list that begins at `start`."""
        out = list(values)
        keep = self._plain_places(values, out)
        for at, value in enumerate(values):
            kind = type(value)
            if kind is int:
                if INT_MIN <= value <= INT_MAX:
                    continue
            elif kind is str:
                if len(value) <= limits.PAYLOAD_OPAQUE_BYTES_MIN and value.isascii():
                    continue
            elif kind is float:
                if math.isfinite(value):
                    continue
            elif value is None or kind is bool or kind in keep:
                continue
            out[at] = orjson.Fragment(self.text(value, f"[{start + at}]"))
        return orjson.dumps(out)

    def _plain_places(self, values: list[Any], out: list[Any]) -> set[type]:
        """Which kinds of containers need no further look; tuples of plain items are put in place here."""
        keep: set[type] = set()
        if set(map(type, values)) <= PLAIN:  # they were tried together, by `quick_list_text`
            return keep
        containers = [value for value in values if type(value) in _CONTAINERS]
        if containers and _plain_list_text(containers, {list, dict}) is not None:
            keep |= _CONTAINERS
        places = [] if self._pickle else [at for at, value in enumerate(values) if type(value) is tuple]
        lists = [list(values[at]) for at in places]
        if lists and _plain_list_text(lists, {list}) is not None:
            keep.add(tuple)
            for at, items in zip(places, lists, strict=True):
                out[at] = {EXTENSION: ["tree", ["T", items]]}
        return keep

    def _typed(self, value: Any) -> bytes:
        if self._pickle:
            node = pickled.write(value, self._spill, self._index_of)
        else:
            node = self._writer.whole(value)
        if type(node) is list and node[0] in ("blob", "ref", "pickle"):
            return orjson.dumps({EXTENSION: node})
        return self._by_size("tree", orjson.dumps(node), is_leaf=False)

    def _by_size(self, tag: str, text: bytes, *, is_leaf: bool) -> bytes:
        """Put a text in line, as one string, or into a blob, by its length. A leaf is never a string in a string."""
        size = len(text)
        if size > limits.PAYLOAD_INLINE_BYTES_MAX:
            if self._spill is not None:
                return orjson.dumps({EXTENSION: self._spill.write(tag, [text])})
            refuse_large_without_store(size)
        if is_leaf:
            return text
        if tag == "json" or size > limits.PAYLOAD_OPAQUE_BYTES_MIN:
            text = orjson.dumps(text.decode())
        return b'{"!":["' + tag.encode() + b'",' + text + b"]}"
