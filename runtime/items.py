"""How a call becomes the stored item of a task: the shapes, and values that are too large to travel inline.

A call without parents' results has the shape "one" (a single positional argument), "args" or "call" (with keyword
arguments). The same text serves single tasks, items of a `map` and nodes of a flow.

Large values go to blob files, whose folder is named by the run. Where the run is not known yet (a flow is built before
it is submitted, a task gets its number when it is sent), the value is first encoded against `NoBlobs`, which refuses
without copying anything; the caller then takes the slower path that knows the run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any, Final, NoReturn

from actors.protocol import limits
from actors.protocol.errors import PayloadTooLarge
from actors.protocol.graph import encode
from actors.protocol.graph_builder import GraphBuilder
from actors.protocol.kinds import Shape
from runtime.mail.blobs import BlobStore
from runtime.mail.codec import Codec

ITEM_BYTES_MAX: Final = limits.FRAME_BYTES_MAX // 2
"""Longest text of all arguments of a call together; each large one is a file, so it takes hundreds to get there."""
LEAF_TYPES: Final = frozenset({int, float, str, bytes, bool, type(None), complex, bytearray, range})
"""Types that cannot hold a node."""
QUICK_TYPES: Final = frozenset({int, float, bool, type(None)})
"""Types whose values are always small."""


ANY_KEY: Final = "?"
"""Stands for the run key that is not known yet; with it the codec asks its store for large values."""


LONG_VALUES: Final = 10_000
"""Encoding a call with about so many numbers takes long: 0.2 ms, five times what a thread takes to take it up. Figures
are in ARCHITECTURE.md."""
TEXT_A_VALUE: Final = 512
"""Bytes of text that take as long as a number, where they need escapes."""
TYPED_VALUES: Final = 30
"""Tuples and sets are written with their types, each of which takes as long as so many numbers."""
_SAMPLE: Final = 8
"""Members of a container that are looked at."""
_DEPTH: Final = 3


class BlobNeeded(BaseException):
    """A value is too large to travel inline. Never leaves the face; not an Exception, so that the codec lets it
    pass."""


class NoBlobs(BlobStore):
    """Stands in for the blob store where no run is known: asking it to write raises `BlobNeeded`."""

    def __init__(self) -> None:
        """Opens nothing."""

    def write(self, key: str, suffix: str, buffers: Sequence[Any]) -> str:
        """Refuse."""
        raise BlobNeeded


class UnwrittenBlobs(BlobStore):
    """Takes large values and keeps nothing of them: what is encoded against it is looked at, not stored."""

    def __init__(self) -> None:
        """Opens nothing."""

    def write(self, key: str, suffix: str, buffers: Sequence[Any]) -> str:
        """A name without a file."""
        return ""

    def remove(self, names: Sequence[str]) -> None:
        """There is nothing to remove."""


def shape_of(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Shape:
    """Shape of a call without parents' results."""
    if kwargs:
        return "call"
    return "one" if len(args) == 1 else "args"


def encode_call(
    codec: Codec, args: Sequence[Any], kwargs: Mapping[str, Any], *, pickle: bool = False, blob_key: str = ""
) -> bytes:
    """Item text of a call, in the shape that `shape_of` says.

    Args:
        codec: Encodes the values; its blob store takes the large ones.
        args: Positional arguments.
        kwargs: Keyword arguments.
        pickle: Whether values that only pickle can store are taken.
        blob_key: Run key that names the folder of the blobs.

    Returns:
        JSON text, at most ITEM_BYTES_MAX long.

    Raises:
        PayloadError: A value cannot be stored exactly; the path starts with the argument.
        PayloadTooLarge: The arguments together are too long for one message.
        BlobNeeded: The codec's store is `NoBlobs`, and a value is large.
    """
    if kwargs:
        text = codec.encode_template(tuple(args), dict(kwargs), _no_reference, pickle=pickle, blob_key=blob_key)
    elif len(args) == 1:
        return codec.encode(args[0], pickle=pickle, blob_key=blob_key)
    else:
        text = codec.encode_list(list(args), pickle=pickle, blob_key=blob_key)
    if len(text) > ITEM_BYTES_MAX:
        refuse_long_item(len(text))
    return text


def refuse_long_item(size: int) -> NoReturn:
    """Raise PayloadTooLarge for a call whose arguments are too long together."""
    raise PayloadTooLarge(f"the arguments together take {size:,} bytes; pass them as one list or dict", "$")


def _no_reference(value: object) -> None:
    return None


def holds(value: object, found: Callable[[type], bool]) -> bool:
    """Whether a value is, or holds in lists, tuples, sets and dicts, an object of a type that `found` accepts.

    Containers of plain values are passed over at C speed.
    """
    waiting: list[Any] = [value]
    seen: set[int] = set()
    while waiting:
        item = waiting.pop()
        kind = type(item)
        if kind in LEAF_TYPES:
            continue
        if found(kind):
            return True
        if isinstance(item, dict):
            members: list[Any] = [*item.values()]
        elif isinstance(item, (list, tuple, set, frozenset)):
            members = list(item)
        elif hasattr(kind, "__dataclass_fields__"):
            members = [getattr(item, name, None) for name in kind.__dataclass_fields__]
        else:
            continue
        if id(item) not in seen and not LEAF_TYPES.issuperset(map(type, members)):
            seen.add(id(item))
            waiting.extend(members)
    return False


def takes_long(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether encoding a call may hold up a loop: judged by a few members of each container, so in microseconds."""
    left = LONG_VALUES
    for values in (args, kwargs.values()):
        for value in values:
            if type(value) not in QUICK_TYPES:
                left -= _about(value, _DEPTH)
    return left < 0


def _about(value: Any, depth: int) -> int:
    """About how many values are in one."""
    kind = type(value)
    if kind is str:
        return 1 + len(value) // TEXT_A_VALUE
    if kind is dict:
        members: Any = value.values()
    elif kind in (list, tuple, set, frozenset):
        members = value
    else:  # what is of bytes goes to a file as it is; of other classes nothing is known
        return 1
    own = 1 if kind in (list, dict) else TYPED_VALUES
    sample = [member for member in islice(members, _SAMPLE) if type(member) not in QUICK_TYPES] if depth else []
    if not sample:
        return own + len(value)
    within = _SAMPLE + sum(_about(member, depth - 1) for member in sample)
    return own + len(value) * within // min(len(value), _SAMPLE)


def graph_of_one(kind: dict[str, Any], item: bytes, columns: list[int | None], **more: Any) -> bytes:
    """The container of a graph of one node, with its times and what else its header says."""
    builder = GraphBuilder()
    builder.add(0, item=item)
    header: dict[str, Any] = {"name": kind["name"], "kinds": [kind], **more}
    if columns:
        header["times"] = columns
    return encode(builder.finish(), header)
