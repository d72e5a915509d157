"""A run's graph as columns, built once by the submitter and read as it is by the scheduler.

Layout (compressed sparse rows, all indices are node numbers 0..n-1 in order of `add`):

    deps_off[i] .. deps_off[i+1]    slice of `deps`: data parents of node i, in argument order, repeats allowed
    after_off[i] .. after_off[i+1]  slice of `after`: control parents of node i (absent when there is none)
    succ_off[i] .. succ_off[i+1]    slice of `succ`: every edge from node i, data and control, repeats kept

so that a node waits for exactly (number of its deps + number of its afters) edges, and one pass over `succ` of a batch
of finished nodes finds what became ready. About 40 bytes a node with three parents, no object per node.

Container (what travels and what the log keeps): u32 header length, JSON header, then the columns one after the other,
each as little-endian machine integers, the item column as JSON text. Invariants checked by `decode`: lengths agree,
offsets ascend, no index is outside the graph. Acyclicity is checked once, by `GraphBuilder.finish`.
"""

from __future__ import annotations

import struct
import sys
from array import array
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, repeat
from typing import Any, Final

import orjson

from actors.protocol import limits
from actors.protocol.errors import CycleError, DuplicateNode, GraphError, MissingNode, ProtocolError

_LENGTH: Final = struct.Struct("<I")
_INDEX: Final = "I"
CONTAINER_VERSION: Final = 1


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

    def waits(self) -> list[int]:
        """Number of edges each node waits for."""
        off = self.deps_off
        counts = [b - a for a, b in zip(off, off[1:], strict=False)]
        if self.after_off is not None:
            more = self.after_off
            counts = [n + b - a for n, a, b in zip(counts, more, more[1:], strict=False)]
        return counts

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


class GraphBuilder:
    """Collects nodes and edges, then checks them and makes the columns.

    Nodes are numbered in order of `add`. Edges to earlier nodes cannot form a cycle, so only graphs that used `link`
    backwards are searched for one. Item texts are kept in one buffer, because each small `bytes` that orjson made would
    pin 4 KiB.
    """

    def __init__(self) -> None:
        self._deps_off = array(_INDEX, [0])
        self._deps = array(_INDEX)
        self._after: dict[int, list[int]] = {}
        self._kind_of = array(_INDEX)
        self._kinds_differ = False
        self._items = bytearray()
        self._items_count = 0
        self._ids: dict[int, str] = {}
        self._index_of: dict[str, int] = {}
        self._backward = False

    def __len__(self) -> int:
        return len(self._kind_of)

    def add(
        self,
        kind: int,
        deps: Sequence[int] = (),
        after: Sequence[int] = (),
        item: bytes | None = None,
        node_id: str | None = None,
    ) -> int:
        """Add a node and return its number.

        Args:
            kind: Number of its task kind.
            deps: Data parents in argument order.
            after: Control parents.
            item: JSON text of the stored item, or None.
            node_id: Its name; must be unique in the graph.

        Raises:
            DuplicateNode: The id is taken. MissingNode: a parent does not exist. GraphError: too many nodes.
        """
        node = len(self._kind_of)
        if node >= limits.NODES_PER_RUN_MAX:
            raise GraphError(f"a run has at most {limits.NODES_PER_RUN_MAX} nodes")
        for parent in chain(deps, after):
            if not 0 <= parent < node:
                raise MissingNode(f"node {node_id or node} depends on node number {parent}, which does not exist")
        if node_id is not None:
            self._name(node, node_id)
        self._deps.extend(deps)
        self._deps_off.append(len(self._deps))
        if after:
            self._after[node] = list(after)
        self._kind_of.append(kind)
        if kind:
            self._kinds_differ = True
        if item is not None:
            self._items += b"null," * (node - self._items_count) + item + b","
            self._items_count = node + 1
        return node

    def link(self, before: int, after: int) -> None:
        """Add a control edge between existing nodes, in either direction of numbering.

        Raises:
            MissingNode: One of them does not exist. GraphError: both are the same node.
        """
        size = len(self)
        if not (0 <= before < size and 0 <= after < size):
            raise MissingNode(f"edge {before} -> {after}: no such node")
        if before == after:
            raise GraphError(f"node {self.id_of(before)!r} cannot depend on itself")
        self._after.setdefault(after, []).append(before)
        self._backward = self._backward or before > after

    def id_of(self, node: int) -> str:
        """The node's id: the given one, or its number."""
        return self._ids.get(node, str(node))

    def index_of(self, node_id: str) -> int | None:
        """Number of the node with this given id."""
        return self._index_of.get(node_id)

    def finish(self) -> GraphColumns:
        """Check the graph and make its columns.

        Raises:
            CycleError: With the ids on one cycle, in order.
        """
        size = len(self)
        after_off, after = self._after_columns(size)
        succ_off, succ = _successors(size, self._deps_off, self._deps, after_off, after)
        items = None
        if self._items_count:
            text = self._items + b"null," * (size - self._items_count)
            items = orjson.loads(b"[" + text[:-1] + b"]")
        columns = GraphColumns(
            size,
            self._deps_off[:],
            self._deps[:],
            after_off,
            after,
            succ_off,
            succ,
            self._kind_of[:] if self._kinds_differ else None,
            items,
            dict(self._ids),
        )
        if self._backward:
            self._refuse_cycle(columns)
        return columns

    def _name(self, node: int, node_id: str) -> None:
        if node_id in self._index_of:
            raise DuplicateNode(f"node id {node_id!r} is used twice (nodes {self._index_of[node_id]} and {node})")
        self._ids[node] = node_id
        self._index_of[node_id] = node

    def _after_columns(self, size: int) -> tuple[array[int] | None, array[int] | None]:
        if not self._after:
            return None, None
        rows = [self._after.get(i, ()) for i in range(size)]
        return array(_INDEX, accumulate(map(len, rows), initial=0)), array(_INDEX, chain.from_iterable(rows))

    def _refuse_cycle(self, columns: GraphColumns) -> None:
        path = find_cycle(columns)
        if path:
            names = tuple(self.id_of(i) for i in path)
            shown = " -> ".join(names if len(names) <= 12 else (*names[:6], "...", *names[-5:]))
            raise CycleError(f"the graph has a cycle: {shown}", names)


def _successors(
    size: int, deps_off: array[int], deps: array[int], after_off: array[int] | None, after: array[int] | None
) -> tuple[array[int], array[int]]:
    """Turn the parent rows round (counting sort by parent): O(nodes + edges), about 0.1 us an edge."""
    parents: Any = deps
    children = chain.from_iterable(
        map(repeat, range(size), (b - a for a, b in zip(deps_off, deps_off[1:], strict=False)))
    )
    if after_off is not None and after is not None:
        parents = deps + after
        more = chain.from_iterable(
            map(repeat, range(size), (b - a for a, b in zip(after_off, after_off[1:], strict=False)))
        )
        children = chain(children, more)
    counts = [0] * size
    for parent in parents:
        counts[parent] += 1
    offsets = list(accumulate(counts, initial=0))
    succ = array(_INDEX, bytes(4 * len(parents)))
    place = offsets[:]
    for parent, child in zip(parents, children, strict=True):
        at = place[parent]
        succ[at] = child
        place[parent] = at + 1
    return array(_INDEX, offsets), succ


def find_cycle(columns: GraphColumns) -> list[int]:
    """Node numbers on one cycle, first repeated last; empty when there is none. Kahn's algorithm, then a walk."""
    waits = columns.waits()
    queue = deque(i for i, n in enumerate(waits) if n == 0)
    while queue:
        node = queue.popleft()
        for child in columns.succ[columns.succ_off[node] : columns.succ_off[node + 1]]:
            waits[child] -= 1
            if waits[child] == 0:
                queue.append(child)
    stuck = next((i for i, n in enumerate(waits) if n > 0), None)
    if stuck is None:
        return []
    seen: dict[int, int] = {}
    walk: list[int] = []
    node = stuck
    while node not in seen:
        seen[node] = len(walk)
        walk.append(node)
        node = next(p for p in columns.parents(node) if waits[p] > 0)
    cycle = walk[seen[node] :]
    cycle.reverse()
    return [*cycle, cycle[0]]


_COLUMNS: Final = ("deps_off", "deps", "after_off", "after", "succ_off", "succ", "kind_of")


def encode(columns: GraphColumns, header: dict[str, Any]) -> bytes:
    """The container bytes. `header` carries what the sender adds (name, kinds, key); it must be plain JSON."""
    parts: list[bytes] = []
    lengths: dict[str, int] = {}
    for name in _COLUMNS:
        column = getattr(columns, name)
        if column is not None:
            raw = column.tobytes() if sys.byteorder == "little" else _swapped(column).tobytes()
            lengths[name] = len(raw)
            parts.append(raw)
    if columns.items is not None:
        raw = orjson.dumps(columns.items)
        lengths["items"] = len(raw)
        parts.append(raw)
    head = {
        **header,
        "version": CONTAINER_VERSION,
        "size": columns.size,
        "columns": lengths,
        "ids": [[i, s] for i, s in columns.ids.items()],
    }
    text = orjson.dumps(head)
    if len(text) & 0xFF == ord("@"):  # where a container or the name of its blob may stand, "@" begins the name
        text += b" "
    return b"".join([_LENGTH.pack(len(text)), text, *parts])


def decode(data: bytes | memoryview) -> tuple[dict[str, Any], GraphColumns]:
    """Header and columns of a container.

    Raises:
        ProtocolError: Lengths do not agree, or an index is outside the graph.
    """
    view = memoryview(data)
    try:
        (length,) = _LENGTH.unpack_from(view)
        header = orjson.loads(view[4 : 4 + length])
        if header["version"] > CONTAINER_VERSION:
            raise ProtocolError(
                f"graph container of version {header['version']}, this program reads {CONTAINER_VERSION}"
            )
        at = 4 + length
        found: dict[str, Any] = {}
        for name, count in header["columns"].items():
            raw = view[at : at + count]
            at += count
            found[name] = orjson.loads(raw) if name == "items" else _column(raw)
        if at != len(view):
            raise ProtocolError("graph container has a wrong length")
    except (struct.error, KeyError, ValueError, TypeError) as broken:
        raise ProtocolError(f"graph container is malformed: {broken!r}") from broken
    columns = GraphColumns(
        header["size"],
        found["deps_off"],
        found["deps"],
        found.get("after_off"),
        found.get("after"),
        found["succ_off"],
        found["succ"],
        found.get("kind_of"),
        found.get("items"),
        dict(header["ids"]),
    )
    _check(columns)
    return header, columns


def _column(raw: memoryview) -> array[int]:
    column = array(_INDEX)
    column.frombytes(raw)
    return column if sys.byteorder == "little" else _swapped(column)


def _swapped(column: array[int]) -> array[int]:
    copy = column[:]
    copy.byteswap()
    return copy


def _check(columns: GraphColumns) -> None:
    size = columns.size
    pairs = [(columns.deps_off, columns.deps), (columns.succ_off, columns.succ)]
    if columns.after_off is not None and columns.after is not None:
        pairs.append((columns.after_off, columns.after))
    for offsets, values in pairs:
        if len(offsets) != size + 1 or offsets[0] != 0 or offsets[-1] != len(values):
            raise ProtocolError("graph container: offsets do not fit their column")
        if len(values) and max(values) >= size:
            raise ProtocolError("graph container: an edge leads outside the graph")
    if columns.kind_of is not None and len(columns.kind_of) != size:
        raise ProtocolError("graph container: kind column has a wrong length")
    if columns.items is not None and len(columns.items) != size:
        raise ProtocolError("graph container: item column has a wrong length")
