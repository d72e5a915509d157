"""Values as bytes and back, exactly (guarantee G7): what is accepted comes back equal and of the same types.

A *wire value* is what `orjson.loads` makes of the bytes: plain JSON stands for itself, and an object with the single
key `"!"` is an extension, `{"!": [tag, data...]}`:

    json    text                    plain JSON as one string: large or deep containers, and a user's own {"!": ...}
    tree    node, or its text       the typed tree of `typed`
    blob    name, form, size, ...   a file; form json, tree, pickle, or that of a single leaf (bytes, npy ...)
    pickle  base64                  with payloads="pickle"
    ref     k                       in templates: the result of parent k

Only the value as a whole is looked at, never what is inside it, so a frame without the bytes `"!"` needs no decoding
at all (`Codec.plain`). The engine carries wire values as they are; containers over PAYLOAD_OPAQUE_BYTES_MIN are one
string, so that it never builds their objects, and what is over PAYLOAD_INLINE_BYTES_MAX is a blob where a store and a
key are given.

    list or dict --exact as plain JSON?--> its text, or "json"
                 \\-- no --> typed tree, or pickle --> in line, or blob
    other        --leaf of JSON?--> its text  \\-- no --> the same

Whole lists are encoded by one call where all is plain and small; the values that are not are encoded one by one and put
in place, so that one odd value does not slow the rest. In that case what decides between in line and "json" is the mean
size: a value hidden among small ones may stay in line up to INLINE_MEAN_BYTES times their number.

Depth: PAYLOAD_DEPTH_MAX levels for typed values; plain ones up to what orjson can do (254).
Concurrency: stateless but for the store; any thread may use it. Values must not be changed by others meanwhile.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import orjson

from actors.protocol import limits
from actors.protocol.errors import EnvironmentFault, PayloadError, PayloadUnreadable
from runtime.mail import pickled
from runtime.mail.blobs import BlobStore, Spill, open_node
from runtime.mail.leaves import INT_MAX, INT_MIN
from runtime.mail.plain import PLAIN, SCALARS, is_shallow, plain_text, scalars_text
from runtime.mail.refusal import Refused, key_step, refuse_large_without_store, too_deep
from runtime.mail.typed import TooDeep, TreeReader, TreeWriter

EXTENSION: Final = "!"
INLINE_MEAN_BYTES: Final = 128
"""Mean size of values up to which a list is encoded by one call without looking at single sizes."""

IndexOf = Callable[[object], int | None]


class Codec:
    """Encodes and decodes values for one process.

    Args:
        blobs: Where large values go; None keeps all in line, up to a quarter of a frame.
    """

    def __init__(self, blobs: BlobStore | None = None) -> None:
        self._blobs = blobs

    # --- encoding ---------------------------------------------------------------------------------------------------

    def encode(self, value: Any, *, pickle: bool = False, blob_key: str = "") -> bytes:
        """JSON text of one wire value.

        Args:
            value: Any value of the types listed in `typed`.
            pickle: Whether what plain JSON does not hold goes through pickle instead of the typed tree.
            blob_key: "run key/node-attempt", names the blobs of large values. Empty: keep all in line.

        Raises:
            PayloadError: The value, or the part at the error's path, cannot be stored exactly.
            PayloadTooLarge: It is over the limit.
            DiskFull, StateFolderError: A blob could not be written.

        Crash: at most blobs that no record names; they go with their run's folder.
        """
        return self._encode(value, pickle, blob_key, None, "$")

    def encode_list(self, values: list[Any], *, pickle: bool = False, blob_key: str = "") -> bytes:
        """JSON array of the wire values of many values. As `encode`, but paths start with `[i]`."""
        if type(values) is not list:
            values = list(values)
        kinds = set(map(type, values))
        if kinds <= SCALARS:
            text = scalars_text(values, kinds)
            if text is not None and len(text) <= limits.PAYLOAD_INLINE_BYTES_MAX:
                return text
        elif kinds <= PLAIN:
            text = self._plain_list(values, len(values) if kinds <= _CONTAINERS else 0)
            if text is not None:
                return text
        return orjson.dumps(self._fragments(values, pickle, blob_key))

    def encode_each(self, values: list[Any], *, pickle: bool = False, blob_key: str = "") -> list[bytes]:
        """The wire values of many values, each as its own text, for callers that must keep frames below a size."""
        return [self._encode(value, pickle, blob_key, None, f"[{at}]") for at, value in enumerate(values)]

    def encode_template(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        index_of: IndexOf,
        *,
        pickle: bool = False,
        blob_key: str = "",
    ) -> bytes:
        """JSON text of `[args, kwargs]` as wire values in which references to parents may stand anywhere.

        Args:
            args: Positional arguments.
            kwargs: Keyword arguments.
            index_of: The parent's index for an object that stands for its result, None for all others.
            pickle: As for `encode`.
            blob_key: As for `encode`.

        Raises:
            PayloadError: As `encode`; paths start with `args[i]` or `kwargs['name']`.
        """
        first = b",".join(
            [self._encode(value, pickle, blob_key, index_of, f"args[{at}]") for at, value in enumerate(args)]
        )
        second = b",".join(
            [
                orjson.dumps(name) + b":" + self._encode(value, pickle, blob_key, index_of, f"kwargs{key_step(name)}")
                for name, value in kwargs.items()
            ]
        )
        return b"[[" + first + b"],{" + second + b"}]"

    def _encode(self, value: Any, pickle: bool, blob_key: str, index_of: IndexOf | None, root: str) -> bytes:
        kind = type(value)
        text: bytes | None = None
        if kind is list or kind is dict:
            text = plain_text(value)
            if text is not None and len(text) <= limits.PAYLOAD_OPAQUE_BYTES_MIN:
                looks_extended = kind is dict and len(value) == 1 and EXTENSION in value
                return text if not looks_extended and is_shallow(value, text, 0) else _opaque(b"json", text)
        elif kind in SCALARS:
            try:
                text = orjson.dumps(value)
            except TypeError:  # an integer beyond 64 bits, or a lone surrogate
                text = None
            if kind is float and text == b"null":
                text = None
            if text is not None and len(text) <= limits.PAYLOAD_INLINE_BYTES_MAX:
                return text
        spill = Spill(self._blobs, blob_key) if self._blobs is not None and blob_key else None
        try:
            if text is not None:
                return _settle(b"json", text, spill, kind is str)
            node = pickled.write(value, spill, index_of) if pickle else None
            return _settle_node(TreeWriter(spill, index_of).node(value) if node is None else node, spill)
        except BaseException as reason:
            if spill is not None:
                spill.undo()
            error = _error(reason, value, root)
            if error is None:
                raise
            raise error from (None if isinstance(reason, Refused | TooDeep) else reason)

    def _plain_list(self, values: list[Any], containers: int) -> bytes | None:
        """JSON text of plain values by one call, or None when some of them need more than that."""
        text = plain_text(values)
        if text is None or b'"!"' in text:
            return None
        if len(text) > max(limits.PAYLOAD_OPAQUE_BYTES_MIN, INLINE_MEAN_BYTES * len(values)):
            return None
        return text if is_shallow(values, text, containers) else None

    def _fragments(self, values: list[Any], pickle: bool, blob_key: str) -> list[Any]:
        """The values as orjson takes them: plain leaves as they are, all others encoded."""
        containers = [value for value in values if type(value) in _CONTAINERS]
        keep = not containers or self._plain_list(containers, len(containers)) is not None
        out = list(values)
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
            elif value is None or kind is bool or (keep and kind in _CONTAINERS):
                continue
            out[at] = orjson.Fragment(self._encode(value, pickle, blob_key, None, f"[{at}]"))
        return out

    # --- decoding ---------------------------------------------------------------------------------------------------

    @staticmethod
    def plain(frame: bytes) -> bool:
        """Whether no wire value in this JSON text can be an extension: nothing in it needs decoding."""
        return b'"!"' not in frame

    def decode(self, wire: Any) -> Any:
        """The value of a wire value.

        Raises:
            PayloadUnreadable: A blob, class or module that it needs is gone, or the wire value is malformed.
        """
        if type(wire) is dict and len(wire) == 1 and EXTENSION in wire:
            return self._extension(wire[EXTENSION], None)
        return wire

    def decode_list(self, wires: list[Any]) -> list[Any]:
        """The values of many wire values; the list itself when none of them is an extension. Raises as `decode`."""
        if dict not in set(map(type, wires)):
            return wires
        return [
            self._extension(wire[EXTENSION], None)
            if type(wire) is dict and len(wire) == 1 and EXTENSION in wire
            else wire
            for wire in wires
        ]

    def decode_template(self, wire: Any, parents: list[Any]) -> tuple[list[Any], dict[str, Any]]:
        """Arguments and keyword arguments of a template, with the parents' results in place of the references.

        Args:
            wire: What `encode_template` made, as `orjson.loads` reads it.
            parents: Decoded results. One that is referred to twice is the same object twice.

        Raises:
            PayloadUnreadable: As `decode`, or a reference has no parent.
        """
        args, kwargs = wire
        return (
            [self._template_value(value, parents) for value in args],
            {name: self._template_value(value, parents) for name, value in kwargs.items()},
        )

    def _template_value(self, wire: Any, parents: list[Any]) -> Any:
        if type(wire) is dict and len(wire) == 1 and EXTENSION in wire:
            return self._extension(wire[EXTENSION], parents)
        return wire

    def _extension(self, extension: Any, parents: list[Any] | None) -> Any:
        try:
            tag = extension[0]
            if tag == "json":
                return orjson.loads(extension[1])
            if tag == "tree":
                node = extension[1]
                return self._tree(orjson.loads(node) if type(node) is str else node, parents)
            if tag == "pickle":
                return pickled.read(extension[1], parents)
            if tag == "blob":
                return self._blob(extension, parents)
            if tag == "ref":
                return self._tree(extension, parents)
        except (PayloadError, EnvironmentFault, MemoryError):
            raise
        except Exception as reason:
            raise PayloadUnreadable(f"a stored value cannot be read: {type(reason).__qualname__}: {reason}") from reason
        raise PayloadUnreadable(f"a stored value has the unknown tag {tag!r}; a newer version may have written it")

    def _tree(self, node: Any, parents: list[Any] | None) -> Any:
        return TreeReader(self._blobs, parents).value(node)

    def _blob(self, node: Any, parents: list[Any] | None) -> Any:
        form = node[2]
        if form not in ("json", "tree", "pickle"):
            return TreeReader(self._blobs, parents).value(node)
        view = open_node(self._blobs, node)
        if form == "json":
            return orjson.loads(view)
        if form == "tree":
            return self._tree(orjson.loads(view), parents)
        return pickled.read_blob(view, node[5], parents)


_CONTAINERS: Final = frozenset({list, dict})


def _opaque(tag: bytes, text: bytes) -> bytes:
    return b'{"!":["' + tag + b'",' + orjson.dumps(text.decode()) + b"]}"


def _settle(tag: bytes, text: bytes, spill: Spill | None, is_leaf: bool) -> bytes:
    """Put a text in line, as a string, or into a blob, by its length. A leaf is never a string in a string."""
    size = len(text)
    if size > limits.PAYLOAD_INLINE_BYTES_MAX:
        if spill is not None:
            return orjson.dumps({EXTENSION: spill.write(tag.decode(), [text])})
        refuse_large_without_store(size)
    if is_leaf:
        return text
    if tag == b"json" or size > limits.PAYLOAD_OPAQUE_BYTES_MIN:
        return _opaque(tag, text)
    return b'{"!":["' + tag + b'",' + text + b"]}"


def _settle_node(node: Any, spill: Spill | None) -> bytes:
    if type(node) is list and node[0] in ("blob", "ref", "pickle"):
        return orjson.dumps({EXTENSION: node})
    return _settle(b"tree", orjson.dumps(node), spill, is_leaf=False)


def _error(reason: BaseException, value: Any, root: str) -> BaseException | None:
    """What the caller gets for what went wrong inside; None to let it pass as it is."""
    if isinstance(reason, Refused):
        return reason.error(root)
    if isinstance(reason, TooDeep | RecursionError):
        return too_deep(value).error(root)
    if isinstance(reason, EnvironmentFault | PayloadError | MemoryError) or not isinstance(reason, Exception):
        return None
    return Refused(f"cannot be stored: {type(reason).__qualname__}: {reason}").error(root)
