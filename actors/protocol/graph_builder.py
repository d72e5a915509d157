"""Building a graph: nodes and edges one by one, then the columns (`actors.protocol.graph`). Done by the submitter.

Acyclicity is checked once, by `GraphBuilder.finish`: what it made has no cycle, and nobody looks again.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Sequence
from itertools import accumulate, chain, repeat
from typing import Any, Final

import orjson

from actors.protocol import limits
from actors.protocol.errors import CycleError, DuplicateNode, GraphError, MissingNode
from actors.protocol.graph import GraphColumns, ended

_INDEX: Final = "I"


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
            DuplicateNode: The id is taken. MissingNode: a parent does not exist. GraphError: too many nodes, or the id
                cannot be one.
        """
        node = len(self._kind_of)
        if node >= limits.NODES_PER_RUN_MAX:
            raise GraphError(f"a run has at most {limits.NODES_PER_RUN_MAX} nodes")
        for parent in chain(deps, after):
            if not 0 <= parent < node:
                raise MissingNode(f"node {node_id or node} depends on node number {parent}, which does not exist")
        if node_id is not None:
            _check_id(node_id)
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
        succ_off, succ = successors(size, self._deps_off, self._deps, after_off, after)
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


def successors(
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
    waits = ended(columns.begin()).waits
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


def _check_id(name: str) -> None:
    """Refuse an id that no JSON text can hold, or that is too long for a name."""
    try:
        size = len(name) if name.isascii() else len(name.encode())
    except UnicodeEncodeError:
        raise GraphError(f"node id {name!a:.200} holds a lone surrogate") from None
    except AttributeError:
        raise GraphError(f"a node id must be a string, not {name!r:.200}") from None
    if size > limits.NAME_BYTES_MAX:
        raise GraphError(f"a node id has at most {limits.NAME_BYTES_MAX:,} bytes, not {size:,}: {name!a:.60}...")
