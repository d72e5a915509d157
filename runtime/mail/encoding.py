"""How one value, or a list of them, becomes the text of wire values: the decisions of `codec`, on the way out.

    plain and small        as it is
    plain, else            `json`: one string, or a blob
    not plain              typed tree, or pickle: in line, one string, or a blob

Lists are first tried as a whole, by the quick ways of `bulk`, in blocks, so that one odd value slows its block only.

States: an `Encoding` serves one call of the codec; its `undo` takes back the blobs of a call that failed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson

from actors.protocol import limits
from actors.protocol.errors import EnvironmentFault, PayloadError
from runtime.mail import pickled
from runtime.mail.blobs import BlobStore, Spill
from runtime.mail.bulk import BLOCK_VALUES, plain_list_text, typed_list_text
from runtime.mail.plain import EXTENSION, exact_text, may_stay
from runtime.mail.refusal import Refused, refuse_large_without_store, too_deep
from runtime.mail.typed import TooDeep, TreeWriter

IndexOf = Callable[[object], int | None]


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
            texts.append((plain_list_text(block) or self._block_text(block, start))[1:-1])
        return b"[" + b",".join(texts) + b"]"

    def _block_text(self, values: list[Any], start: int) -> bytes:
        """`list_text` of a part of the list that begins at `start`."""
        if not self._pickle:
            text = typed_list_text(values)
            if text is not None:
                return text
        return b"[" + b",".join([self.text(value, f"[{start + at}]") for at, value in enumerate(values)]) + b"]"

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
