"""States of nodes as a column holds them: plain numbers, one byte a node, and what is asked of such a column.

The numbers are those of `actors.protocol.states.NodeState`; hot loops compare plain integers, which costs a third.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from actors.protocol.states import NodeState, TriggerRule

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
STATES: Final = tuple(map(int, NodeState))
TERMINAL_FIRST: Final = SUCCEEDED
TERMINAL_LAST: Final = SKIPPED

WAITING: Final = frozenset({PENDING, READY, BACKOFF, PARKED})
"""States of nodes that a cancel ends at once."""
CANCELLED_EARLY: Final[dict[str, Any]] = {
    "kind": "cancelled",
    "type": "",
    "message": "cancelled before it started",
    "traceback": "",
}
"""The failure of a node that was cancelled and never ran. Not stored by node: a million of them share it. Read only."""
CANCELS: Final = bytes(
    CANCELLED if state in WAITING else CANCELLING if state == LEASED else state for state in range(256)
)
"""What a cancel of the whole run makes of each state."""
CANCELS_BUT_PENDING: Final = bytes(state if state == PENDING else CANCELS[state] for state in range(256))
"""The same while it is not known yet which of the pending nodes were skipped before."""


def where(state: bytearray, value: int) -> list[int]:
    """Indices of this value, at the speed of `bytearray.find`."""
    found: list[int] = []
    at = state.find(value)
    while at >= 0:
        found.append(at)
        at = state.find(value, at + 1)
    return found


def rule_met(rule: TriggerRule, parents: list[int]) -> bool:
    """Whether a rule is met by parents that are all terminal (or, for any-succeeded, by one that succeeded)."""
    if rule is TriggerRule.ALL_SUCCEEDED:
        return all(s == SUCCEEDED for s in parents)
    if rule is TriggerRule.ALL_DONE:
        return True
    if rule is TriggerRule.NONE_FAILED:
        return not any(s in (FAILED, CANCELLED) for s in parents)
    return any(s == SUCCEEDED for s in parents)


def consecutive(nodes: Sequence[int]) -> bool:
    """Whether the nodes are n, n + 1, n + 2, ... in this order, so that a slice can stand for them."""
    if type(nodes) is range:
        return bool(nodes)
    return bool(nodes) and nodes[-1] - nodes[0] + 1 == len(nodes) and nodes == list(range(nodes[0], nodes[-1] + 1))
