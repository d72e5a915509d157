"""Dynamic graphs: nodes that a task adds to its own run.

A block's numbers are relative to it; edges lead only to nodes of the block, because what exists has its rows already.
"""

from __future__ import annotations

from array import array
from typing import Any

from actors.protocol.graph import GraphColumns
from actors.protocol.kinds import Kind
from actors.protocol.states import TriggerRule
from actors.run import Run
from actors.state_column import PENDING, READY


def append_block(run: Run, block: dict[str, Any], kinds: list[Kind]) -> list[int]:
    """Add spawned nodes behind the existing ones; returns those that are READY. Edges are inside the block only."""
    base = run.size
    if run.columns is None:
        run.columns = GraphColumns.edgeless(base, None)
    columns = run.columns
    count = block["n"]
    if not run.waits:
        run.waits = [0] * base
    if columns.kind_of is None:
        columns.kind_of = array("I", bytes(4 * base))
    shift = len(run.kinds)
    run.kinds = run.kinds + kinds
    columns.kind_of.extend(shift + k for k in block["kind_of"])
    _append_edges(columns, block, base, count)
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
    run.results.extend([None] * count)
    run.size += count
    run.open += count
    run.special = run.special or any(k.trigger is TriggerRule.ANY_SUCCEEDED for k in kinds)
    fresh = [n for n in range(base, run.size) if not run.waits[n]]
    for node in fresh:
        run.move(node, READY)
    return fresh


def _append_edges(columns: GraphColumns, block: dict[str, Any], base: int, count: int) -> None:
    deps, after = block.get("deps") or [[]] * count, block.get("after") or [[]] * count
    children: list[list[int]] = [[] for _ in range(count)]
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
