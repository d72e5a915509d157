"""What the object pools of a running program hold, for `status`: asked of the workers that have lent something."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import orjson

from actors.pool_things import PoolThings
from actors.protocol.errors import MainspringError
from runtime.profile.ledger.kinds import CHECKOUT
from runtime.profile.presence.control import ask, rows_of

PATIENCE_S: Final = 1.0
"""Who does not answer within it is at something, and goes without a line."""


def with_pools(state: Path, summary: dict[str, Any]) -> dict[str, Any]:
    """The summary with `objects`: for each node type and pool what `rt.statistics()` has of it.

    Args:
        state: The folder.
        summary: Of `summarise`.
    """
    if summary.get("owner_pid") and (lenders := _lenders(state)):
        by_type: dict[str, PoolThings] = {}
        try:
            answers = ask(state, "pools", timeout=PATIENCE_S, only=lenders)
        except MainspringError:  # it ends at this moment
            return summary
        for process, said in answers.rows:
            by_type.setdefault(process.node_type, PoolThings()).told(process.pid, orjson.loads(said))
        summary["objects"] = [
            {"node_type": name, **row} for name, things in sorted(by_type.items()) for row in things.rows()
        ]
    return summary


def _lenders(state: Path) -> frozenset[int]:
    """Workers that have ever lent something, as of what they showed last."""
    return frozenset(
        row.process.pid
        for row in rows_of(state)
        if row.process.role == "worker" and CHECKOUT in row.counts and row.counts[CHECKOUT].created
    )


def pool_lines(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """One line for each pool: how it stands, and how often its things were used again."""
    return [f"{'' if at else 'pools':15}{_line(row)}" for at, row in enumerate(rows)]


def _line(row: Mapping[str, Any]) -> str:
    return (
        f"{row['pool']} of {row['node_type']}: {row['lent']:,} lent, {row['idle']:,} idle, {row['waiting']:,} wait; "
        f"made {row['made']:,}, used again {row['reused']:,}, closed {sum(row['closed'].values()):,}, "
        f"failed {row['failed']:,}"
    )
