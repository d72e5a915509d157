"""A run's graph as columns, and the container in which they travel. Made by `actors.protocol.graph_builder`.

Layout (compressed sparse rows, all indices are node numbers 0..n-1 in order of `GraphBuilder.add`):

    deps_off[i] .. deps_off[i+1]    slice of `deps`: data parents of node i, in argument order, repeats allowed
    after_off[i] .. after_off[i+1]  slice of `after`: control parents of node i (absent when there is none)
    succ_off[i] .. succ_off[i+1]    slice of `succ`: every edge from node i, data and control, repeats kept

so that a node waits for exactly (number of its deps + number of its afters) edges, and one pass over `succ` of a batch
of finished nodes finds what became ready. About 40 bytes a node with three parents, no object per node.

Container, which the log keeps as it came:

    u32 header length | JSON header | columns, one after the other, in the order of `columns` of the header

Columns of numbers are little-endian machine integers. `items` and `ids` (pairs of node and id) are JSON texts in
pieces, each a list, their lengths in `pieces` of the header, so that nobody must read millions of values in one go.
Version 1 has the items as one piece and the ids in the header; it is read for ever, because logs hold it.

Invariants checked by decoding: lengths agree, offsets ascend, no index is outside the graph. Decoding is cut into
slices of about 1 ms (`decode_slices`), because it happens in the engine's loop; `decode` takes them all at once.
"""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from operator import add, not_, sub
from typing import Any, Final, TypeVar, cast

import orjson

from actors.protocol.errors import ProtocolError

T = TypeVar("T")

_INDEX: Final = "I"
_INDEX_BYTES: Final = 4
SLICE_NODES: Final = 8192
"""Nodes, or edges, that a slice looks at: about 1 ms."""
CONTAINER_VERSION: Final = 2
PIECE_VALUES: Final = 4096
"""Values in one piece of JSON text, unless they are large."""
PIECE_BYTES: Final = 128 * 1024
"""A longer piece is halved while it has several values: about 1 ms to read."""
_LENGTH: Final = struct.Struct("<I")
_NUMBERS: Final = ("deps_off", "deps", "after_off", "after", "succ_off", "succ", "kind_of")
_TEXTS: Final = frozenset({"items", "ids"})


@dataclass(slots=True)
class Beginning:
    """What a run of a graph begins with: edges each node waits for, states, and the nodes that wait for none.

    `fan` is the largest number of edges that lead on from one node.
    """

    waits: list[int]
    state: bytearray
    roots: Sequence[int]
    fan: int


@dataclass(slots=True)
class GraphColumns:
    """The columns of one graph.

    `kind_of` is None when every node has kind 0, `items` is None when no node stores one.
    """

    size: int
    deps_off: array[int]
    deps: array[int]
    after_off: array[int] | None
    after: array[int] | None
    succ_off: array[int]
    succ: array[int]
    kind_of: array[int] | None
    items: list[Any] | None
    ids: dict[int, str]
    beginning: Beginning | None = None
    """Made by who decodes, so that admitting the graph takes no time; the run takes it over."""

    def begin(self) -> Generator[None, None, Beginning]:
        """Slices that end with the beginning.

        Raises:
            ProtocolError: Offsets do not ascend.
        """
        waits: list[int] = []
        state = bytearray()
        roots: list[int] = []
        fan = 0
        for first in range(0, self.size, SLICE_NODES):
            part = _row_lengths(self.deps_off, first)
            if self.after_off is not None:
                part = list(map(add, part, _row_lengths(self.after_off, first)))
            fan = max(fan, *_row_lengths(self.succ_off, first))
            waits += part
            state += bytes(map(not_, part))  # PENDING is 0, READY is 1
            roots += [node for node, left in enumerate(part, first) if not left]
            yield
        if len(roots) == self.size:
            return Beginning(waits, state, range(self.size), fan)
        return Beginning(waits, state, roots, fan)

    @staticmethod
    def edgeless(size: int, kind_of: Sequence[int] | None) -> GraphColumns:
        """Columns of a graph without edges."""
        zeros = array(_INDEX, bytes(4 * (size + 1)))
        kinds = None if kind_of is None else array(_INDEX, kind_of)
        return GraphColumns(size, zeros, array(_INDEX), None, None, zeros[:], array(_INDEX), kinds, None, {})

    def edges_in(self, node: int) -> list[int]:
        """Data parents, then control parents of a node, with repeats."""
        found = list(self.deps[self.deps_off[node] : self.deps_off[node + 1]])
        if self.after_off is not None and self.after is not None:
            found += self.after[self.after_off[node] : self.after_off[node + 1]]
        return found

    def parents(self, node: int) -> list[int]:
        """Data and control parents of a node, without repeats, in order."""
        return list(dict.fromkeys(self.edges_in(node)))


def ended(slices: Generator[None, None, T]) -> T:
    """What slices end with, without a pause between them."""
    while True:
        try:
            next(slices)
        except StopIteration as end:
            return cast("T", end.value)


def _row_lengths(offsets: array[int], first: int) -> list[int]:
    """Lengths of the rows of a slice."""
    part = offsets[first : first + SLICE_NODES + 1]
    found = list(map(sub, part[1:], part))
    if min(found, default=0) < 0:
        raise ProtocolError("graph container: offsets do not ascend")
    return found


def encode(columns: GraphColumns, header: dict[str, Any]) -> bytes:
    """The container bytes. `header` carries what the sender adds (name, kinds, key); it must be plain JSON."""
    parts: list[bytes] = []
    lengths: dict[str, int] = {}
    pieces: dict[str, list[int]] = {}
    for name in _NUMBERS:
        column = getattr(columns, name)
        if column is not None:
            raw = column.tobytes() if sys.byteorder == "little" else _swapped(column).tobytes()
            lengths[name] = len(raw)
            parts.append(raw)
    for name, values in (("items", columns.items), ("ids", list(columns.ids.items()))):
        if values:
            starts = range(0, len(values), PIECE_VALUES)
            texts = [text for at in starts for text in _texts(values, at, min(at + PIECE_VALUES, len(values)))]
            pieces[name] = list(map(len, texts))
            lengths[name] = sum(pieces[name])
            parts += texts
    head = {**header, "version": CONTAINER_VERSION, "size": columns.size, "columns": lengths, "pieces": pieces}
    text = orjson.dumps(head)
    if len(text) & 0xFF == ord("@"):  # where a container or the name of its blob may stand, "@" begins the name
        text += b" "
    return b"".join([_LENGTH.pack(len(text)), text, *parts])


def decode(data: bytes | memoryview) -> tuple[dict[str, Any], GraphColumns]:
    """Header and columns of a container.

    Raises:
        ProtocolError: Lengths do not agree, or an index is outside the graph.
    """
    return ended(decode_slices(data))


def decode_lean(data: bytes | memoryview) -> tuple[dict[str, Any], GraphColumns]:
    """As `decode`, without items, and without a look at edges: who follows some has them checked (`check_edges`) and
    works out the beginning before that.
    """
    try:
        header, found = ended(_read(memoryview(data), without="items"))
        columns = _columns(header, found)
        ended(_check_nodes(columns, len(header.get("kinds", ()))))
    except (struct.error, KeyError, ValueError, TypeError) as broken:
        raise ProtocolError(f"graph container is malformed: {broken!r}") from broken
    return header, columns


def decode_slices(data: bytes | memoryview) -> Generator[None, None, tuple[dict[str, Any], GraphColumns]]:
    """Slices that end with header and columns, the beginning of a run among them. Raises as `decode` does."""
    try:
        header, found = yield from _read(memoryview(data))
        columns = _columns(header, found)
        yield from check_edges(columns)
        yield from _check_nodes(columns, len(header.get("kinds", ())))
        columns.beginning = yield from columns.begin()
    except (struct.error, KeyError, ValueError, TypeError) as broken:
        raise ProtocolError(f"graph container is malformed: {broken!r}") from broken
    return header, columns


def _columns(header: dict[str, Any], found: dict[str, Any]) -> GraphColumns:
    return GraphColumns(
        header["size"],
        found["deps_off"],
        found["deps"],
        found.get("after_off"),
        found.get("after"),
        found["succ_off"],
        found["succ"],
        found.get("kind_of"),
        found.get("items"),
        found["ids"],
    )


def _read(view: memoryview, without: str = "") -> Generator[None, None, tuple[dict[str, Any], dict[str, Any]]]:
    (length,) = _LENGTH.unpack_from(view)
    header = orjson.loads(view[4 : 4 + length])
    if header["version"] > CONTAINER_VERSION:
        raise ProtocolError(f"graph container of version {header['version']}, this program reads {CONTAINER_VERSION}")
    at = 4 + length
    ids: dict[int, str] = dict(header.pop("ids", ()))
    found: dict[str, Any] = {"ids": ids}
    for name, count in header["columns"].items():
        raw = view[at : at + count]
        at += count
        if name == without:
            continue
        if name not in _TEXTS:
            found[name] = yield from _numbers(raw)
            continue
        values: Any = ids if name == "ids" else found.setdefault(name, [])
        add = values.update if name == "ids" else values.extend
        for piece in _cut(raw, header.get("pieces", {}).get(name) or [count]):
            add(orjson.loads(piece))
            yield
    if at != len(view):
        raise ProtocolError("graph container has a wrong length")
    return header, found


def _texts(values: Sequence[Any], first: int, stop: int) -> list[bytes]:
    """JSON of some values, in pieces that are not too long."""
    text = orjson.dumps(values[first:stop])
    if len(text) <= PIECE_BYTES or stop - first == 1:
        return [text]
    half = (first + stop) // 2
    return [*_texts(values, first, half), *_texts(values, half, stop)]


def _cut(raw: memoryview, lengths: Sequence[int]) -> Iterable[memoryview]:
    if sum(lengths) != len(raw):
        raise ProtocolError("graph container: pieces do not fit their column")
    at = 0
    for length in lengths:
        yield raw[at : at + length]
        at += length


def _numbers(raw: memoryview) -> Generator[None, None, array[int]]:
    column = array(_INDEX)
    step = SLICE_NODES * 32 * _INDEX_BYTES
    for at in range(0, len(raw), step):
        column.frombytes(raw[at : at + step])
        yield
    return column if sys.byteorder == "little" else _swapped(column)


def _swapped(column: array[int]) -> array[int]:
    copy = column[:]
    copy.byteswap()
    return copy


def check_edges(columns: GraphColumns) -> Generator[None, None, None]:
    """Slices. Raises ProtocolError: Offsets do not fit, or an edge leads outside the graph."""
    size = columns.size
    pairs = [(columns.deps_off, columns.deps), (columns.succ_off, columns.succ)]
    if columns.after_off is not None and columns.after is not None:
        pairs.append((columns.after_off, columns.after))
    for offsets, values in pairs:
        if len(offsets) != size + 1 or offsets[0] != 0 or offsets[-1] != len(values):
            raise ProtocolError("graph container: offsets do not fit their column")
        yield from _below(values, size, "an edge leads outside the graph")


def _check_nodes(columns: GraphColumns, kinds: int) -> Generator[None, None, None]:
    size = columns.size
    if columns.kind_of is not None:
        if len(columns.kind_of) != size:
            raise ProtocolError("graph container: kind column has a wrong length")
        yield from _below(columns.kind_of, kinds, "a node names a kind that is not there")
    if columns.items is not None and len(columns.items) != size:
        raise ProtocolError("graph container: item column has a wrong length")


def _below(values: array[int], bound: int, message: str) -> Generator[None, None, None]:
    for at in range(0, len(values), 2 * SLICE_NODES):
        if max(values[at : at + 2 * SLICE_NODES]) >= bound:
            raise ProtocolError(f"graph container: {message}")
        yield
