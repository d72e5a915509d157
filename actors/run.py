"""One execution of a graph as columns, and the only code that moves its nodes between states.

The columns (see `actors.protocol.graph` for the edges): `state` one byte a node, `waits` edges still open, `results`
what its children read. A batch of results is one pass over its edges. States move as `NODE_TABLE` says; the batch paths
below write the resulting state directly, because a table look-up per node would cost as much as the rest, and
`check_invariants` compares them with the table's meaning in tests.

Invariants
- `open` is the number of nodes in a state that is not terminal.
- A node with edges still open is PENDING, CANCELLED or (rule any-succeeded) started early.
- Results of nodes that did not succeed read as None.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, Final

from actors.protocol.graph import GraphColumns
from actors.protocol.kinds import Kind
from actors.protocol.states import NodeState, RunState, TriggerRule
from actors.rare import NO_RARE, Rare

PENDING: Final = int(NodeState.PENDING)
READY: Final = int(NodeState.READY)
LEASED: Final = int(NodeState.LEASED)
SUCCEEDED: Final = int(NodeState.SUCCEEDED)
FAILED: Final = int(NodeState.FAILED)
CANCELLED: Final = int(NodeState.CANCELLED)
SKIPPED: Final = int(NodeState.SKIPPED)
BACKOFF: Final = int(NodeState.BACKOFF)
PARKED: Final = int(NodeState.PARKED)
CANCELLING: Final = int(NodeState.CANCELLING)
TERMINAL_FIRST: Final = SUCCEEDED
TERMINAL_LAST: Final = SKIPPED


class Run:
    """State of one run. Made by `of_tasks` (no edges) or `of_graph`."""

    __slots__ = (
        "base_size",
        "cancel_asked",
        "clean",
        "columns",
        "created_ns",
        "frames",
        "is_graph",
        "is_map",
        "items",
        "key",
        "kinds",
        "lsn",
        "name",
        "no",
        "open",
        "results",
        "rare",
        "seq",
        "session",
        "size",
        "special",
        "state",
        "stirred",
        "waits",
    )

    def __init__(
        self, no: int, key: str, session: str, seq: int, created_ns: int, kinds: list[Kind], size: int
    ) -> None:
        self.no = no
        self.key = key
        self.name = ""
        self.session = session
        self.seq = seq
        self.lsn = 0
        self.created_ns = created_ns
        self.kinds = kinds
        self.size = self.base_size = self.open = size
        self.is_graph = self.is_map = False
        self.columns: GraphColumns | None = None
        self.items: list[Any] | None = None
        self.waits: list[int] = []
        self.state = bytearray(size)
        self.results: list[Any] = [None] * size
        self.clean = True
        self.special = False
        self.stirred = False
        self.cancel_asked = False
        self.rare = NO_RARE
        self.frames: list[tuple[int, bytes]] = []

    @staticmethod
    def of_tasks(
        no: int,
        key: str,
        session: str,
        seq: int,
        created_ns: int,
        kinds: list[Kind],
        kind_of: Sequence[int] | None,
        items: list[Any],
    ) -> Run:
        """A run of independent tasks: all nodes ready. `kind_of` indexes `kinds`, None when there is one kind."""
        run = Run(no, key, session, seq, created_ns, kinds, len(items))
        run.items = items
        run.state = bytearray(b"\1") * len(items)
        if kind_of is not None:
            run.columns = edgeless(len(items), array("I", kind_of))
        return run

    @staticmethod
    def of_graph(
        no: int, key: str, session: str, seq: int, created_ns: int, kinds: list[Kind], columns: GraphColumns
    ) -> Run:
        """A run of a graph: nodes without parents still have to be released with `roots`."""
        run = Run(no, key, session, seq, created_ns, kinds, columns.size)
        run.is_graph = True
        run.columns = columns
        run.items = columns.items
        run.waits = columns.waits()
        run.special = any(k.trigger is TriggerRule.ANY_SUCCEEDED for k in kinds)
        return run

    def own_rare(self) -> Rare:
        """The run's rare facts, to be written."""
        if self.rare is NO_RARE:
            self.rare = Rare()
        return self.rare

    # --- reading --------------------------------------------------------------------------------------------------

    def kind(self, node: int) -> Kind:
        """The node's kind."""
        columns = self.columns
        if columns is None or columns.kind_of is None:
            return self.kinds[0]
        return self.kinds[columns.kind_of[node]]

    def node_id(self, node: int) -> str:
        """The node's id: given, or its number."""
        return str(node) if self.columns is None else self.columns.ids.get(node, str(node))

    def counts(self) -> list[int]:
        """[pending, ready, running, succeeded, failed, cancelled, skipped]; parked and backoff count as ready."""
        count = self.state.count
        waiting = count(READY) + count(BACKOFF) + count(PARKED)
        return [
            count(PENDING),
            waiting,
            count(LEASED) + count(CANCELLING),
            count(SUCCEEDED),
            count(FAILED),
            count(CANCELLED),
            count(SKIPPED),
        ]

    def run_state(self) -> RunState:
        """RUNNING while a node is open, then by what happened to its nodes."""
        if self.open:
            return RunState.RUNNING
        if self.state.count(FAILED):
            return RunState.FAILED
        if self.state.count(CANCELLED):
            return RunState.CANCELLED
        return RunState.SUCCEEDED

    def parents(self, node: int) -> list[int]:
        """Data and control parents."""
        return [] if self.columns is None else self.columns.parents(node)

    def build_items(self, kind: Kind, nodes: Sequence[int]) -> list[Any]:
        """What each of the nodes of one kind is sent: its stored item and its parents' results."""
        items = self.items
        if kind.shape == "parents":
            columns = self.columns
            if columns is None:
                return [[]] * len(nodes)
            off, deps, get = columns.deps_off, columns.deps, self.results.__getitem__
            return [list(map(get, deps[off[n] : off[n + 1]])) for n in nodes]
        if kind.shape == "template":
            columns = self.columns
            if columns is None or items is None:
                return [None] * len(nodes)
            off, deps, get = columns.deps_off, columns.deps, self.results.__getitem__
            return [[items[n], list(map(get, deps[off[n] : off[n + 1]]))] for n in nodes]
        if items is None:
            return [None] * len(nodes)
        if _consecutive(nodes):
            return items[nodes[0] : nodes[-1] + 1]
        return [items[n] for n in nodes]

    # --- moving ---------------------------------------------------------------------------------------------------

    def roots(self) -> list[int]:
        """Release the nodes without parents; they are READY now."""
        waits, state = self.waits, self.state
        found = [n for n in range(self.size) if not waits[n] and not state[n]]
        for node in found:
            state[node] = READY
        return found

    def lease(self, nodes: Sequence[int]) -> Sequence[int]:
        """Mark nodes LEASED that are READY; returns those (all, unless the run was stirred by a cancel)."""
        state = self.state
        if self.stirred:
            nodes = [n for n in nodes if state[n] == READY]
        if _consecutive(nodes):
            state[nodes[0] : nodes[-1] + 1] = b"\2" * len(nodes)
        else:
            for node in nodes:
                state[node] = LEASED
        return nodes

    def succeed(self, nodes: Sequence[int], values: list[Any]) -> list[int]:
        """Enter results; returns the nodes that became READY. Children that must be skipped are settled on the way.

        This is the hot loop of the engine: about 0.5 us a node with three parents.
        """
        state, results = self.state, self.results
        count = len(nodes)
        self.open -= count
        if not self.waits:
            if _consecutive(nodes):
                first = nodes[0]
                state[first : first + count] = b"\3" * count
                results[first : first + count] = values
            else:
                for node, value in zip(nodes, values, strict=True):
                    state[node] = SUCCEEDED
                    results[node] = value
            return []
        columns = self.columns
        assert columns is not None
        waits, off, succ = self.waits, columns.succ_off, columns.succ
        ready: list[int] = []
        push = ready.append
        for node, value in zip(nodes, values, strict=True):
            state[node] = SUCCEEDED
            results[node] = value
            for child in succ[off[node] : off[node + 1]]:
                left = waits[child] - 1
                waits[child] = left
                if not left:
                    push(child)
        if self.special:
            ready += [c for n in nodes for c in succ[off[n] : off[n + 1]] if waits[c] and self._starts_early(c)]
        if self.clean and not self.special:
            for node in ready:
                state[node] = READY
            return ready
        return self._judge(ready)

    def settle(self, nodes: Iterable[int], ending: int) -> list[int]:
        """End nodes without success (FAILED, CANCELLED or SKIPPED); returns the nodes that became READY."""
        state = self.state
        touched: list[int] = []
        for node in nodes:
            state[node] = ending
            self.open -= 1
            touched.append(node)
        self.clean = False
        return self._judge(self._release_children(touched))

    def cancel_waiting(self, node: int | None) -> tuple[list[int], list[int], list[int]]:
        """Cancel one node, or all. Returns (cancelled at once, leased ones that must be stopped, nodes now READY)."""
        state = self.state
        chosen = range(self.size) if node is None else (node,)
        self.stirred = True
        at_once = [n for n in chosen if state[n] in (PENDING, READY, BACKOFF, PARKED)]
        leased = [n for n in chosen if state[n] == LEASED]
        for n in leased:
            state[n] = CANCELLING
        if node is None:
            for n in at_once:
                state[n] = CANCELLED
            self.open -= len(at_once)
            self.clean = False
            return at_once, leased, []
        return at_once, leased, self.settle(at_once, CANCELLED)

    def give_back(self, nodes: list[int]) -> list[int]:
        """Leased nodes that never started are READY again; returns them, without those whose cancel was asked."""
        state = self.state
        back = [n for n in nodes if state[n] == LEASED]
        for node in back:
            state[node] = READY
        return back

    def check_invariants(self) -> None:
        """Raise AssertionError when the columns contradict each other."""
        terminal = sum(self.state.count(s) for s in range(TERMINAL_FIRST, TERMINAL_LAST + 1))
        if self.open != self.size - terminal:
            raise AssertionError(
                f"run {self.key}: open is {self.open}, but {self.size - terminal} nodes are not terminal"
            )
        if not (len(self.state) == len(self.results) == self.size):
            raise AssertionError(f"run {self.key}: columns differ in length")
        if self.columns is None or not self.waits or self.cancel_asked:
            return
        for node in range(self.size):
            ended = sum(TERMINAL_FIRST <= self.state[p] <= TERMINAL_LAST for p in self._edges_in(node))
            if self.waits[node] != len(self._edges_in(node)) - ended:
                raise AssertionError(f"run {self.key}: node {node} waits for {self.waits[node]} edges")
            if self.waits[node] == 0 and self.state[node] == PENDING:
                raise AssertionError(f"run {self.key}: node {node} waits for nothing and is not queued")

    # --- inside ---------------------------------------------------------------------------------------------------

    def _edges_in(self, node: int) -> list[int]:
        columns = self.columns
        assert columns is not None
        found = list(columns.deps[columns.deps_off[node] : columns.deps_off[node + 1]])
        if columns.after is not None and columns.after_off is not None:
            found += columns.after[columns.after_off[node] : columns.after_off[node + 1]]
        return found

    def _release_children(self, nodes: list[int]) -> list[int]:
        if not self.waits:
            return []
        columns, waits = self.columns, self.waits
        assert columns is not None
        candidates: list[int] = []
        for node in nodes:
            for child in columns.succ[columns.succ_off[node] : columns.succ_off[node + 1]]:
                waits[child] -= 1
                if not waits[child]:
                    candidates.append(child)
        return candidates

    def _judge(self, candidates: list[int]) -> list[int]:
        """Apply the trigger rules; skipped nodes release their children in turn. No recursion: chains are long."""
        state = self.state
        ready: list[int] = []
        todo = deque(candidates)
        while todo:
            node = todo.popleft()
            if state[node] != PENDING:
                continue
            if rule_met(self.kind(node).trigger, [state[p] for p in self.parents(node)]):
                state[node] = READY
                ready.append(node)
            else:
                state[node] = SKIPPED
                self.open -= 1
                self.clean = False
                todo.extend(self._release_children([node]))
        return ready

    def _starts_early(self, node: int) -> bool:
        return self.state[node] == PENDING and self.kind(node).trigger is TriggerRule.ANY_SUCCEEDED


def _consecutive(nodes: Sequence[int]) -> bool:
    """Whether the nodes are n, n + 1, n + 2, ... in this order, so that a slice can stand for them."""
    if type(nodes) is range:
        return bool(nodes)
    return bool(nodes) and nodes[-1] - nodes[0] + 1 == len(nodes) and nodes == list(range(nodes[0], nodes[-1] + 1))


def rule_met(rule: TriggerRule, parents: list[int]) -> bool:
    """Whether a rule is met by parents that are all terminal (or, for any-succeeded, by one that succeeded)."""
    if rule is TriggerRule.ALL_SUCCEEDED:
        return all(s == SUCCEEDED for s in parents)
    if rule is TriggerRule.ALL_DONE:
        return True
    if rule is TriggerRule.NONE_FAILED:
        return not any(s in (FAILED, CANCELLED) for s in parents)
    return any(s == SUCCEEDED for s in parents)


def edgeless(size: int, kind_of: array[int] | None) -> GraphColumns:
    """Columns of a graph without edges."""
    zeros = array("I", bytes(4 * (size + 1)))
    return GraphColumns(size, zeros, array("I"), None, None, zeros[:], array("I"), kind_of, None, {})
