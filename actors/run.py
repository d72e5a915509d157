"""One execution of a graph as columns. Only this, `actors.wave` and `actors.revival` move nodes.

The columns (see `actors.protocol.graph` for the edges): `state` one byte a node, `waits` edges still open, `results`
what its children read. A batch of results is one pass over its edges; what has more of them behind it, and all that
ends without success, reaches its children in the wave. States move as `NODE_TABLE` says; the batch paths
below write the resulting state directly, because a table look-up per node would cost as much as the rest, and
`check_invariants` compares them with the table's meaning in tests.

Invariants
- `open` is the number of nodes in a state that is not terminal.
- A node with edges still open is PENDING, CANCELLED or (rule any-succeeded) started early.
- Results of nodes that did not succeed read as None.
- `tally`, where it is kept, is the number of nodes in each state.
- In a run whose cancel was asked nothing is PENDING but while there is a wave, and nothing joins the wave but from it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, Final

from actors import wave
from actors.protocol import limits
from actors.protocol.graph import GraphColumns, ended
from actors.protocol.kinds import Kind
from actors.protocol.states import NodeState, RunState, TriggerRule
from actors.rare import NO_RARE, Rare
from actors.state_column import (
    BACKOFF,
    CANCELLED,
    CANCELLED_EARLY,
    CANCELLING,
    CANCELS,
    CANCELS_BUT_PENDING,
    FAILED,
    LEASED,
    PARKED,
    PENDING,
    READY,
    SKIPPED,
    STATES,
    SUCCEEDED,
    TERMINAL_FIRST,
    TERMINAL_LAST,
    WAITING,
    consecutive,
    where,
)
from actors.timing import ResultFrame

TALLY_NODES_MIN: Final = 4096
"""A run of so many nodes keeps count of its states: to count a million anew takes 7 ms, and it is asked for often."""


class Run:
    """State of one run. Made by `of_tasks` (no edges) or `of_graph`."""

    __slots__ = (
        "base_size", "cancel_asked", "clean", "columns", "created_ns", "fan", "frames", "fresh", "is_graph", "is_map",
        "items", "items_bytes", "key", "kinds", "lsn", "marks", "mixed", "name", "no", "open", "rare", "results",
        "results_bytes", "seq", "session", "size", "special", "state", "stirred", "tally", "waits", "wave", "wave_at",
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
        self.mixed = len(kinds) > 1
        self.size = self.base_size = self.open = size
        self.is_graph = self.is_map = False
        self.columns: GraphColumns | None = None
        self.items: list[Any] | None = None
        self.items_bytes = self.results_bytes = 0
        self.waits: list[int] = []
        self.fan = self.wave_at = 0
        self.wave: deque[int] | None = None
        self.marks: bytearray | None = None
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
        run.waits, run.state, run.fresh, run.fan = begin.waits, begin.state, begin.roots, begin.fan
        if run.size >= TALLY_NODES_MIN:
            run.tally = [0] * len(NodeState)
            run.count(PENDING, READY, len(run.fresh))
            run.tally[PENDING] += run.size
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
            n = list(map(self.state.count, STATES))
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
        state = self.rare.without_called(self.state)
        if FAILED in state:
            return RunState.FAILED
        if CANCELLED in state:
            return RunState.CANCELLED
        return RunState.SUCCEEDED

    def failure(self, node: int) -> dict[str, Any] | None:
        """How the node ended, if it ended without success; a skipped one has something only when it asked for that."""
        found = self.rare.failures.get(node)
        return CANCELLED_EARLY if found is None and self.state[node] == CANCELLED else found

    def first_failure(self) -> int | None:
        """The first node that failed; when none did, the first that was cancelled or asked to be skipped."""
        state, called = self.rare.without_called(self.state), self.rare.callers
        failed = state.find(FAILED)
        if failed >= 0:
            return failed
        cancelled = state.find(CANCELLED)
        asked = (n for n in self.rare.failures if n not in called)
        return min([*asked, *([cancelled] if cancelled >= 0 else [])], default=None)

    def heavy_columns(self) -> list[list[Any]]:
        """Lists that take long to free."""
        if self.size < TALLY_NODES_MIN:
            return []
        return [column for column in (self.items, self.results, self.waits) if column]

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
        self.count(self.state[node], state, 1)
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
            self.count(READY, LEASED, len(nodes))
        return nodes

    def succeed(self, nodes: Sequence[int], values: list[Any], edges_max: int = limits.WAVE_EDGES_MAX) -> list[int]:
        """Enter results; returns the nodes that became READY. Children that must be skipped join the wave, and so do
        the nodes themselves when they have more than `edges_max` children.

        This is the hot loop of the engine: about 0.5 us a node with three parents.
        """
        state, results = self.state, self.results
        count = len(nodes)
        self.open -= count
        if self.tally is not None:
            stopping = sum(state[n] == CANCELLING for n in nodes) if self.stirred else 0
            self.count(CANCELLING, SUCCEEDED, stopping)
            self.count(LEASED, SUCCEEDED, count - stopping)
        many = self.fan * count > edges_max and self._edges_behind(nodes) > edges_max
        if many or not self.waits or self.cancel_asked:
            if consecutive(nodes):
                first = nodes[0]
                state[first : first + count] = b"\3" * count
                results[first : first + count] = values
            else:
                for node, value in zip(nodes, values, strict=True):
                    state[node] = SUCCEEDED
                    results[node] = value
            if many and not self.cancel_asked:
                wave.join(self, nodes)
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
            ready += [c for n in nodes for c in succ[off[n] : off[n + 1]] if waits[c] and self.starts_early(c)]
        if self.clean and not self.special:
            for node in ready:
                state[node] = READY
            if self.tally is not None:
                self.count(PENDING, READY, len(ready))
            return ready
        return wave.judge(self, ready)[0]

    def _edges_behind(self, nodes: Sequence[int]) -> int:
        """How many edges lead on from these nodes."""
        assert self.columns is not None
        off = self.columns.succ_off
        if consecutive(nodes):
            return off[nodes[-1] + 1] - off[nodes[0]]
        return sum(off[node + 1] - off[node] for node in nodes)

    def settle(self, nodes: Sequence[int], ending: int) -> bool:
        """End nodes without success (FAILED, CANCELLED or SKIPPED).

        Returns whether there are nodes behind them; these learn of it in the wave.
        """
        state = self.state
        for node in nodes:
            self.count(state[node], ending, 1)
            state[node] = ending
            self.open -= 1
        self.clean = False
        return bool(self.waits) and not self.cancel_asked and wave.join(self, nodes)

    def cancel_all(self) -> list[int]:
        """Cancel every node that waits; returns the leased ones, which must be stopped.

        While there is a wave, PENDING nodes stay so until it is done (`cancel_rest`): those that it reaches were
        skipped before the cancel came.
        """
        self.stirred = self.cancel_asked = True
        self.clean = False
        leased = where(self.state, LEASED)
        self._translate(CANCELS_BUT_PENDING if self.wave else CANCELS)
        return leased

    def cancel_rest(self) -> None:
        """The wave is done that there was when all were cancelled."""
        self._translate(CANCELS)

    def cancel_one(self, node: int) -> list[int]:
        """Cancel one node. Returns [it], if it is leased and must be stopped."""
        self.stirred = True
        state = self.state[node]
        if state == LEASED:
            self.move(node, CANCELLING)
            return [node]
        if state in WAITING:
            self.settle([node], CANCELLED)
        return []

    def give_back(self, nodes: list[int]) -> list[int]:
        """Leased nodes that never started are READY again; returns them, without those whose cancel was asked."""
        state = self.state
        back = [n for n in nodes if state[n] == LEASED]
        for node in back:
            state[node] = READY
        self.count(LEASED, READY, len(back))
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
        if self.cancel_asked and not self.wave and PENDING in self.state:
            raise AssertionError(f"run {self.key}: a node waits although all were cancelled")
        if self.waits and not self.cancel_asked:
            wave.check(self)

    def count(self, before: int, after: int, nodes: int) -> None:
        """So many nodes went from one state to another: keep the tally."""
        tally = self.tally
        if tally is not None:
            tally[before] -= nodes
            tally[after] += nodes

    def starts_early(self, node: int) -> bool:
        """Whether a first success is enough for this node."""
        if self.state[node] != PENDING or self.kind(node).trigger is not TriggerRule.ANY_SUCCEEDED:
            return False
        return not self.waits_for_calls(node)

    def waits_for_calls(self, node: int) -> bool:
        """Whether the node has begun, and goes on when what it called has ended, however that ends."""
        calls = self.rare.calls.get(node)
        return calls is not None and calls.waits

    def _translate(self, table: bytes) -> None:
        """Move all nodes from their states to others."""
        tally = self.tally
        self.state = self.state.translate(table)
        if tally is None:
            self.open = self.size - sum(self.state.count(s) for s in range(TERMINAL_FIRST, TERMINAL_LAST + 1))
            return
        moved = [0] * len(tally)
        for before, nodes in enumerate(tally):
            moved[table[before]] += nodes
        self.tally = moved
        self.open = self.size - sum(moved[TERMINAL_FIRST : TERMINAL_LAST + 1])
