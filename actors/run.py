"""One execution of a graph as columns, and the only code that moves its nodes between states.

The columns (see `actors.protocol.graph` for the edges): `state` one byte a node, `waits` edges still open, `results`
what its children read. A batch of results is one pass over its edges. States move as `NODE_TABLE` says; the batch paths
below write the resulting state directly, because a table look-up per node would cost as much as the rest, and
`check_invariants` compares them with the table's meaning in tests.

Invariants
- `open` is the number of nodes in a state that is not terminal.
- A node with edges still open is PENDING, CANCELLED or (rule any-succeeded) started early.
- Results of nodes that did not succeed read as None.
- `tally`, where it is kept, is the number of nodes in each state.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, Final

from actors.protocol.graph import GraphColumns, ended
from actors.protocol.kinds import Kind, several_queues
from actors.protocol.states import NodeState, RunState, TriggerRule
from actors.rare import NO_RARE, Rare
from actors.state_column import (
    BACKOFF,
    CANCELLED,
    CANCELLED_EARLY,
    CANCELLING,
    CANCELS,
    FAILED,
    LEASED,
    PARKED,
    PENDING,
    READY,
    SKIPPED,
    SUCCEEDED,
    TERMINAL_FIRST,
    TERMINAL_LAST,
    WAITING,
    consecutive,
    rule_met,
    where,
)
from actors.timing import ResultFrame

TALLY_NODES_MIN: Final = 4096
"""A run of so many nodes keeps count of its states: to count a million anew takes 7 ms, and it is asked for often."""


class Run:
    """State of one run. Made by `of_tasks` (no edges) or `of_graph`."""

    __slots__ = (
        "base_size", "cancel_asked", "clean", "columns", "created_ns", "frames", "fresh", "is_graph", "is_map", "items",
        "items_bytes", "key", "kinds", "lsn", "mixed", "name", "no", "open", "rare", "results", "results_bytes", "seq",
        "session", "size", "special", "state", "stirred", "tally", "waits",
    )  # fmt: skip

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
        self.mixed = several_queues(kinds)
        self.size = self.base_size = self.open = size
        self.is_graph = self.is_map = False
        self.columns: GraphColumns | None = None
        self.items: list[Any] | None = None
        self.items_bytes = self.results_bytes = 0
        self.waits: list[int] = []
        self.fresh: Sequence[int] = ()
        self.state = bytearray(size)
        self.results: list[Any] = [None] * size
        self.clean = True
        self.special = self.stirred = self.cancel_asked = False
        self.tally: list[int] | None = None
        self.rare = NO_RARE
        self.frames: list[ResultFrame] = []

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
            run.columns = GraphColumns.edgeless(len(items), kind_of)
        return run

    @staticmethod
    def of_graph(
        no: int, key: str, session: str, seq: int, created_ns: int, kinds: list[Kind], columns: GraphColumns
    ) -> Run:
        """A run of a graph: nodes without parents still have to be queued; see `roots`."""
        run = Run(no, key, session, seq, created_ns, kinds, columns.size)
        run.is_graph = True
        run.columns = columns
        run.items = columns.items
        begin, columns.beginning = columns.beginning or ended(columns.begin()), None
        run.waits, run.state, run.fresh = begin.waits, begin.state, begin.roots
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
        """[pending, ready, leased, succeeded, failed, cancelled, skipped]; parked and backoff count as ready.

        What is leased runs, or waits at its worker: see `actors.at_workers`.
        """
        n = self.tally
        if n is None:
            n = [self.state.count(int(state)) for state in NodeState]
            if self.size >= TALLY_NODES_MIN:
                self.tally = n
        waiting = n[READY] + n[BACKOFF] + n[PARKED]
        return [n[PENDING], waiting, n[LEASED] + n[CANCELLING], n[SUCCEEDED], n[FAILED], n[CANCELLED], n[SKIPPED]]

    def run_state(self) -> RunState:
        """RUNNING while a node is open, then by what happened to its nodes."""
        if self.open:
            return RunState.RUNNING
        if self.clean:
            return RunState.SUCCEEDED
        if FAILED in self.state:
            return RunState.FAILED
        if CANCELLED in self.state:
            return RunState.CANCELLED
        return RunState.SUCCEEDED

    def failure(self, node: int) -> dict[str, Any] | None:
        """How the node ended, if it ended without success; a skipped one has something only when it asked for that."""
        found = self.rare.failures.get(node)
        return CANCELLED_EARLY if found is None and self.state[node] == CANCELLED else found

    def first_failure(self) -> int | None:
        """The first node that failed; when none did, the first that was cancelled or asked to be skipped."""
        failed = self.state.find(FAILED)
        if failed >= 0:
            return failed
        cancelled = self.state.find(CANCELLED)
        return min([*self.rare.failures, *([cancelled] if cancelled >= 0 else [])], default=None)

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
        if kind.shape in ("mixed", "template"):
            columns = self.columns
            if columns is None or items is None:
                return [None] * len(nodes)
            off, deps, get = columns.deps_off, columns.deps, self.results.__getitem__
            return [[items[n], list(map(get, deps[off[n] : off[n + 1]]))] for n in nodes]
        if items is None:
            return [None] * len(nodes)
        if consecutive(nodes):
            return items[nodes[0] : nodes[-1] + 1]
        return [items[n] for n in nodes]

    # --- moving ---------------------------------------------------------------------------------------------------

    def roots(self) -> Sequence[int]:
        """Take the nodes without parents, which are READY from the beginning and not queued yet."""
        found, self.fresh = self.fresh, ()
        return found

    def move(self, node: int, state: int) -> None:
        """Put one node into a state that is not terminal."""
        self._count(self.state[node], state, 1)
        self.state[node] = state

    def lease(self, nodes: Sequence[int]) -> Sequence[int]:
        """Mark nodes LEASED that are READY; returns those (all, unless the run was stirred by a cancel)."""
        state = self.state
        if self.stirred:
            nodes = [n for n in nodes if state[n] == READY]
        if consecutive(nodes):
            state[nodes[0] : nodes[-1] + 1] = b"\2" * len(nodes)
        else:
            for node in nodes:
                state[node] = LEASED
        if self.tally is not None:
            self._count(READY, LEASED, len(nodes))
        return nodes

    def succeed(self, nodes: Sequence[int], values: list[Any]) -> list[int]:
        """Enter results; returns the nodes that became READY. Children that must be skipped are settled on the way.

        This is the hot loop of the engine: about 0.5 us a node with three parents.
        """
        state, results = self.state, self.results
        count = len(nodes)
        self.open -= count
        if self.tally is not None:
            stopping = sum(state[n] == CANCELLING for n in nodes) if self.stirred else 0
            self._count(CANCELLING, SUCCEEDED, stopping)
            self._count(LEASED, SUCCEEDED, count - stopping)
        if not self.waits:
            if consecutive(nodes):
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
            if self.tally is not None:
                self._count(PENDING, READY, len(ready))
            return ready
        return self._judge(ready)

    def settle(self, nodes: Iterable[int], ending: int) -> list[int]:
        """End nodes without success (FAILED, CANCELLED or SKIPPED); returns the nodes that became READY."""
        state = self.state
        touched: list[int] = []
        for node in nodes:
            self._count(state[node], ending, 1)
            state[node] = ending
            self.open -= 1
            touched.append(node)
        self.clean = False
        return self._judge(self._release_children(touched))

    def cancel_all(self) -> list[int]:
        """Cancel every node that waits; returns the leased ones, which must be stopped."""
        self.stirred = self.cancel_asked = True
        self.clean = False
        leased = where(self.state, LEASED)
        self.state = self.state.translate(CANCELS)
        self.tally = None
        self.open = self.state.count(CANCELLING)
        return leased

    def cancel_one(self, node: int) -> tuple[list[int], list[int]]:
        """Cancel one node. Returns ([it], if it is leased and must be stopped; nodes that became READY)."""
        self.stirred = True
        state = self.state[node]
        if state == LEASED:
            self.move(node, CANCELLING)
            return [node], []
        if state in WAITING:
            return [], self.settle([node], CANCELLED)
        return [], []

    def give_back(self, nodes: list[int]) -> list[int]:
        """Leased nodes that never started are READY again; returns them, without those whose cancel was asked."""
        state = self.state
        back = [n for n in nodes if state[n] == LEASED]
        for node in back:
            state[node] = READY
        self._count(LEASED, READY, len(back))
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
        if self.tally is not None and self.tally != [self.state.count(int(s)) for s in NodeState]:
            raise AssertionError(f"run {self.key}: the tally {self.tally} is not what the states are")
        if self.columns is None or not self.waits or self.cancel_asked:
            return
        for node in range(self.size):
            parents = self.columns.edges_in(node)
            ended = sum(TERMINAL_FIRST <= self.state[p] <= TERMINAL_LAST for p in parents)
            if self.waits[node] != len(parents) - ended:
                raise AssertionError(f"run {self.key}: node {node} waits for {self.waits[node]} edges")
            if self.waits[node] == 0 and self.state[node] == PENDING:
                raise AssertionError(f"run {self.key}: node {node} waits for nothing and is not queued")

    # --- inside ---------------------------------------------------------------------------------------------------

    def _count(self, before: int, after: int, nodes: int) -> None:
        tally = self.tally
        if tally is not None:
            tally[before] -= nodes
            tally[after] += nodes

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
                self._count(PENDING, SKIPPED, 1)
                self.open -= 1
                self.clean = False
                todo.extend(self._release_children([node]))
        self._count(PENDING, READY, len(ready))
        return ready

    def _starts_early(self, node: int) -> bool:
        return self.state[node] == PENDING and self.kind(node).trigger is TriggerRule.ANY_SUCCEEDED
