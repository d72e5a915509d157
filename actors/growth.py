"""Dynamic graphs: nodes that a task adds to its own run.

A block's numbers are relative to it; edges lead only to nodes of the block, because what exists has its rows already.
It counts only when its attempt succeeds. A block that cannot be added (the run would be too large, or the engine does
not know what a node needs) lets its attempt fail.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from actors.protocol import limits
from actors.protocol import messages as msg
from actors.protocol.errors import GraphError, MainspringError
from actors.protocol.graph import GraphColumns
from actors.protocol.kinds import Kind
from actors.protocol.records import RecordType
from actors.protocol.states import TriggerRule
from actors.reclass import kinds_of_block
from actors.run import Run
from actors.state_column import PENDING, READY

if TYPE_CHECKING:
    from actors.scheduler import Scheduler


def on_spawned(scheduler: Scheduler, message: msg.Spawned) -> None:
    """Keep the block until its attempt ends."""
    run, node, block = message.run, message.node, message.block
    try:
        size = run.size + block["n"] + sum(waiting["n"] for waiting, _ in run.rare.spawned.values())
        if size > limits.NODES_PER_RUN_MAX:
            raise GraphError(f"the run would have {size:,} nodes; at most {limits.NODES_PER_RUN_MAX:,}")
        if "calls" in block:
            check_calls(run, node, block)
        kinds = kinds_of_block(scheduler, run, node, block)
    except MainspringError as refusal:
        run.own_rare().refused[node] = refusal
        return
    run.own_rare().spawned[node] = (block, kinds)
    scheduler.log(RecordType.SPAWNED, message.raw)


def check_calls(run: Run, caller: int, block: dict[str, Any]) -> None:
    """Raise GraphError when a block of calls is too large or too deep."""
    digests, known = block["calls"], run.rare.calls.get(caller)
    count = len(digests) + (0 if known is None else len(known.nodes))
    if len(digests) != block["n"] or any(block.get("deps") or ()) or any(block.get("after") or ()):
        raise GraphError("calls do not depend on each other, and each has a digest")
    if count > limits.CALLS_PER_NODE_MAX:
        raise GraphError(f"a task makes at most {limits.CALLS_PER_NODE_MAX:,} calls, not {count:,}")
    depth = 1 + sum(1 for _ in _callers(run, caller))
    if depth > limits.CALL_DEPTH_MAX:
        raise GraphError(f"calls are nested at most {limits.CALL_DEPTH_MAX} deep; does it call itself without an end?")


def _callers(run: Run, node: int) -> Iterator[int]:
    """Who called a node, who called that one, and so on."""
    callers = run.rare.callers
    while (caller := callers.get(node)) is not None:
        yield caller
        node = caller


def attach_spawned(scheduler: Scheduler, run: Run, nodes: Sequence[int]) -> Iterator[tuple[int, int, list[int]]]:
    """Attach what these nodes, which succeeded, wanted to add; yields each, how many it added, those that are READY."""
    for node in [n for n in nodes if n in run.rare.spawned]:
        block, kinds = run.rare.spawned.pop(node)
        if not run.cancel_asked:
            scheduler.book.grew(block["n"])
            yield node, block["n"], append_block(run, block, kinds)


def without_refused(message: msg.Finished) -> tuple[msg.Finished, list[msg.AttemptFailed]]:
    """Take those out that wanted to add what cannot be added: they failed."""
    groups: list[Any] = []
    failed: list[msg.AttemptFailed] = []
    for run, nodes, values, started_ns, ends in message.groups:
        before = 0
        for node, value, end in zip(nodes, values, ends, strict=True):
            refusal = run.rare.refused.pop(node, None) if run.rare.refused else None
            if refusal is None:
                groups.append((run, [node], [value], started_ns + before, [end - before]))
            else:
                failure = {"kind": "error", "type": type(refusal).__name__, "message": str(refusal), "traceback": ""}
                times = (started_ns + before, started_ns + end)
                failed.append(msg.AttemptFailed(run, node, failure, message.pid, *times))
            before = end
    return msg.Finished(message.pid, groups, None), failed


def append_block(run: Run, block: dict[str, Any], kinds: list[Kind], caller: int | None = None) -> list[int]:
    """Add spawned nodes behind the existing ones; returns those that are READY. Edges are inside the block only, and
    from all its nodes to the caller, where one waits for them.
    """
    base = run.size
    if run.columns is None:
        run.columns = GraphColumns.edgeless(base, None)
    columns = run.columns
    count = block["n"]
    if not run.waits:
        run.waits = [0] * base
    if columns.kind_of is None:
        columns.kind_of = array("I", bytes(4 * base))
    place = {kind: at for at, kind in enumerate(run.kinds)}
    for kind in kinds:
        if kind not in place:
            place[kind] = len(run.kinds)
            run.kinds.append(kind)
    run.mixed = len(run.kinds) > 1
    columns.kind_of.extend(place[kinds[k]] for k in block["kind_of"])
    run.fan = max(run.fan, _append_edges(columns, block, base, count, () if caller is None else (caller,)))
    if caller is not None:
        run.waits[caller] += count
    deps, after = block.get("deps") or [()] * count, block.get("after") or [()] * count
    run.waits.extend(len(d) + len(a) for d, a in zip(deps, after, strict=True))
    if run.items is None:
        run.items = [None] * base
    run.items.extend(block.get("items") or [None] * count)
    if columns.items is not None:
        columns.items = run.items
    for index, name in enumerate(block.get("ids") or []):
        if name is not None:
            columns.ids[base + index] = name
    run.state.extend(bytes(count))
    if run.tally is not None:
        run.tally[PENDING] += count
    if run.marks is not None:
        run.marks.extend(bytes(count))
    run.results.extend([None] * count)
    run.size += count
    run.open += count
    run.special = run.special or any(k.trigger is TriggerRule.ANY_SUCCEEDED for k in kinds)
    fresh = [n for n in range(base, run.size) if not run.waits[n]]
    for node in fresh:
        run.move(node, READY)
    return fresh


def _append_edges(columns: GraphColumns, block: dict[str, Any], base: int, count: int, behind: Sequence[int]) -> int:
    """Returns the largest number of edges that lead on from one of the nodes."""
    deps, after = block.get("deps") or [[]] * count, block.get("after") or [[]] * count
    children: list[list[int]] = [[*behind] for _ in range(count)]
    for child in range(count):
        columns.deps.extend(base + p for p in deps[child])
        columns.deps_off.append(len(columns.deps))
        for parent in (*deps[child], *after[child]):
            children[parent].append(base + child)
    if any(after) and columns.after_off is None:
        columns.after_off, columns.after = array("I", bytes(4 * (base + 1))), array("I")
    if columns.after_off is not None and columns.after is not None:
        for row in after:
            columns.after.extend(base + p for p in row)
            columns.after_off.append(len(columns.after))
    for row in children:
        columns.succ.extend(row)
        columns.succ_off.append(len(columns.succ))
    columns.size += count
    return max(map(len, children), default=0)
