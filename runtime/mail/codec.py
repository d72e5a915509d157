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
key are given. `encoding` has these decisions.

Depth: PAYLOAD_DEPTH_MAX levels for typed values; plain ones up to what orjson can do (254).
Concurrency: stateless but for the store; any thread may use it. Values must not be changed by others meanwhile.
"""

from __future__ import annotations

from typing import Any

import orjson

from actors.protocol.errors import EnvironmentFault, PayloadError, PayloadUnreadable
from runtime.mail import pickled
from runtime.mail.blobs import BlobStore, open_node
from runtime.mail.bulk import plain_list_text
from runtime.mail.encoding import Encoding, IndexOf
from runtime.mail.plain import EXTENSION, exact_text, may_stay
from runtime.mail.refusal import key_step
from runtime.mail.typed import TreeReader


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
        text = exact_text(value)
        if text is not None and may_stay(value, text):
            return text
        encoding = Encoding(self._blobs, blob_key, pickle)
        try:
            return encoding.placed(value, text, "$")
        except BaseException:
            encoding.undo()
            raise

    def encode_list(self, values: list[Any], *, pickle: bool = False, blob_key: str = "") -> bytes:
        """JSON array of the wire values of many values. As `encode`, but paths start with `[i]`."""
        if type(values) is not list:
            values = list(values)
        text = plain_list_text(values)
        if text is not None:
            return text
        encoding = Encoding(self._blobs, blob_key, pickle)
        try:
            return encoding.list_text(values)
        except BaseException:
            encoding.undo()
            raise

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
        encoding = Encoding(self._blobs, blob_key, pickle, index_of)
        try:
            first = [encoding.text(value, f"args[{at}]") for at, value in enumerate(args)]
            second = [
                orjson.dumps(name) + b":" + encoding.text(value, f"kwargs{key_step(name)}")
                for name, value in kwargs.items()
            ]
        except BaseException:
            encoding.undo()
            raise
        return b"[[" + b",".join(first) + b"],{" + b",".join(second) + b"}]"

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
        if _is_extension(wire):
            return self._extension(wire[EXTENSION], TreeReader(self._blobs))
        return wire

    def decode_list(self, wires: list[Any]) -> list[Any]:
        """The values of many wire values; the list itself when none of them is an extension. Raises as `decode`."""
        if dict not in set(map(type, wires)):
            return wires
        reader = TreeReader(self._blobs)
        return [
            self._extension(wire[EXTENSION], reader)
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
        reader = TreeReader(self._blobs, parents)
        return (
            [self._extension(value[EXTENSION], reader) if _is_extension(value) else value for value in args],
            {
                name: self._extension(value[EXTENSION], reader) if _is_extension(value) else value
                for name, value in kwargs.items()
            },
        )

    def _extension(self, extension: Any, reader: TreeReader) -> Any:
        try:
            tag = extension[0]
            if tag == "tree":
                node = extension[1]
                return reader.value(orjson.loads(node) if type(node) is str else node)
            if tag == "json":
                return orjson.loads(extension[1])
            if tag == "blob":
                return self._blob(extension, reader)
            if tag == "ref":
                return reader.parent(extension[1])
            if tag == "pickle":
                return pickled.read(extension[1], reader.parent)
        except (PayloadError, EnvironmentFault, MemoryError):
            raise
        except Exception as reason:
            raise PayloadUnreadable(f"a stored value cannot be read: {type(reason).__qualname__}: {reason}") from reason
        raise PayloadUnreadable(f"a stored value has the unknown tag {tag!r}; a newer version may have written it")

    def _blob(self, node: Any, reader: TreeReader) -> Any:
        form = node[2]
        if form not in ("json", "tree", "pickle"):
            return reader.blob(node)
        view = open_node(self._blobs, node)
        if form == "json":
            return orjson.loads(view)
        if form == "tree":
            return reader.value(orjson.loads(view))
        return pickled.read_blob(view, node[5], reader.parent)


def _is_extension(wire: Any) -> bool:
    return type(wire) is dict and len(wire) == 1 and EXTENSION in wire
