"""Values through pickle: the explicit choice `payloads="pickle"`, for what plain JSON does not hold exactly.

In line a pickle is base64 text. Large ones are a blob: the pickle stream, then the buffers that protocol 5 takes out of
band (NumPy arrays, Arrow tables ...), one after the other, so that they are written and read without a copy.

Known limits: what pickle restores is what the class's own reduction restores; equality is its business, not checked
here. Reading a pickle runs code of the classes in it, as always. In templates references travel as persistent ids.
"""

from __future__ import annotations

import binascii
import io
import pickle
from collections.abc import Callable, Sequence
from typing import Any, Final

from actors.protocol import limits
from actors.protocol.errors import PayloadUnreadable
from runtime.mail.blobs import Spill
from runtime.mail.leaves import Node, base64_text
from runtime.mail.refusal import Refused, children, field_step, key_step, refuse_large_without_store

PROTOCOL: Final = 5
_STEPS_MAX: Final = 32
IndexOf = Callable[[object], int | None]
ParentOf = Callable[[int], Any]


class _Pickler(pickle.Pickler):
    def __init__(self, file: io.BytesIO, index_of: IndexOf | None, buffers: list[pickle.PickleBuffer] | None) -> None:
        super().__init__(file, PROTOCOL, buffer_callback=None if buffers is None else buffers.append)
        if index_of is not None:
            self.persistent_id = index_of  # type: ignore[method-assign]  # asked for every object, so only in templates


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, parent: ParentOf, buffers: Sequence[memoryview]) -> None:
        super().__init__(file, buffers=buffers)
        self.persistent_load = parent  # type: ignore[method-assign]


def write(value: Any, spill: Spill | None, index_of: IndexOf | None = None) -> Node:
    """The node of a pickled value: `["pickle", base64]`, or a blob node.

    Raises:
        Refused: It cannot be pickled (with the path to the part that cannot, as far as it is found), or is too large.
    """
    if spill is not None:
        buffers: list[pickle.PickleBuffer] = []
        stream = _dump(value, index_of, buffers)
        views = [buffer.raw() for buffer in buffers]
        if len(stream) + sum(view.nbytes for view in views) > limits.PAYLOAD_INLINE_BYTES_MAX:
            return spill.write("pickle", [stream, *views], [len(stream), *(view.nbytes for view in views)])
        if not buffers:
            return ["pickle", base64_text(stream)]
    stream = _dump(value, index_of, None)
    refuse_large_without_store(len(stream))
    return ["pickle", base64_text(stream)]


def read(text: str, parent: ParentOf) -> Any:
    """The value of an inline pickle.

    Raises:
        PayloadUnreadable: It cannot be rebuilt.
    """
    return _load(binascii.a2b_base64(text), [], parent)


def read_blob(view: memoryview, sizes: list[int], parent: ParentOf) -> Any:
    """The value of a pickle in a blob; its buffers are read-only views of the mapping."""
    parts = []
    at = 0
    for size in sizes:
        parts.append(view[at : at + size])
        at += size
    return _load(parts[0], parts[1:], parent)


def _dump(value: Any, index_of: IndexOf | None, buffers: list[pickle.PickleBuffer] | None) -> bytes:
    file = io.BytesIO()
    try:
        _Pickler(file, index_of, buffers).dump(value)
    except MemoryError:
        raise
    except Exception as reason:  # a class's own reduction may raise anything
        raise _refusal(value, index_of, reason) from None
    return file.getvalue()


def _load(stream: bytes | memoryview, buffers: Sequence[memoryview], parent: ParentOf) -> Any:
    try:
        return _Unpickler(io.BytesIO(stream), parent, buffers).load()
    except (MemoryError, PayloadUnreadable):
        raise
    except Exception as reason:  # classes rebuild themselves, which may raise anything
        raise PayloadUnreadable(f"a pickled value cannot be rebuilt: {type(reason).__qualname__}: {reason}") from reason


def _refusal(value: Any, index_of: IndexOf | None, reason: Exception) -> Refused:
    """Descend to the innermost part that cannot be pickled by itself."""
    steps: list[str] = []
    while len(steps) < _STEPS_MAX:
        for step, child in _parts(value):
            failure = _failure(child, index_of)
            if failure is not None:
                steps.append(step)
                value, reason = child, failure
                break
        else:
            break
    refused = Refused(f"cannot be pickled: {type(reason).__qualname__}: {reason}")
    for step in reversed(steps):
        refused.at(step)
    return refused


def _failure(value: Any, index_of: IndexOf | None) -> Exception | None:
    try:
        _Pickler(io.BytesIO(), index_of, []).dump(value)
    except Exception as reason:
        return reason
    return None


def _parts(value: Any) -> list[tuple[str, Any]]:
    if isinstance(value, dict):
        return [(key_step(key), item) for key, item in value.items()]
    if isinstance(value, list | tuple):
        return [(f"[{at}]", item) for at, item in enumerate(value)]
    held = getattr(value, "__dict__", None)
    if type(held) is dict and not isinstance(value, type):
        return [(field_step(name), item) for name, item in held.items()]
    return [("{}", item) for item in children(value)]
