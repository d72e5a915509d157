"""Runs that are kept for their dead letters are written to the log again, so that it can be cut behind them.

    carry ──► DEAD record "K": all of a finished run ──► log; what was below it may go
    restore ◄── the same record, where the log has nothing else of the run any more

A run is written again at most once for each time that the log's floor passes what it has of it, as idempotency keys
are. What is written is what `dead`, `replay` and `rerun` need: graph, items, results, states, how nodes failed. What is
not: when nodes ran, and the story. Values in blob files stay where they are, since the run is not forgotten.

Layout: "K" | u32 length | JSON head | container of the graph (`actors.protocol.graph`), without items
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final

import orjson

from actors.calls import Calls
from actors.once import Burst
from actors.protocol.graph import GraphColumns, decode, encode
from actors.protocol.records import RecordType
from actors.protocol.states import TriggerRule
from actors.run import Run

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors.scheduler import Scheduler

MARK: Final = b"K"
CARRY_BYTES_PER_TURN: Final = 256 * 1024
"""Of runs that are written again; one at least. The others hold the floor until the next look."""
_LENGTH: Final = struct.Struct("<I")
_BY_NODE: Final = ("attempts", "callers", "classes", "crashes", "died", "ended_early", "failures")
"""What is kept of `Rare`."""


def carry(scheduler: Scheduler) -> int:
    """Write again what alone keeps the log from being cut; returns the floor."""
    spent = 0
    for run in scheduler.book.below_floor(scheduler.lsn + 1):
        payload = snapshot(run, scheduler.ended_ns.get(run.no))
        scheduler.book.put_aside(run, scheduler.log(RecordType.DEAD, payload))
        spent += len(payload)
        if spent > CARRY_BYTES_PER_TURN:
            break
    return scheduler.book.floor(scheduler.lsn + 1)


def snapshot(run: Run, ended_ns: int | None) -> bytes:
    """All that is kept of a finished run."""
    columns = run.columns or GraphColumns.edgeless(run.size, None)
    head = {
        "no": run.no,
        "key": run.key,
        "name": run.name,
        "session": run.session,
        "seq": run.seq,
        "created_ns": run.created_ns,
        "ended_ns": ended_ns,
        "base_size": run.base_size,
        "shape": [run.is_graph, run.is_map, bool(run.waits)],
        "bytes": [run.items_bytes, run.results_bytes],
        "kinds": [orjson.loads(kind.text) for kind in run.kinds],
        "state": run.state.hex(),
        "items": run.items,
        "results": run.results,
        "known_as": run.rare.known_as,
        "joined": None if run.rare.debounce is None else [*run.rare.debounce.files],
        "discarded": sorted(run.rare.discarded),
        "calls": [[caller, calls.nodes, calls.digests] for caller, calls in run.rare.calls.items()],
        **{name: list(getattr(run.rare, name).items()) for name in _BY_NODE},
    }
    text = orjson.dumps(head)
    items, columns.items = columns.items, None
    try:
        body = encode(columns, {"kinds": [None] * len(run.kinds)})
    finally:
        columns.items = items
    return b"".join([MARK, _LENGTH.pack(len(text)), text, body])


def restore(scheduler: Scheduler, payload: bytes, lsn: int, accept: Callable[[list[dict[str, Any]]], None]) -> int:
    """Take such a record of the log; returns the run's number. `accept` makes sure that node types have queues."""
    (length,) = _LENGTH.unpack_from(payload, 1)
    head = orjson.loads(payload[5 : 5 + length])
    book = scheduler.book
    known = book.finished.get(head["no"]) or book.live.get(head["no"])
    if known is not None:
        book.put_aside(known, lsn)
        return known.no
    accept(head["kinds"])
    run = _run_of(scheduler, head, decode(memoryview(payload)[5 + length :])[1])
    book.restore(run, lsn)
    if head["ended_ns"] is not None:
        scheduler.ended_ns[run.no] = head["ended_ns"]
    return run.no


def _run_of(scheduler: Scheduler, head: dict[str, Any], columns: GraphColumns) -> Run:
    kinds = scheduler.interned(head["kinds"])
    state = bytearray.fromhex(head["state"])
    run = Run(head["no"], head["key"], head["session"], head["seq"], head["created_ns"], kinds, len(state))
    run.name = head["name"]
    run.base_size = head["base_size"]
    run.is_graph, run.is_map, edges = head["shape"]
    run.items_bytes, run.results_bytes = head["bytes"]
    run.columns, run.items = columns, head["items"]
    beginning, columns.beginning = columns.beginning, None
    if run.is_graph:
        columns.items = run.items
    if edges and beginning is not None:
        run.waits, run.fan = beginning.waits, beginning.fan
    run.state, run.results = state, head["results"]
    run.open, run.clean = 0, False
    run.special = run.is_graph and any(kind.trigger is TriggerRule.ANY_SUCCEEDED for kind in kinds)
    rare = run.own_rare()
    for name in _BY_NODE:
        getattr(rare, name).update(head.get(name, ()))
    rare.known_as = head.get("known_as", "")
    if (joined := head.get("joined")) is not None:
        rare.debounce = Burst(0, 0)  # it waits for no further calls
        rare.debounce.files = dict.fromkeys(joined, 0)
    rare.discarded.update(head["discarded"])
    for caller, nodes, digests in head.get("calls", ()):
        made = rare.calls[caller] = Calls()
        made.nodes, made.digests = nodes, digests
    return run
