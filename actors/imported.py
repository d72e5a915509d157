"""Runs that come from elsewhere: the lines of `actors.exported` in IMPORTED records become runs of this log.

    "L" | u64 number of the run | u8 1: it begins here | JSON list of lines     ──► kept until the commit
    "C" | u64 first number | u64 last one [| u64 wall clock, ns]
        ──► the runs with these numbers are made and entered, all of them or none

Until the commit nothing is known of them: an import that was cut short leaves records that mean nothing. Numbers are
given by who writes the records, above all that were given before.

Who imports has `refuses` set: lines that do not make a run raise ProtocolError, KeyError and their kind, and nothing is
entered. Who reads a log finds such lines only where a part of them was lost; that run is lost, and the others are not.

Invariant: a run that was entered is one that `Run.check_invariants` accepts. Known limit: while a run is made, its
lines are objects, about a KiB a node.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, chain
from struct import Struct
from typing import TYPE_CHECKING, Any, Final

import orjson

from actors import wave
from actors.archived import credible
from actors.calls import Calls
from actors.exported import BY_FLAG, BY_NODE, STATES
from actors.once import Burst
from actors.protocol.errors import ProtocolError
from actors.protocol.graph import GraphColumns, decode, encode
from actors.protocol.graph_builder import find_cycle, successors
from actors.protocol.states import TriggerRule
from actors.rare import WHOLE
from actors.run import Run
from actors.state_column import CANCELLING, SUCCEEDED, TERMINAL_FIRST, TERMINAL_LAST

if TYPE_CHECKING:
    from actors.scheduler import Scheduler

Accept = Callable[[list[dict[str, Any]]], None]
_NUMBERS: Final[dict[str, int]] = {name: number for number, name in enumerate(STATES)}
_FRAME_NODES: Final = 4096
_PLAIN_FIELDS: Final = frozenset(
    ("after", "argument", "ended_ns", "id", "kind", "node", "parents", "pid", "result", "run", "started_ns", "state")
    + ("task", "type")
)
"""What a node that succeeded usually has."""
_INDEX: Final = "I"
LINES: Final = b"L"
COMMIT: Final = b"C"
_LINES_HEAD: Final = Struct("<cQB")
_COMMIT: Final = Struct("<cQQ")
_COMMIT_TIMED: Final = Struct("<cQQQ")


def lines_payload(no: int, begins: bool, lines: Sequence[bytes]) -> bytes:
    """A record with some lines of a run. `begins`: the first ones."""
    return _LINES_HEAD.pack(LINES, no, begins) + b"[" + b",".join(lines) + b"]"


def commit_payload(first_no: int, last_no: int, wall_ns: int = 0) -> bytes:
    """The record with which runs count, and when that was; 0: it does not say."""
    if wall_ns <= 0:
        return _COMMIT.pack(COMMIT, first_no, last_no)
    return _COMMIT_TIMED.pack(COMMIT, first_no, last_no, wall_ns)


def committed(payload: bytes) -> range:
    """Numbers of the runs that a record enters."""
    if payload[:1] != COMMIT:
        return range(0)
    _, first, last = _COMMIT.unpack_from(payload)
    return range(first, last + 1)


def committed_ns(payload: bytes) -> int | None:
    """When a record entered runs; None: it enters none, or does not say."""
    if payload[:1] != COMMIT or len(payload) != _COMMIT_TIMED.size:
        return None
    return int(_COMMIT_TIMED.unpack(payload)[-1])


class Incoming:
    """Lines of runs that were not committed yet.

    Attributes:
        refuses: Raise for what makes no run.
        lost: Numbers of runs that were committed and cannot be made.
    """

    def __init__(self) -> None:
        self.refuses = False
        self.lost: list[int] = []
        self._lines: dict[int, list[bytes]] = {}
        self._lsn: dict[int, int] = {}

    def take(self, scheduler: Scheduler, payload: bytes, lsn: int, accept: Accept) -> None:
        """Take an IMPORTED record. `accept` makes sure that node types have queues."""
        if payload[:1] == LINES:
            _, no, begins = _LINES_HEAD.unpack_from(payload)
            if begins:
                self._lines[no], self._lsn[no] = [], lsn
            self._lines.setdefault(no, []).append(payload)
            return
        _, first, last = _COMMIT.unpack_from(payload)
        built: list[tuple[Run, dict[str, Any]]] = []
        for no in range(first, last + 1):
            try:
                built.append(self._built(scheduler, no, accept))
            except (ProtocolError, LookupError, TypeError, ValueError):
                if self.refuses:
                    raise
                self.lost.append(no)
        for run, head in built:
            _enter(scheduler, run, head, lsn)
        scheduler.book.expect_no_at_least(last + 1)
        self._lines.clear()
        self._lsn.clear()

    def _built(self, scheduler: Scheduler, no: int, accept: Accept) -> tuple[Run, dict[str, Any]]:
        head, *lines = [line for part in self._lines[no] for line in orjson.loads(part[_LINES_HEAD.size :])]
        try:
            accept(head["kinds"])
            run = build(scheduler, no, head, lines, self._lsn[no])
            run.check_invariants()
        except (ArithmeticError, AssertionError, AttributeError) as broken:
            raise ProtocolError(f"run {head['run']!r} does not fit together: {broken}") from broken
        return run, head


def build(scheduler: Scheduler, no: int, head: dict[str, Any], lines: Sequence[dict[str, Any]], lsn: int) -> Run:
    """The run of these lines, not entered yet. Raises ProtocolError, or KeyError and its kind."""
    size = head["size"]
    nodes, stories, end = lines[:size], lines[size:-1], lines[-1]
    if end["type"] != "end" or end["nodes"] != size or [line["node"] for line in nodes] != list(range(size)):
        raise ProtocolError(f"run {head['run']!r} is not whole")
    kinds = scheduler.interned(head["kinds"])
    run = Run(no, head["run"], head["session"], head["seq"], head["created_ns"], kinds, size)
    run.name, run.lsn, run.base_size = head["name"], lsn, head["base_size"]
    run.is_graph, run.is_map = head["form"] == "graph", head["form"] == "map"
    run.items_bytes, run.results_bytes = head["bytes"]
    _place(run, head, nodes)
    _facts(run, head, nodes, stories, lsn)
    _states(run, head, nodes)
    run.frames = list(_frames(no, nodes))
    return run


def _place(run: Run, head: dict[str, Any], nodes: Sequence[dict[str, Any]]) -> None:
    """Graph, ids, kinds and arguments."""
    kinds = [line["kind"] for line in nodes]
    if not all(0 <= kind < len(run.kinds) for kind in kinds):
        raise ProtocolError(f"run {run.key!r} has nodes of a kind that is not there")
    ids = {line["node"]: line["id"] for line in nodes if "id" in line}
    items = [line.get("argument") for line in nodes]
    edges = any("parents" in line or "after" in line or "called_by" in line for line in nodes)
    if run.is_graph or edges or ids or len(run.kinds) > 1 or head.get("grown"):
        run.columns = columns = _columns(nodes, kinds if len(run.kinds) > 1 else None, ids, len(run.kinds))
        beginning, columns.beginning = columns.beginning, None
        assert beginning is not None
        if run.is_graph or head.get("grown"):
            run.waits, run.fan = beginning.waits, beginning.fan
        elif edges:
            raise ProtocolError(f"run {run.key!r} has edges, but is no graph")
    run.items = None if run.is_graph and not any(item is not None for item in items) else items
    if run.is_graph and run.columns is not None:
        run.columns.items = run.items
    run.special = run.is_graph and any(kind.trigger is TriggerRule.ANY_SUCCEEDED for kind in run.kinds)


def _columns(
    nodes: Sequence[dict[str, Any]], kinds: list[int] | None, ids: dict[int, str], kinds_count: int
) -> GraphColumns:
    """Checked columns: no edge leads outside, and none in a circle."""
    size = len(nodes)
    deps_off, deps = _rows(line.get("parents", ()) for line in nodes)
    after_off = after = None
    if any("after" in line for line in nodes):
        after_off, after = _rows(line.get("after", ()) for line in nodes)
    if max(chain(deps, after or ()), default=-1) >= size:
        raise ProtocolError("an edge leads outside the graph")
    succ_off, succ = successors(size, deps_off, deps, after_off, after)
    callers = {line["node"]: line["called_by"] for line in nodes if "called_by" in line}
    if callers:
        rows = [succ[succ_off[node] : succ_off[node + 1]].tolist() for node in range(size)]
        for node, caller in callers.items():
            rows[node].insert(0, caller)
        succ_off, succ = _rows(rows)
    kind_of = None if kinds is None else array(_INDEX, kinds)
    made = GraphColumns(size, deps_off, deps, after_off, after, succ_off, succ, kind_of, None, ids)
    columns = decode(encode(made, {"kinds": [None] * kinds_count}))[1]
    if not callers and find_cycle(columns):
        raise ProtocolError("the graph has a cycle")
    return columns


def _rows(rows: Iterable[Sequence[int]]) -> tuple[array[int], array[int]]:
    held = list(rows)
    return array(_INDEX, accumulate(map(len, held), initial=0)), array(_INDEX, chain.from_iterable(held))


def _facts(
    run: Run, head: dict[str, Any], nodes: Sequence[dict[str, Any]], stories: Sequence[dict[str, Any]], lsn: int
) -> None:
    """What few nodes have, and the story."""
    few = [line for line in nodes if line["state"] != STATES[SUCCEEDED] or not line.keys() <= _PLAIN_FIELDS]
    for attribute, name in BY_NODE.items():
        found = {line["node"]: line[name] for line in few if name in line}
        if found:
            getattr(run.own_rare(), attribute).update(found)
    for attribute, name in BY_FLAG.items():
        marked = [line["node"] for line in few if line.get(name)]
        if marked:
            getattr(run.own_rare(), attribute).update(marked)
    for line in few:
        if "calls" in line:
            made = run.own_rare().calls[line["node"]] = Calls()
            made.nodes, made.digests, made.waits = (line["calls"][name] for name in ("nodes", "digests", "waits"))
        if "started_ns" in line and line["state"] != STATES[SUCCEEDED]:
            run.own_rare().ended[line["node"]] = (line["started_ns"], line["ended_ns"], line["pid"])
    if "class" in head:
        run.own_rare().classes[WHOLE] = head["class"]
    if "cancelled_ns" in head:
        run.own_rare().ended_early[WHOLE] = head["cancelled_ns"]
    if head.get("revived"):
        run.own_rare().revived = True
    if head.get("known_as"):
        run.own_rare().known_as = head["known_as"]
    if (debounce := head.get("debounce")) is not None:
        wait_ns, until_ns, calls, files = debounce
        burst = run.own_rare().debounce = Burst(wait_ns, until_ns)
        burst.calls, burst.files = calls, dict.fromkeys(files, 0)
    for line in stories:
        told = (line["at_ns"], line["node"], line["event"], line["detail"], lsn)
        run.own_rare().events.append(told)


def _states(run: Run, head: dict[str, Any], nodes: Sequence[dict[str, Any]]) -> None:
    """States and results, and what follows from them."""
    run.state = bytearray(_NUMBERS[line["state"]] for line in nodes)
    run.results = [line.get("result") for line in nodes]
    over = sum(run.state.count(state) for state in range(TERMINAL_FIRST, TERMINAL_LAST + 1))
    run.open = run.size - over
    run.cancel_asked = bool(head.get("cancel_asked"))
    run.clean = over == run.state.count(SUCCEEDED) and not (run.cancel_asked or run.rare.revived)
    run.stirred = not run.clean or CANCELLING in run.state
    if run.waits:
        run.marks = bytearray(run.size)
        wave.recount(run, range(run.size))
        if run.clean:
            run.marks = None


def _frames(no: int, nodes: Sequence[dict[str, Any]]) -> Iterable[tuple[int, bytes, int, int]]:
    """The times of what succeeded, as the results of workers hold them."""
    for first in range(0, len(nodes), _FRAME_NODES):
        by_pid: dict[int, list[Any]] = {}
        for line in nodes[first : first + _FRAME_NODES]:
            if "started_ns" in line and line["state"] == STATES[SUCCEEDED]:
                took = line["ended_ns"] - line["started_ns"]
                by_pid.setdefault(line["pid"], []).append([0, no, [line["node"]], [None], line["started_ns"], [took]])
        for pid, groups in by_pid.items():
            yield 0, orjson.dumps([pid, groups]), groups[0][2][0], groups[-1][2][0]


def _enter(scheduler: Scheduler, run: Run, head: dict[str, Any], lsn: int) -> None:
    book = scheduler.book
    book.expect_no_at_least(run.no + 1)
    items_bytes = run.items_bytes
    book.add(run, run.seq if run.is_graph or run.is_map else run.seq + run.base_size - 1)
    book.weigh(run, items_bytes)
    for key, until_ns, digest in head.get("keys", ()):
        scheduler.keys.restore(orjson.dumps({"kept": [[key, run.key, until_ns, digest]]}), lsn)
    if not run.open:
        book.finish(run, lsn)
    if (ended_ns := credible(run, head.get("ended_ns"))) is not None:
        scheduler.ended_ns[run.no] = ended_ns
